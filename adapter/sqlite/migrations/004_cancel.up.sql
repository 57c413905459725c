-- cancel_requested now holds when the cancellation of a running job was requested, 0 for never. A request that is older than
-- this change gets the time of the claim.
UPDATE tenet_job SET cancel_requested = max(claimed_at, 1) WHERE cancel_requested <> 0;

-- How many such requests there were: what processes compare that wait for one.
CREATE TABLE tenet_cancel (
    requests INTEGER NOT NULL
) STRICT;
INSERT INTO tenet_cancel (requests) VALUES (0);
