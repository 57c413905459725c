-- Jobs that cannot be claimed yet, whatever their run_at: waits_for says why. They are found by their IDs only.
CREATE TABLE {{schema}}.waiting (LIKE {{schema}}.ready INCLUDING DEFAULTS, waits_for text NOT NULL, PRIMARY KEY (id))
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE {{schema}}.total ADD COLUMN waiting bigint NOT NULL DEFAULT 0;
ALTER TABLE {{schema}}.total_change ADD COLUMN waiting bigint;
