-- The policy store. State, labels and counters are JSON that no statement looks into; times are microseconds since 1970.

CREATE TABLE tenet_policy_document (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    state   TEXT NOT NULL
) STRICT;

CREATE TABLE tenet_policy_revision (
    document TEXT NOT NULL,
    number   INTEGER NOT NULL,
    hash     TEXT NOT NULL,
    body     BLOB NOT NULL,
    author   TEXT NOT NULL,
    message  TEXT NOT NULL,
    created  INTEGER NOT NULL,
    parent   INTEGER NOT NULL,
    restores INTEGER NOT NULL,
    PRIMARY KEY (document, number)
) STRICT;

-- One row: how often documents have changed.
CREATE TABLE tenet_policy_change (changes INTEGER NOT NULL) STRICT;
INSERT INTO tenet_policy_change VALUES (0);

CREATE TABLE tenet_policy_client (
    document  TEXT NOT NULL,
    id        TEXT NOT NULL,
    labels    TEXT NOT NULL,
    desired   INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    applied   INTEGER NOT NULL,
    refused   INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    staleness INTEGER NOT NULL, -- nanoseconds
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (document, id)
) STRICT;
CREATE INDEX tenet_policy_client_seen ON tenet_policy_client (last_seen);

CREATE TABLE tenet_policy_evidence (
    rollout  TEXT NOT NULL,
    step     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    counters TEXT NOT NULL,
    PRIMARY KEY (rollout, step, revision)
) STRICT;

CREATE TABLE tenet_policy_leader (
    task   TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

CREATE TABLE tenet_policy_token (
    id      TEXT PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    hash    TEXT NOT NULL UNIQUE,
    state   TEXT NOT NULL,
    revoked INTEGER NOT NULL
) STRICT;

CREATE TABLE tenet_policy_setting (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    value   BLOB NOT NULL
) STRICT;
