-- Who paused or resumed the queue last.
ALTER TABLE {{schema}}.queue ADD COLUMN actor text NOT NULL DEFAULT '';
