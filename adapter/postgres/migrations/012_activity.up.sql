-- What has happened in each queue: counters that only grow. In total_change a counter that a statement does not move is NULL,
-- which takes no space.
ALTER TABLE {{schema}}.total
    ADD COLUMN enqueued bigint NOT NULL DEFAULT 0,
    ADD COLUMN all_completed bigint NOT NULL DEFAULT 0,
    ADD COLUMN all_dead bigint NOT NULL DEFAULT 0,
    ADD COLUMN all_cancelled bigint NOT NULL DEFAULT 0,
    ADD COLUMN attempts bigint NOT NULL DEFAULT 0,
    ADD COLUMN retries bigint NOT NULL DEFAULT 0;
ALTER TABLE {{schema}}.total_change
    ADD COLUMN enqueued bigint,
    ADD COLUMN all_completed bigint,
    ADD COLUMN all_dead bigint,
    ADD COLUMN all_cancelled bigint,
    ADD COLUMN attempts bigint,
    ADD COLUMN retries bigint;
