-- What operators have set in place of the defaults of workers. version numbers the changes of all settings.
CREATE TABLE tenet_setting (
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    value       TEXT, -- JSON; NULL: the default applies
    by          TEXT NOT NULL,
    at          INTEGER NOT NULL,
    previous    TEXT,
    previous_at INTEGER NOT NULL, -- 0: there was none
    version     INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
