-- Older programs know no limits: jobs that wait for one are ready.
UPDATE tenet_total SET ready = ready + (SELECT count(*) FROM tenet_gated g JOIN tenet_job j ON j.id = g.id WHERE g.line IS NOT NULL AND j.queue = tenet_total.queue),
    waiting = waiting - (SELECT count(*) FROM tenet_gated g JOIN tenet_job j ON j.id = g.id WHERE g.line IS NOT NULL AND j.queue = tenet_total.queue);
UPDATE tenet_job SET state = 'ready', waits_for = '' WHERE id IN (SELECT id FROM tenet_gated WHERE line IS NOT NULL);
DROP TABLE tenet_gate_work;
DROP TABLE tenet_gated;
DROP TABLE tenet_bucket;
DROP TABLE tenet_job_limit_number;
DROP TABLE tenet_job_limit;
