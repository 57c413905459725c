-- A claim reads only jobs of the types that it names: each type is a part of the index in the order of claims.
DROP INDEX tenet_job_ready;
CREATE INDEX tenet_job_ready ON tenet_job (queue, type, priority, run_at, id) WHERE state = 'ready';

-- started_at was the first claim. It is the start of the first attempt that ran: none without a row in the history that is
-- not about refusals.
UPDATE tenet_job SET started_at = 0 WHERE state IN ('ready', 'scheduled') AND started_at > 0
AND NOT EXISTS (SELECT 1 FROM tenet_attempt WHERE job = tenet_job.seq AND outcome <> 'refused');
