ALTER TABLE {{schema}}.queue DROP COLUMN actor;
