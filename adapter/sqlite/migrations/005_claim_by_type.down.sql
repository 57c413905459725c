DROP INDEX tenet_job_ready;
CREATE INDEX tenet_job_ready ON tenet_job (queue, priority, run_at, id) WHERE state = 'ready';
