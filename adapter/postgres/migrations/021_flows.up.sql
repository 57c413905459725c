-- Flows: jobs that need each other. completed, dead and cancelled count their jobs in these states; finished_at is when the last job was
-- seen to have finished, NULL while one has not. Statements add rows to flow_change, and maintenance adds these to flow, as with total.
CREATE TABLE {{schema}}.flow (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    finished_at timestamptz,
    layers      integer NOT NULL,
    jobs        bigint NOT NULL,
    completed   bigint NOT NULL DEFAULT 0,
    dead        bigint NOT NULL DEFAULT 0,
    cancelled   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX flow_finished ON {{schema}}.flow (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX flow_empty ON {{schema}}.flow (seq) WHERE jobs <= 0;

CREATE TABLE {{schema}}.flow_change (
    flow      bigint NOT NULL,
    jobs      bigint NOT NULL,
    completed bigint NOT NULL,
    dead      bigint NOT NULL,
    cancelled bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

-- The jobs of flows. needs are positions, as are dependents, which have other needs too; sole are the IDs of the jobs that have no other
-- need. unmet counts the needs that have not been met, of a job with several; NULL for a job with one, which is met by ended of its need: 1
-- it completed, 2 it failed. A row with sole dependents is kept as long as its flow, for them to be retried. Only unmet and ended change.
CREATE TABLE {{schema}}.flow_node (
    job_id     uuid PRIMARY KEY,
    flow       bigint NOT NULL,
    position   integer NOT NULL,
    layer      integer NOT NULL,
    unmet      integer,
    ended      smallint NOT NULL DEFAULT 0,
    on_failure text NOT NULL,
    name       text NOT NULL,
    needs      integer[] NOT NULL,
    dependents integer[] NOT NULL,
    sole       uuid[] NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX flow_node_position ON {{schema}}.flow_node (flow, position);

-- Which dependents of a job still have to learn of its end: job.Needed, 1 none, 2 all, 3 those that do not run after a failure. NULL
-- outside flows, which takes no space.
ALTER TABLE {{schema}}.waiting ADD COLUMN needed smallint;
ALTER TABLE {{schema}}.scheduled ADD COLUMN needed smallint;
ALTER TABLE {{schema}}.ready ADD COLUMN needed smallint;
ALTER TABLE {{schema}}.running ADD COLUMN needed smallint;
ALTER TABLE {{schema}}.done ADD COLUMN needed smallint;

-- Tells flows that jobs went to other states; '' is for a deletion. needed is what it was before. Dependents without unmet needs become
-- ready or scheduled, and those of failed needs are cancelled with all that are cancelled because of them. Returns whether jobs became
-- ready.
--
-- Statements that count down the same unmet or set the same ended wait for each other, and each statement here sees what was committed
-- before it: whoever meets the last need finds the waiting job. Whoever makes a job wait again first updates these rows.
--
-- The settings fix the plans: jobs are found one by one through indexes, and only what was found is sorted. ANY (ARRAY[x]) and OFFSET 0 keep
-- the server from reading whole tables and flows that were empty when their statistics were taken.
CREATE FUNCTION {{schema}}.flow_ended(ids uuid[], states text[], needed smallint[]) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = on SET jit = off AS $$
#variable_conflict use_column
DECLARE
    released boolean := false;
    freed    uuid[];
    lone     boolean;
    doomed   uuid[];
    due      boolean;
BEGIN
    LOOP
        WITH ended AS MATERIALIZED (
            SELECT n.flow, n.dependents, n.sole, e.state, e.needed
            FROM unnest(flow_ended.ids, flow_ended.states, flow_ended.needed) e(id, state, needed) JOIN {{schema}}.flow_node n ON n.job_id = ANY (ARRAY[e.id])
            WHERE e.state IN ('completed', 'dead', 'cancelled', '')
        ), changed AS (
            INSERT INTO {{schema}}.flow_change (flow, jobs, completed, dead, cancelled)
            SELECT flow, 0, count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'cancelled')
            FROM ended WHERE state <> '' GROUP BY flow
        ), hit AS MATERIALIZED (
            SELECT e.flow, d.position, count(*) FILTER (WHERE e.state = 'completed') AS completed, count(*) FILTER (WHERE e.needed = 2) AS ended_first
            FROM ended e, unnest(e.dependents) d(position) WHERE e.needed > 1 GROUP BY e.flow, d.position ORDER BY e.flow, d.position
        ), counted AS (
            UPDATE {{schema}}.flow_node x SET unmet = x.unmet - CASE x.on_failure WHEN 'run' THEN h.ended_first ELSE h.completed END
            FROM hit h WHERE x.flow = ANY (ARRAY[h.flow]) AND x.position = h.position AND CASE x.on_failure WHEN 'run' THEN h.ended_first ELSE h.completed END > 0
            RETURNING x.job_id, x.unmet
        )
        SELECT (SELECT array_agg(c.job_id) FROM counted c WHERE c.unmet = 0) || (
                SELECT array_agg(s.id) FROM ended e, unnest(e.sole) s(id)
                WHERE e.needed > 1 AND (e.state = 'completed' OR (SELECT x.on_failure FROM {{schema}}.flow_node x WHERE x.job_id = s.id) = 'run')),
            EXISTS (SELECT FROM ended e WHERE e.needed > 1 AND e.sole <> '{}')
        INTO freed, lone;

        IF lone THEN
            UPDATE {{schema}}.flow_node n SET ended = CASE e.state WHEN 'completed' THEN 1 ELSE 2 END
            FROM unnest(flow_ended.ids, flow_ended.states, flow_ended.needed) e(id, state, needed)
            WHERE n.job_id = ANY (ARRAY[e.id]) AND n.sole <> '{}' AND e.needed > 1 AND e.state IN ('completed', 'dead', 'cancelled', '');
        END IF;
        IF freed IS NOT NULL AND EXISTS (SELECT FROM {{schema}}.bound) THEN -- due jobs with limits go to the gate
            WITH arrived AS (
                UPDATE {{schema}}.waiting w SET waits_for = 'limits', run_at = statement_timestamp() WHERE w.id = ANY (freed) AND w.waits_for = 'needs' AND w.run_at <= statement_timestamp()
                    AND (EXISTS (SELECT FROM {{schema}}.bound b WHERE b.queue = w.queue AND b.type = '') OR EXISTS (SELECT FROM {{schema}}.bound b WHERE b.queue = '' AND b.type = w.type))
                RETURNING w.id
            )
            INSERT INTO {{schema}}.gate_event (arrived) SELECT array_agg(a.id) FROM arrived a HAVING count(*) > 0;
            released := released OR FOUND;
        END IF;
        IF freed IS NOT NULL THEN
            WITH gone AS (
                DELETE FROM {{schema}}.waiting w WHERE w.id = ANY (freed) AND w.waits_for = 'needs' RETURNING w.*
            ), again AS (
                INSERT INTO {{schema}}.ready (id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
                    refused_at, worker, reason, refused_reason, last_error, output, needed, type)
                SELECT id, statement_timestamp(), fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
                    refused_at, worker, reason, refused_reason, last_error, output, needed, type FROM gone WHERE run_at <= statement_timestamp()
            ), later AS (
                INSERT INTO {{schema}}.scheduled (id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
                    refused_at, worker, reason, refused_reason, last_error, output, needed, type)
                SELECT id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
                    refused_at, worker, reason, refused_reason, last_error, output, needed, type FROM gone WHERE run_at > statement_timestamp()
            ), totals AS (
                INSERT INTO {{schema}}.total_change (queue, waiting, ready, scheduled)
                SELECT queue, -count(*), count(*) FILTER (WHERE run_at <= statement_timestamp()), count(*) FILTER (WHERE run_at > statement_timestamp()) FROM gone GROUP BY queue
            )
            SELECT coalesce(bool_or(run_at <= statement_timestamp()), false) INTO due FROM gone;
            released := released OR due;
        END IF;

        EXIT WHEN NOT flow_ended.states && ARRAY['dead', 'cancelled', ''];
        WITH RECURSIVE fallen AS (
            SELECT x.job_id FROM unnest(flow_ended.ids, flow_ended.states, flow_ended.needed) e(id, state, needed) JOIN {{schema}}.flow_node n ON n.job_id = ANY (ARRAY[e.id]), LATERAL (
                SELECT y.* FROM unnest(n.dependents) d(position),
                    LATERAL (SELECT * FROM {{schema}}.flow_node y WHERE y.flow = n.flow AND y.position = d.position OFFSET 0) y
                UNION ALL SELECT y.* FROM unnest(n.sole) s(id) JOIN {{schema}}.flow_node y ON y.job_id = ANY (ARRAY[s.id])) x, {{schema}}.waiting w
            WHERE e.needed > 1 AND e.state IN ('dead', 'cancelled', '') AND w.id = ANY (ARRAY[x.job_id]) AND w.waits_for = 'needs'
                AND (x.on_failure = 'cancel' OR x.on_failure = 'hold' AND e.state = '')
            UNION
            SELECT x.job_id FROM fallen f JOIN {{schema}}.flow_node n ON n.job_id = ANY (ARRAY[f.job_id]), LATERAL (
                SELECT y.* FROM unnest(n.dependents) d(position),
                    LATERAL (SELECT * FROM {{schema}}.flow_node y WHERE y.flow = n.flow AND y.position = d.position OFFSET 0) y
                UNION ALL SELECT y.* FROM unnest(n.sole) s(id) JOIN {{schema}}.flow_node y ON y.job_id = ANY (ARRAY[s.id])) x, {{schema}}.waiting w
            WHERE x.on_failure = 'cancel' AND w.id = ANY (ARRAY[x.job_id]) AND w.waits_for = 'needs'
        )
        SELECT array_agg(f.job_id ORDER BY f.job_id) INTO doomed FROM fallen f;
        EXIT WHEN doomed IS NULL;

        WITH gone AS (
            DELETE FROM {{schema}}.waiting w WHERE w.id = ANY (doomed) AND w.waits_for = 'needs' RETURNING w.*
        ), ended AS (
            INSERT INTO {{schema}}.done (id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
                refused_at, worker, reason, refused_reason, last_error, output, needed, finished_at, state)
            SELECT id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at,
                refused_at, worker, 'need_failed', refused_reason, last_error, output, CASE WHEN needed > 1 THEN 3 ELSE needed END, statement_timestamp(), 'cancelled' FROM gone
        ), totals AS (
            INSERT INTO {{schema}}.total_change (queue, waiting, cancelled, all_cancelled) SELECT queue, -count(*), count(*), count(*) FROM gone GROUP BY queue
        )
        SELECT array_agg(g.id), array_agg('cancelled'::text), array_agg(g.needed) INTO ids, states, needed FROM gone g;
        EXIT WHEN flow_ended.ids IS NULL;
    END LOOP;
    RETURN released;
END $$;
