-- What callers write is bytea: it comes back as it was, whatever bytes it has. Expired rows are as good as absent; they
-- are removed when somebody gets round to it.

CREATE TABLE {{schema}}.idempotency (
    tenant          bytea NOT NULL,
    operation       bytea NOT NULL,
    key             bytea NOT NULL,
    fence           bigint NOT NULL,
    created         timestamptz NOT NULL,
    lease           timestamptz, -- NULL unless in flight
    completed       timestamptz,
    expires         timestamptz, -- NULL while in flight or unknown
    attempts        integer NOT NULL,
    has_result      boolean NOT NULL DEFAULT false,
    state           text NOT NULL,
    owner           bytea NOT NULL,
    fingerprint     bytea NOT NULL,
    policy_hash     bytea NOT NULL,
    failure_type    bytea, -- NULL: no failure
    failure_message bytea,
    result          bytea,
    PRIMARY KEY (tenant, operation, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX idempotency_expires ON {{schema}}.idempotency (expires) WHERE expires IS NOT NULL;
