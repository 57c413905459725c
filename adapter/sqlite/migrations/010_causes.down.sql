DROP TABLE tenet_cause;
DROP INDEX tenet_job_cause;
ALTER TABLE tenet_job DROP COLUMN cause;
