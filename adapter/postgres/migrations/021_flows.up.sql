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

-- The jobs of flows. unmet counts the needs that have not been met; needs and dependents are positions. Only unmet changes.
CREATE TABLE {{schema}}.flow_node (
    job_id     uuid PRIMARY KEY,
    flow       bigint NOT NULL,
    position   integer NOT NULL,
    layer      integer NOT NULL,
    unmet      integer NOT NULL,
    on_failure text NOT NULL,
    name       text NOT NULL,
    needs      integer[] NOT NULL,
    dependents integer[] NOT NULL
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
-- Statements that count down the same unmet wait for each other, and each statement here sees what was committed before it: whoever
-- counts down to zero finds the waiting job. Whoever makes a job wait again first updates its row of flow_node.
CREATE FUNCTION {{schema}}.flow_ended(ids uuid[], states text[], needed smallint[]) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    released boolean := false;
    freed    uuid[];
    doomed   uuid[];
    due      boolean;
BEGIN
    LOOP
        INSERT INTO {{schema}}.flow_change (flow, jobs, completed, dead, cancelled)
        SELECT n.flow, 0, count(*) FILTER (WHERE e.state = 'completed'), count(*) FILTER (WHERE e.state = 'dead'), count(*) FILTER (WHERE e.state = 'cancelled')
        FROM unnest(flow_ended.ids, flow_ended.states) e(id, state) JOIN {{schema}}.flow_node n ON n.job_id = e.id
        WHERE e.state IN ('completed', 'dead', 'cancelled') GROUP BY n.flow;

        WITH hit AS MATERIALIZED (
            SELECT n.flow, d.position, count(*) FILTER (WHERE e.state = 'completed') AS completed,
                count(*) FILTER (WHERE e.state = 'completed' AND e.needed = 2) AS completed_first, count(*) FILTER (WHERE e.state <> 'completed' AND e.needed = 2) AS failed_first
            FROM unnest(flow_ended.ids, flow_ended.states, flow_ended.needed) e(id, state, needed) JOIN {{schema}}.flow_node n ON n.job_id = e.id, unnest(n.dependents) d(position)
            WHERE e.needed > 1 AND e.state IN ('completed', 'dead', 'cancelled', '')
            GROUP BY n.flow, d.position ORDER BY n.flow, d.position
        ), counted AS (
            UPDATE {{schema}}.flow_node x SET unmet = x.unmet - CASE x.on_failure WHEN 'run' THEN h.completed_first + h.failed_first ELSE h.completed END
            FROM hit h WHERE x.flow = h.flow AND x.position = h.position
                AND CASE x.on_failure WHEN 'run' THEN h.completed_first + h.failed_first ELSE h.completed END > 0
            RETURNING x.job_id, x.unmet
        )
        SELECT array_agg(c.job_id) INTO freed FROM counted c WHERE c.unmet = 0;

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
            SELECT x.flow, x.job_id FROM unnest(flow_ended.ids, flow_ended.states, flow_ended.needed) e(id, state, needed) JOIN {{schema}}.flow_node n ON n.job_id = e.id, unnest(n.dependents) d(position),
                {{schema}}.flow_node x, {{schema}}.waiting w
            WHERE e.needed > 1 AND e.state IN ('dead', 'cancelled', '') AND x.flow = n.flow AND x.position = d.position AND w.id = x.job_id AND w.waits_for = 'needs'
                AND (x.on_failure = 'cancel' OR x.on_failure = 'hold' AND e.state = '')
            UNION
            SELECT x.flow, x.job_id FROM fallen f JOIN {{schema}}.flow_node n ON n.job_id = f.job_id, unnest(n.dependents) d(position), {{schema}}.flow_node x, {{schema}}.waiting w
            WHERE x.flow = f.flow AND x.position = d.position AND x.on_failure = 'cancel' AND w.id = x.job_id AND w.waits_for = 'needs'
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
