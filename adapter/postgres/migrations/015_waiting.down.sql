-- Older programs do not know waiting jobs: they become scheduled, and so run without what they wait for.
INSERT INTO {{schema}}.scheduled (id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
    refused_at, worker, reason, refused_reason, last_error, output, type)
SELECT id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
    refused_at, worker, reason, refused_reason, last_error, output, type FROM {{schema}}.waiting;
INSERT INTO {{schema}}.total_change (queue, scheduled) SELECT queue, count(*) FROM {{schema}}.waiting GROUP BY queue;
DROP TABLE {{schema}}.waiting;
ALTER TABLE {{schema}}.total_change DROP COLUMN waiting;
ALTER TABLE {{schema}}.total DROP COLUMN waiting;
