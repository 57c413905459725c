-- Flows: jobs that need each other. completed, dead and cancelled count their jobs in these states; finished_at is when the last job
-- finished, 0 while one has not.
CREATE TABLE tenet_flow (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    created_at  INTEGER NOT NULL,
    layers      INTEGER NOT NULL,
    jobs        INTEGER NOT NULL,
    completed   INTEGER NOT NULL DEFAULT 0,
    dead        INTEGER NOT NULL DEFAULT 0,
    cancelled   INTEGER NOT NULL DEFAULT 0,
    finished_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tenet_flow_finished ON tenet_flow (finished_at) WHERE finished_at > 0;

-- The jobs of flows. unmet counts the needs that have not been met; needs and dependents are JSON arrays of positions.
CREATE TABLE tenet_flow_node (
    job        INTEGER PRIMARY KEY, -- tenet_job.seq
    flow       INTEGER NOT NULL,    -- tenet_flow.seq
    position   INTEGER NOT NULL,
    layer      INTEGER NOT NULL,
    unmet      INTEGER NOT NULL,
    on_failure TEXT NOT NULL,
    name       TEXT NOT NULL,
    needs      TEXT NOT NULL,
    dependents TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX tenet_flow_node_position ON tenet_flow_node (flow, position);

-- Which dependents of a job still have to learn of its end: job.Needed; 0 outside flows.
ALTER TABLE tenet_job ADD COLUMN needed INTEGER NOT NULL DEFAULT 0;
