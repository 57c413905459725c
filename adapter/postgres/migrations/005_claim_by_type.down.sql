DROP INDEX {{schema}}.ready_claim;
ALTER TABLE {{schema}}.ready DROP COLUMN type;
ALTER TABLE {{schema}}.scheduled DROP COLUMN type;
ALTER TABLE {{schema}}.running DROP COLUMN type;
CREATE INDEX ready_claim ON {{schema}}.ready (queue, priority, run_at, id);
