ALTER TABLE tenet_total DROP COLUMN retries;
ALTER TABLE tenet_total DROP COLUMN attempts;
ALTER TABLE tenet_total DROP COLUMN all_cancelled;
ALTER TABLE tenet_total DROP COLUMN all_dead;
ALTER TABLE tenet_total DROP COLUMN all_completed;
ALTER TABLE tenet_total DROP COLUMN enqueued;
