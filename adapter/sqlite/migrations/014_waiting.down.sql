-- Older programs do not know waiting jobs: they become scheduled, and so run without what they wait for.
UPDATE tenet_job SET state = 'scheduled' WHERE state = 'waiting';
UPDATE tenet_total SET scheduled = scheduled + waiting;
ALTER TABLE tenet_total DROP COLUMN waiting;
ALTER TABLE tenet_job DROP COLUMN waits_for;
