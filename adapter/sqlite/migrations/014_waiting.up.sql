-- Why a waiting job cannot be claimed yet; empty for jobs in other states. A waiting job is found by its ID only.
ALTER TABLE tenet_job ADD COLUMN waits_for TEXT NOT NULL DEFAULT '';
ALTER TABLE tenet_total ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
