-- Limits of queues and types, with what the document and an operator say about each as JSON. A limit whose buckets change gets a
-- new number. bound lists the queues and types with a limit in force; the other of the two is ''.
CREATE TABLE {{schema}}.job_limit (
    queue  text NOT NULL,
    type   text NOT NULL,
    name   text NOT NULL,
    number bigint NOT NULL,
    data   text NOT NULL,
    PRIMARY KEY (queue, type, name)
);
CREATE SEQUENCE {{schema}}.job_limit_number;
CREATE TABLE {{schema}}.bound (
    queue text NOT NULL,
    type  text NOT NULL,
    PRIMARY KEY (queue, type)
);

-- Jobs know the places that they hold. A waiting job with places to come knows the buckets that it needs and stands in the line of
-- one that is full, in the order of rank, since and id. Without a line it has not passed the gate yet.
ALTER TABLE {{schema}}.ready ADD COLUMN places text[];
ALTER TABLE {{schema}}.scheduled ADD COLUMN places text[];
ALTER TABLE {{schema}}.running ADD COLUMN places text[];
ALTER TABLE {{schema}}.waiting
    ADD COLUMN places text[],
    ADD COLUMN needs text[],
    ADD COLUMN line text,
    ADD COLUMN rank smallint,
    ADD COLUMN since timestamptz,
    ADD COLUMN created_at timestamptz;
CREATE INDEX waiting_line ON {{schema}}.waiting (line, rank, since, id) WHERE line IS NOT NULL;

-- Buckets with places or waiting jobs, or whose starts count for a while. due is when the bucket is to be looked at.
CREATE TABLE {{schema}}.bucket (
    name      text PRIMARY KEY,
    held      integer NOT NULL,
    unstarted integer NOT NULL,
    waiting   integer NOT NULL,
    next      timestamptz,
    due       timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX bucket_due ON {{schema}}.bucket (due) WHERE due IS NOT NULL;

-- What has happened to jobs with limits. Every statement that moves such jobs adds a row of its own, so that no statement waits
-- for another; whoever tends the gate applies the rows and removes them. All rows of transactions before gate.seen are applied.
CREATE TABLE {{schema}}.gate_event (
    at         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    freed      text[],
    dropped    text[],
    taken      text[],
    departed   text[],
    touched    text[],
    started    text[],
    started_at timestamptz,
    arrived    uuid[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX gate_event_at ON {{schema}}.gate_event (at);
CREATE TABLE {{schema}}.gate (
    seen xid8 NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {{schema}}.gate (seen) VALUES (pg_snapshot_xmin(pg_current_snapshot()));

-- What a change of limits has left to do: to look at the buckets of a limit (what they begin with), or to give the jobs of a queue
-- or type their buckets again, from a position on. changed is the change's transaction; a pass over the jobs that began before
-- all older transactions had ended is repeated.
CREATE TABLE {{schema}}.gate_work (
    kind     text NOT NULL,
    what     text NOT NULL,
    position text NOT NULL,
    changed  xid8 NOT NULL DEFAULT pg_current_xact_id(),
    sure     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, what)
);
