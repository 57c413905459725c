-- The workers that use the store, and what they take. Queues and types are JSON arrays; no types are every type.
CREATE TABLE tenet_worker (
    name   TEXT PRIMARY KEY,
    until  INTEGER NOT NULL,
    queues TEXT NOT NULL,
    types  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
