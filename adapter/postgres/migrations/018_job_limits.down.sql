-- Older programs know no limits: jobs that wait for one become scheduled, and so run.
WITH gone AS (
    DELETE FROM {{schema}}.waiting w WHERE w.line IS NOT NULL OR w.needs IS NOT NULL OR w.waits_for = 'limits' RETURNING *
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, waiting, scheduled) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
)
INSERT INTO {{schema}}.scheduled (id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
    refused_at, worker, reason, refused_reason, last_error, output, type)
SELECT id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
    refused_at, worker, reason, refused_reason, last_error, output, type FROM gone;
DROP TABLE {{schema}}.gate_work;
DROP TABLE {{schema}}.gate;
DROP TABLE {{schema}}.gate_event;
DROP TABLE {{schema}}.bucket;
DROP INDEX {{schema}}.waiting_line;
ALTER TABLE {{schema}}.waiting DROP COLUMN places, DROP COLUMN needs, DROP COLUMN line, DROP COLUMN rank, DROP COLUMN since, DROP COLUMN created_at;
ALTER TABLE {{schema}}.running DROP COLUMN places;
ALTER TABLE {{schema}}.scheduled DROP COLUMN places;
ALTER TABLE {{schema}}.ready DROP COLUMN places;
DROP TABLE {{schema}}.bound;
DROP SEQUENCE {{schema}}.job_limit_number;
DROP TABLE {{schema}}.job_limit;
