ALTER TABLE {{schema}}.total_change DROP COLUMN enqueued, DROP COLUMN all_completed, DROP COLUMN all_dead, DROP COLUMN all_cancelled, DROP COLUMN attempts, DROP COLUMN retries;
ALTER TABLE {{schema}}.total DROP COLUMN enqueued, DROP COLUMN all_completed, DROP COLUMN all_dead, DROP COLUMN all_cancelled, DROP COLUMN attempts, DROP COLUMN retries;
