-- What workers have done, for those who watch: positions have no gaps, and the oldest rows are removed.
CREATE TABLE {{schema}}.event (
    position bigint PRIMARY KEY,
    event    text NOT NULL -- JSON; not of that type, which refuses NUL characters
);
CREATE TABLE {{schema}}.watch (
    until timestamptz NOT NULL -- somebody watches
) WITH (fillfactor = 50);
INSERT INTO {{schema}}.watch (until) VALUES ('-infinity');
