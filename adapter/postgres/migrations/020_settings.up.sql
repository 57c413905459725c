-- What operators have set in place of the defaults of workers. version numbers the changes of all settings.
CREATE TABLE {{schema}}.setting (
    kind        text NOT NULL,
    name        text NOT NULL,
    value       text, -- JSON; NULL: the default applies
    by          text NOT NULL,
    at          timestamptz NOT NULL,
    previous    text,
    previous_at timestamptz,
    version     bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
