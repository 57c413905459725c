-- Who paused or resumed the queue last.
ALTER TABLE tenet_queue ADD COLUMN actor TEXT NOT NULL DEFAULT '';
