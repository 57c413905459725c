-- Events in the order in which they were committed. The line is the event, byte for byte; everything else is copied from
-- it to find lines.
CREATE TABLE tenet_audit (
    position   INTEGER PRIMARY KEY,
    event_id   TEXT NOT NULL UNIQUE,
    chain_id   TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    hash       TEXT NOT NULL,
    event_type TEXT NOT NULL,
    category   TEXT NOT NULL,
    work_id    TEXT NOT NULL,
    time       INTEGER NOT NULL, -- microseconds since 1970
    line       BLOB NOT NULL
) STRICT;
CREATE INDEX tenet_audit_chain ON tenet_audit (chain_id, seq);
CREATE INDEX tenet_audit_work ON tenet_audit (work_id) WHERE work_id <> '';
CREATE INDEX tenet_audit_time ON tenet_audit (time);
