-- The states of limits that processes share. changed is in microseconds since 1970.
CREATE TABLE tenet_limit (
    name    TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    data    BLOB NOT NULL,
    changed INTEGER NOT NULL
) WITHOUT ROWID;
