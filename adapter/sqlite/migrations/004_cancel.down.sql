DROP TABLE tenet_cancel;
UPDATE tenet_job SET cancel_requested = 1 WHERE cancel_requested <> 0;
