-- Redrives: data is the state as JSON, which changes with every step; jobs are the counted groups of the selection, which do
-- not.
CREATE TABLE tenet_redrive (
    seq    INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    active INTEGER NOT NULL,
    data   TEXT NOT NULL,
    jobs   TEXT NOT NULL
) STRICT;
CREATE INDEX tenet_redrive_active ON tenet_redrive (id) WHERE active;

-- The selection: jobs to be released, then released jobs that have not ended, with the facts that undoing needs.
CREATE TABLE tenet_redrive_waiting (
    redrive  INTEGER NOT NULL, -- tenet_redrive.seq
    position INTEGER NOT NULL,
    job      TEXT NOT NULL,
    fence    INTEGER NOT NULL, -- of the job when it was selected
    PRIMARY KEY (redrive, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE tenet_redrive_pending (
    redrive  INTEGER NOT NULL,
    position INTEGER NOT NULL,
    job      TEXT NOT NULL,
    fence    INTEGER NOT NULL,
    facts    TEXT NOT NULL,
    PRIMARY KEY (redrive, position)
) STRICT, WITHOUT ROWID;
