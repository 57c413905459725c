-- What workers have done, for those who watch: positions have no gaps, and the oldest rows are removed.
CREATE TABLE tenet_event (
    position INTEGER PRIMARY KEY,
    event    TEXT NOT NULL -- JSON
) STRICT;
CREATE TABLE tenet_watch (
    until INTEGER NOT NULL -- somebody watches
) STRICT;
INSERT INTO tenet_watch (until) VALUES (0);
