-- The policy store. State, labels and counters are JSON that no statement looks into; times are microseconds since 1970.

CREATE TABLE {{schema}}.policy_document (
    name    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    state   text NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE {{schema}}.policy_revision (
    document text COLLATE "C" NOT NULL,
    number   bigint NOT NULL,
    hash     text NOT NULL,
    body     bytea NOT NULL,
    author   text NOT NULL,
    message  text NOT NULL,
    created  bigint NOT NULL,
    parent   bigint NOT NULL,
    restores bigint NOT NULL,
    PRIMARY KEY (document, number)
);

-- One row: how often documents have changed.
CREATE TABLE {{schema}}.policy_change (changes bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO {{schema}}.policy_change VALUES (0);

CREATE TABLE {{schema}}.policy_client (
    document  text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    labels    text NOT NULL,
    desired   bigint NOT NULL,
    delivered bigint NOT NULL,
    applied   bigint NOT NULL,
    refused   bigint NOT NULL,
    reason    text NOT NULL,
    staleness bigint NOT NULL, -- nanoseconds
    last_seen bigint NOT NULL,
    PRIMARY KEY (document, id)
) WITH (fillfactor = 70);
CREATE INDEX policy_client_seen ON {{schema}}.policy_client (last_seen);

CREATE TABLE {{schema}}.policy_evidence (
    rollout  text NOT NULL,
    step     bigint NOT NULL,
    revision bigint NOT NULL,
    counters text NOT NULL,
    PRIMARY KEY (rollout, step, revision)
) WITH (fillfactor = 50);

CREATE TABLE {{schema}}.policy_leader (
    task   text PRIMARY KEY,
    server text NOT NULL,
    until  bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE {{schema}}.policy_token (
    id      text COLLATE "C" PRIMARY KEY,
    name    text NOT NULL UNIQUE,
    hash    text NOT NULL UNIQUE,
    state   text NOT NULL,
    revoked bigint NOT NULL
);

CREATE TABLE {{schema}}.policy_setting (
    name    text PRIMARY KEY,
    version bigint NOT NULL,
    value   bytea NOT NULL
);
