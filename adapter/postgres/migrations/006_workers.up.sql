-- The workers that use the store, and what they take. No types are every type.
CREATE TABLE {{schema}}.worker (
    name   text PRIMARY KEY,
    until  timestamptz NOT NULL,
    queues text[] NOT NULL,
    types  text[] NOT NULL
) WITH (fillfactor = 50);
