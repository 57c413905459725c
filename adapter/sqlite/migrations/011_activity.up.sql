-- What has happened in each queue: counters that only grow.
ALTER TABLE tenet_total ADD COLUMN enqueued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenet_total ADD COLUMN all_completed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenet_total ADD COLUMN all_dead INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenet_total ADD COLUMN all_cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenet_total ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenet_total ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
