-- Times are microseconds since 1970 in UTC, 0 for none; expired rows are as good as absent, and are removed when somebody
-- gets round to it.
CREATE TABLE tenet_idempotency (
    tenant          TEXT NOT NULL,
    operation       TEXT NOT NULL,
    key             TEXT NOT NULL,
    fingerprint     TEXT NOT NULL,
    state           TEXT NOT NULL,
    owner           TEXT NOT NULL,
    fence           INTEGER NOT NULL,
    lease           INTEGER NOT NULL, -- 0 unless in flight
    attempts        INTEGER NOT NULL,
    policy_hash     TEXT NOT NULL,
    created         INTEGER NOT NULL,
    completed       INTEGER NOT NULL,
    expires         INTEGER NOT NULL, -- 0 while in flight or unknown
    has_result      INTEGER NOT NULL,
    failure_type    TEXT, -- NULL: no failure
    failure_message TEXT,
    result          BLOB,
    PRIMARY KEY (tenant, operation, key)
) STRICT;
CREATE INDEX tenet_idempotency_expires ON tenet_idempotency (expires) WHERE expires > 0;
