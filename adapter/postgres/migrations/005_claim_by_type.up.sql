-- A claim reads only jobs of the types that it names. Jobs that wait or run therefore know their type, and each type is a
-- part of the index in the order of claims.
ALTER TABLE {{schema}}.ready ADD COLUMN type text;
ALTER TABLE {{schema}}.scheduled ADD COLUMN type text;
ALTER TABLE {{schema}}.running ADD COLUMN type text;

-- started_at was the first claim. It is the start of the first attempt that ran: none without a row in the history that is
-- not about refusals.
UPDATE {{schema}}.ready s SET type = b.type,
    started_at = CASE WHEN EXISTS (SELECT FROM {{schema}}.attempt a WHERE a.job_id = s.id AND a.part = 1) THEN s.started_at END
FROM {{schema}}.job b WHERE b.id = s.id;
UPDATE {{schema}}.scheduled s SET type = b.type,
    started_at = CASE WHEN EXISTS (SELECT FROM {{schema}}.attempt a WHERE a.job_id = s.id AND a.part = 1) THEN s.started_at END
FROM {{schema}}.job b WHERE b.id = s.id;
UPDATE {{schema}}.running s SET type = b.type FROM {{schema}}.job b WHERE b.id = s.id;

ALTER TABLE {{schema}}.ready ALTER COLUMN type SET NOT NULL;
ALTER TABLE {{schema}}.scheduled ALTER COLUMN type SET NOT NULL;
ALTER TABLE {{schema}}.running ALTER COLUMN type SET NOT NULL;
DROP INDEX {{schema}}.ready_claim;
CREATE INDEX ready_claim ON {{schema}}.ready (queue, type, priority, run_at, id);
