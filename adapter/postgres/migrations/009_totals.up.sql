-- How many jobs each queue has in each state: total plus the sum of total_change. Each statement that moves jobs adds rows of
-- its own to total_change, one for each queue, so that no statement waits for another; maintenance adds them to total.
CREATE TABLE {{schema}}.total (
    queue     text PRIMARY KEY,
    scheduled bigint NOT NULL DEFAULT 0,
    ready     bigint NOT NULL DEFAULT 0,
    running   bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    dead      bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE {{schema}}.total_change (
    queue     text NOT NULL,
    scheduled bigint NOT NULL DEFAULT 0,
    ready     bigint NOT NULL DEFAULT 0,
    running   bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    dead      bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

LOCK TABLE {{schema}}.ready, {{schema}}.scheduled, {{schema}}.running, {{schema}}.done IN SHARE MODE; -- nothing moves while it is counted
INSERT INTO {{schema}}.total (queue, scheduled, ready, running, completed, dead, cancelled)
SELECT queue, count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'running'),
    count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'cancelled')
FROM (
    SELECT queue, 'scheduled' AS state FROM {{schema}}.scheduled UNION ALL SELECT queue, 'ready' FROM {{schema}}.ready
    UNION ALL SELECT queue, 'running' FROM {{schema}}.running UNION ALL SELECT queue, state FROM {{schema}}.done
) j GROUP BY queue;
