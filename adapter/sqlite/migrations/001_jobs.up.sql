-- Times are microseconds since 1970 in UTC, 0 for one that has not come; durations are nanoseconds. What is small and hot
-- stands first in a row, so that reading it never follows a large payload to its overflow pages.

CREATE TABLE tenet_job (
    seq              INTEGER PRIMARY KEY,
    id               TEXT NOT NULL UNIQUE,
    queue            TEXT NOT NULL,
    state            TEXT NOT NULL,
    priority         INTEGER NOT NULL DEFAULT 0,
    run_at           INTEGER NOT NULL,
    fence            INTEGER NOT NULL DEFAULT 0,
    lease_until      INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    max_attempts     INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    started_at       INTEGER NOT NULL DEFAULT 0,
    claimed_at       INTEGER NOT NULL DEFAULT 0,
    finished_at      INTEGER NOT NULL DEFAULT 0,
    failed_at        INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    refusals         INTEGER NOT NULL DEFAULT 0,
    refused_at       INTEGER NOT NULL DEFAULT 0,
    refused_reason   TEXT NOT NULL DEFAULT '',
    reason           TEXT NOT NULL DEFAULT '',
    worker           TEXT NOT NULL DEFAULT '',
    type             TEXT NOT NULL,
    timeout          INTEGER NOT NULL DEFAULT 0,
    unique_key       TEXT NOT NULL DEFAULT '',
    unique_for       INTEGER NOT NULL DEFAULT 0, -- 0: the key is held while the job lives
    meta             TEXT,             -- JSON object of strings
    ran_at           INTEGER NOT NULL DEFAULT 0, -- start of the attempt that completed the job, where only this row tells of it
    last_error       TEXT NOT NULL DEFAULT '',
    payload          BLOB,
    output           BLOB
) STRICT;

-- A job lies in the one index of its state. The queue comes along so that counting reads no rows.
CREATE INDEX tenet_job_ready ON tenet_job (queue, priority, run_at, id) WHERE state = 'ready';
CREATE INDEX tenet_job_scheduled ON tenet_job (run_at, queue) WHERE state = 'scheduled';
CREATE INDEX tenet_job_running ON tenet_job (lease_until, queue) WHERE state = 'running';
CREATE INDEX tenet_job_finished ON tenet_job (state, finished_at, queue) WHERE state IN ('completed', 'dead', 'cancelled');
CREATE INDEX tenet_job_dead ON tenet_job (id) WHERE state = 'dead';

-- The history, by job, but for most completions, which the job's own row tells of: part 2·fence is the attempt that was settled or lost under that token, part 2·fence-1 the refusals
-- before it.
CREATE TABLE tenet_attempt (
    job      INTEGER NOT NULL, -- tenet_job.seq
    part     INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    worker   TEXT NOT NULL,
    started  INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    outcome  TEXT NOT NULL,
    reason   TEXT NOT NULL,
    error    TEXT NOT NULL,
    stack    TEXT NOT NULL,
    delay    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (job, part)
) STRICT, WITHOUT ROWID;

-- Who holds a unique key: until a time, or while the job lives where that is 0. Windows outlive their jobs.
CREATE TABLE tenet_unique (
    queue  TEXT NOT NULL,
    key    TEXT NOT NULL,
    job_id TEXT NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX tenet_unique_until ON tenet_unique (until) WHERE until > 0;

CREATE TABLE tenet_queue (
    name   TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    reason TEXT NOT NULL,
    until  INTEGER NOT NULL -- 0: until it is resumed
) STRICT, WITHOUT ROWID;

CREATE TABLE tenet_leader (
    role   TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
