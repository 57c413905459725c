-- Redrives: data is the state, which changes with every step; jobs are the counted groups of the selection, which do not.
CREATE TABLE {{schema}}.redrive (
    id     uuid PRIMARY KEY,
    active boolean NOT NULL,
    data   text NOT NULL, -- JSON
    jobs   text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX redrive_active ON {{schema}}.redrive (id) WHERE active;

-- The selection: jobs to be released, then released jobs that have not ended, with the facts that undoing needs.
CREATE TABLE {{schema}}.redrive_waiting (
    redrive  uuid NOT NULL,
    position bigint NOT NULL,
    job_id   uuid NOT NULL,
    fence    bigint NOT NULL, -- of the job when it was selected
    PRIMARY KEY (redrive, position)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE {{schema}}.redrive_pending (
    redrive          uuid NOT NULL,
    position         bigint NOT NULL,
    job_id           uuid NOT NULL,
    fence            bigint NOT NULL,
    run_at           timestamptz NOT NULL,
    finished_at      timestamptz NOT NULL,
    attempts         integer NOT NULL,
    refusals         integer NOT NULL,
    started_at       timestamptz,
    cancel_requested timestamptz,
    refused_at       timestamptz,
    refused_reason   text,
    PRIMARY KEY (redrive, position)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
