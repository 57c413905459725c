-- The states of limits that processes share. Rows are small and updated often: room in the page keeps updates off the index.
CREATE TABLE {{schema}}.shared_limit (
    name    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    data    bytea NOT NULL,
    changed timestamptz NOT NULL
) WITH (fillfactor = 10);
