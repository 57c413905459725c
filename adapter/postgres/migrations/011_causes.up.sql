-- The cause of each dead job, '' for jobs that died before, and its type. cause_total and cause_change count dead jobs by cause, queue
-- and type, as total and total_change count jobs. Most statements that move jobs move no dead ones, so triggers count these.
ALTER TABLE {{schema}}.done ADD COLUMN cause text;
ALTER TABLE {{schema}}.done ADD COLUMN dead_type text;
ALTER TABLE {{schema}}.redrive_pending ADD COLUMN cause text;
UPDATE {{schema}}.redrive_pending SET cause = '';
UPDATE {{schema}}.done d SET cause = '', dead_type = b.type FROM {{schema}}.job b WHERE b.id = d.id AND d.state = 'dead';
CREATE INDEX done_cause ON {{schema}}.done (cause, queue, dead_type, id) WHERE state = 'dead';

CREATE TABLE {{schema}}.cause_total (
    cause text NOT NULL,
    queue text NOT NULL,
    type  text NOT NULL,
    count bigint NOT NULL,
    first timestamptz, -- when a job of the group died first since there are any
    last  timestamptz,
    PRIMARY KEY (cause, queue, type)
) WITH (fillfactor = 50);
CREATE INDEX cause_total_empty ON {{schema}}.cause_total (cause) WHERE count <= 0;
CREATE TABLE {{schema}}.cause_change (
    cause text NOT NULL,
    queue text NOT NULL,
    type  text NOT NULL,
    count bigint NOT NULL,
    at    timestamptz -- NULL for a job that left the group
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION {{schema}}.count_death() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {{schema}}.cause_change (cause, queue, type, count, at) VALUES (coalesce(NEW.cause, ''), NEW.queue, coalesce(NEW.dead_type, ''), 1, NEW.finished_at);
    ELSE
        INSERT INTO {{schema}}.cause_change (cause, queue, type, count) VALUES (coalesce(OLD.cause, ''), OLD.queue, coalesce(OLD.dead_type, ''), -1);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER done_died AFTER INSERT ON {{schema}}.done FOR EACH ROW WHEN (NEW.state = 'dead') EXECUTE FUNCTION {{schema}}.count_death();
CREATE TRIGGER done_left AFTER DELETE ON {{schema}}.done FOR EACH ROW WHEN (OLD.state = 'dead') EXECUTE FUNCTION {{schema}}.count_death();

LOCK TABLE {{schema}}.done IN SHARE MODE; -- nothing dies while it is counted
INSERT INTO {{schema}}.cause_total (cause, queue, type, count, first, last)
SELECT cause, queue, dead_type, count(*), min(finished_at), max(finished_at) FROM {{schema}}.done WHERE state = 'dead' GROUP BY cause, queue, dead_type;
