-- Limits of queues and types, with what the document and an operator say about each as JSON. A limit whose buckets change gets a
-- new number.
CREATE TABLE tenet_job_limit (
    queue  TEXT NOT NULL,
    type   TEXT NOT NULL,
    name   TEXT NOT NULL,
    number INTEGER NOT NULL,
    data   TEXT NOT NULL,
    PRIMARY KEY (queue, type, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE tenet_job_limit_number (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO tenet_job_limit_number (last) VALUES (0);

-- Buckets with places or waiting jobs, or whose starts count for a while. due is when the bucket is to be looked at, 0 for never.
CREATE TABLE tenet_bucket (
    name      TEXT PRIMARY KEY,
    held      INTEGER NOT NULL,
    unstarted INTEGER NOT NULL,
    waiting   INTEGER NOT NULL,
    next      INTEGER NOT NULL,
    due       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tenet_bucket_due ON tenet_bucket (due) WHERE due > 0;

-- Jobs that hold places or wait for them. places and needs are JSON arrays of buckets; line is the bucket that a job waits for.
-- A line is in the order of rank, since and id.
CREATE TABLE tenet_gated (
    id      TEXT PRIMARY KEY,
    places  TEXT NOT NULL,
    needs   TEXT NOT NULL,
    line    TEXT,
    rank    INTEGER NOT NULL,
    since   INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    run_at  INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tenet_gated_line ON tenet_gated (line, rank, since, id) WHERE line IS NOT NULL;

-- What a change of limits has left to do: to look at a bucket, at the buckets of a limit (what they begin with), or to give the
-- jobs of a queue or type their buckets again, from a position on.
CREATE TABLE tenet_gate_work (
    kind     TEXT NOT NULL,
    what     TEXT NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (kind, what)
) STRICT, WITHOUT ROWID;
