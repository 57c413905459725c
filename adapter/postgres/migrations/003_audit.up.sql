-- Events in the order in which they were committed. The line is the event, byte for byte; everything else is copied from
-- it to find lines. Text with NUL, which PostgreSQL cannot store, is cleaned in the copies that are text.

CREATE TABLE {{schema}}.audit (
    position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq        bigint NOT NULL,
    time       timestamptz NOT NULL,
    event_id   bytea NOT NULL,
    chain_id   bytea NOT NULL,
    hash       text NOT NULL,
    event_type text NOT NULL,
    category   text, -- NULL for none
    work_id    text, -- NULL for none
    line       bytea NOT NULL
);
CREATE UNIQUE INDEX audit_event ON {{schema}}.audit (event_id);
CREATE INDEX audit_chain ON {{schema}}.audit (chain_id, seq);
CREATE INDEX audit_work ON {{schema}}.audit (work_id, position) WHERE work_id IS NOT NULL;
CREATE INDEX audit_time ON {{schema}}.audit USING brin (time); -- times come nearly in order
