-- How many jobs each queue has in each state, kept by the transactions that move jobs.
CREATE TABLE tenet_total (
    queue     TEXT PRIMARY KEY,
    scheduled INTEGER NOT NULL,
    ready     INTEGER NOT NULL,
    running   INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    dead      INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO tenet_total (queue, scheduled, ready, running, completed, dead, cancelled)
SELECT queue, sum(state = 'scheduled'), sum(state = 'ready'), sum(state = 'running'), sum(state = 'completed'), sum(state = 'dead'), sum(state = 'cancelled')
FROM tenet_job GROUP BY queue;
