ALTER TABLE tenet_queue DROP COLUMN actor;
