-- Rows move between tables and nothing hot is updated in place: a job's body never changes, and ready, scheduled, running
-- and done hold one narrow row of it at a time. Facts that most jobs never have are NULL and cost a bit each.

CREATE TABLE {{schema}}.job (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    timeout      bigint NOT NULL, -- nanoseconds
    max_attempts integer NOT NULL,
    type         text NOT NULL,
    queue        text NOT NULL,
    priority     smallint NOT NULL,
    unique_key   bytea,
    payload      bytea,
    meta         json -- not jsonb, which refuses NUL characters
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {{schema}}.ready (
    id               uuid PRIMARY KEY,
    run_at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    fence            bigint NOT NULL DEFAULT 0,
    attempts         integer NOT NULL DEFAULT 0,
    refusals         integer NOT NULL DEFAULT 0,
    priority         smallint NOT NULL,
    cancel_requested boolean NOT NULL DEFAULT false,
    queue            text NOT NULL,
    unique_key       bytea, -- that the job holds while it lives; NULL where it is held for a window
    started_at       timestamptz,
    claimed_at       timestamptz,
    failed_at        timestamptz,
    refused_at       timestamptz,
    worker           text,
    reason           text,
    refused_reason   text,
    last_error       text,
    output           bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX ready_claim ON {{schema}}.ready (queue, priority, run_at, id);

CREATE TABLE {{schema}}.scheduled (LIKE {{schema}}.ready, PRIMARY KEY (id))
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX scheduled_run_at ON {{schema}}.scheduled (run_at);

-- Only extending a lease updates a row. Its index makes that a new row version, a few per job at most; without it, each
-- look for expired leases would read every row that has passed through the table since the last vacuum.
CREATE TABLE {{schema}}.running (LIKE {{schema}}.ready, lease_until timestamptz NOT NULL, PRIMARY KEY (id))
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
          autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX running_lease ON {{schema}}.running (lease_until);

-- The row of a job that was completed without more to tell also stands for its last row in the history: completed_from is
-- when that attempt started, and NULL where the history has the row itself.
CREATE TABLE {{schema}}.done (LIKE {{schema}}.ready, finished_at timestamptz NOT NULL, completed_from timestamptz, state text NOT NULL, PRIMARY KEY (id))
    WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX done_completed ON {{schema}}.done (finished_at) WHERE state = 'completed'; -- for retention
CREATE INDEX done_unsuccessful_finished ON {{schema}}.done (state, finished_at) WHERE state <> 'completed';
CREATE INDEX done_unsuccessful ON {{schema}}.done (id) WHERE state <> 'completed'; -- for lists

-- The history. Part 1 is the attempt that was settled or lost under a fencing token, part 0 the refusals before it.
CREATE TABLE {{schema}}.attempt (
    job_id   uuid NOT NULL,
    fence    bigint NOT NULL,
    started  timestamptz NOT NULL,
    finished timestamptz NOT NULL,
    delay    bigint NOT NULL, -- nanoseconds
    number   integer NOT NULL,
    count    integer NOT NULL,
    part     smallint NOT NULL,
    kind     text, -- NULL: lost
    worker   text,
    reason   text,
    error    text,
    stack    text,
    PRIMARY KEY (job_id, fence, part)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Unique keys that are taken: until expires_at, or where that is NULL until their job ends.
CREATE TABLE {{schema}}.unique_key (
    queue      text NOT NULL,
    key        bytea NOT NULL,
    job_id     uuid NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX unique_key_expires ON {{schema}}.unique_key (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE {{schema}}.queue (
    queue  text PRIMARY KEY,
    paused boolean NOT NULL,
    reason text NOT NULL,
    until  timestamptz
);

CREATE TABLE {{schema}}.leader (
    role   text PRIMARY KEY,
    worker text NOT NULL,
    until  timestamptz NOT NULL
) WITH (fillfactor = 50);
