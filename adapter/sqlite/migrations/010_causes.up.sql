-- The cause of each dead job, '' for jobs that died before, and how many dead jobs there are of each cause, queue and type, kept by
-- the transactions that move jobs.
ALTER TABLE tenet_job ADD COLUMN cause TEXT NOT NULL DEFAULT '';
CREATE INDEX tenet_job_cause ON tenet_job (cause, queue, type, id) WHERE state = 'dead';
CREATE TABLE tenet_cause (
    cause TEXT NOT NULL,
    queue TEXT NOT NULL,
    type  TEXT NOT NULL,
    count INTEGER NOT NULL,
    first INTEGER NOT NULL, -- when a job of the group died first since there are any
    last  INTEGER NOT NULL,
    PRIMARY KEY (cause, queue, type)
) STRICT, WITHOUT ROWID;
INSERT INTO tenet_cause (cause, queue, type, count, first, last)
SELECT '', queue, type, count(*), min(finished_at), max(finished_at) FROM tenet_job WHERE state = 'dead' GROUP BY queue, type;
