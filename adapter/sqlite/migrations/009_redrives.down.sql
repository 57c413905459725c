DROP TABLE tenet_redrive_pending;
DROP TABLE tenet_redrive_waiting;
DROP TABLE tenet_redrive;
