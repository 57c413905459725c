package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

var _ job.FlowStore = (*Jobs)(nil)

const (
	// tellFlowsSQL, an expression for the new state and endedSQL tell the flows of the jobs in "gone" of these states. The result is
	// whether jobs became ready. In an OR it stands first, as what follows a true value is not evaluated. Without jobs of flows it costs next to nothing.
	tellFlowsSQL = `coalesce(CASE WHEN bool_or(needed > 0) THEN {{schema}}.flow_ended(array_agg(id) FILTER (WHERE needed > 0), array_agg(`
	endedSQL     = `) FILTER (WHERE needed > 0), array_agg(needed) FILTER (WHERE needed > 0)) END, false)`

	// unmetSQL is the number of unmet needs of node n.
	unmetSQL = `coalesce(n.unmet, (SELECT CASE WHEN p.ended = 1 OR p.ended = 2 AND n.on_failure = 'run' THEN 0 ELSE 1 END
    FROM {{schema}}.flow_node p WHERE p.flow = n.flow AND p.position = n.needs[1]), 0)`

	// lockNodesSQL makes those wait who meet needs of jobs that are about to wait again.
	lockNodesSQL = `UPDATE {{schema}}.flow_node n SET unmet = unmet FROM (SELECT job_id FROM {{schema}}.flow_node WHERE job_id = ANY (ARRAY(
    SELECT unnest($1::uuid[])
    UNION SELECT p.job_id FROM {{schema}}.flow_node d JOIN {{schema}}.flow_node p ON p.flow = ANY (ARRAY[d.flow]) AND p.position = d.needs[1]
    WHERE d.job_id = ANY ($1::uuid[]) AND d.unmet IS NULL)) ORDER BY job_id FOR UPDATE) l
WHERE n.job_id = ANY (ARRAY[l.job_id])`
	dropNodesSQL = `DELETE FROM {{schema}}.flow_node WHERE job_id = ANY ($1::uuid[]) AND sole = '{}'`

	addFlowsSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.flow_change WHERE (SELECT pg_try_advisory_xact_lock($1)) RETURNING *
), added AS (
    SELECT flow, sum(jobs) AS jobs, sum(completed) AS completed, sum(dead) AS dead, sum(cancelled) AS cancelled, bool_and(jobs < 0) AS removed FROM gone GROUP BY flow
)
UPDATE {{schema}}.flow f SET jobs = f.jobs + a.jobs, completed = f.completed + a.completed, dead = f.dead + a.dead, cancelled = f.cancelled + a.cancelled,
    finished_at = CASE WHEN f.completed + a.completed + f.dead + a.dead + f.cancelled + a.cancelled = f.jobs + a.jobs THEN CASE WHEN a.removed THEN coalesce(f.finished_at, statement_timestamp()) ELSE statement_timestamp() END END
FROM added a WHERE f.seq = ANY (ARRAY[a.flow])`
	forgetFlowsSQL = `
WITH gone AS (DELETE FROM {{schema}}.flow WHERE jobs <= 0 RETURNING seq)
DELETE FROM {{schema}}.flow_node n USING gone WHERE n.flow = ANY (ARRAY[gone.seq])`

	// flowOfSQL is the flow of job g.
	flowOfSQL = `LATERAL (SELECT flow FROM {{schema}}.flow_node WHERE job_id = g.id OFFSET 0) n`

	// removeOfFlowsSQL removes finished jobs of a state of flows that finished longer ago than the time given, and have not been retried
	// since. No index matches the condition on the state, so that jobs are found by their IDs.
	removeOfFlowsSQL = `
WITH over AS (
    DELETE FROM {{schema}}.done WHERE ctid = ANY (ARRAY(
        SELECT d.ctid FROM (
            SELECT seq FROM {{schema}}.flow f WHERE f.finished_at <= statement_timestamp() - $1::bigint * interval '1 microsecond' AND f.{{state}} > 0
                AND NOT EXISTS (SELECT FROM {{schema}}.flow_change c WHERE c.flow = f.seq) OFFSET 0) f
        JOIN {{schema}}.flow_node n ON n.flow = ANY (ARRAY[f.seq])
        JOIN {{schema}}.done d ON d.id = ANY (ARRAY[n.job_id]) AND d.state || '' = '{{state}}'
        LIMIT $2 FOR UPDATE OF d SKIP LOCKED))
    RETURNING id, queue
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, {{state}}) SELECT queue, -count(*) FROM over GROUP BY queue
), bodies AS (
    DELETE FROM {{schema}}.job b USING over WHERE b.id = ANY (ARRAY[over.id])
), histories AS (
    DELETE FROM {{schema}}.attempt a USING over WHERE a.job_id = ANY (ARRAY[over.id])
), nodes AS (
    DELETE FROM {{schema}}.flow_node n USING over WHERE n.job_id = ANY (ARRAY[over.id]) AND n.sole = '{}'
), flowed AS (
    INSERT INTO {{schema}}.flow_change (flow, jobs, completed, dead, cancelled)
    SELECT n.flow, -count(*), CASE WHEN '{{state}}' = 'completed' THEN -count(*) ELSE 0 END, CASE WHEN '{{state}}' = 'dead' THEN -count(*) ELSE 0 END,
        CASE WHEN '{{state}}' = 'cancelled' THEN -count(*) ELSE 0 END FROM over g, ` + flowOfSQL + ` GROUP BY n.flow
)
SELECT count(*) FROM over`

	flowsSQL = `
SELECT f.seq, f.id, f.created_at, f.layers, f.jobs + coalesce(c.jobs, 0), f.completed + coalesce(c.completed, 0), f.dead + coalesce(c.dead, 0), f.cancelled + coalesce(c.cancelled, 0)
FROM {{schema}}.flow f LEFT JOIN (SELECT flow, sum(jobs)::bigint AS jobs, sum(completed)::bigint AS completed, sum(dead)::bigint AS dead, sum(cancelled)::bigint AS cancelled
    FROM {{schema}}.flow_change GROUP BY flow) c ON c.flow = f.seq
WHERE `
	pageOfFlowsSQL = `(f.seq < $1 OR $1 = 0) AND f.jobs + coalesce(c.jobs, 0) > 0 ORDER BY f.seq DESC LIMIT $2`

	// stateSQL is the state and output of the job of node n.
	stateSQL = `LATERAL (
    SELECT state, output FROM {{schema}}.done WHERE id = n.job_id UNION ALL SELECT 'waiting', output FROM {{schema}}.waiting WHERE id = n.job_id
    UNION ALL SELECT 'ready', output FROM {{schema}}.ready WHERE id = n.job_id UNION ALL SELECT 'running', output FROM {{schema}}.running WHERE id = n.job_id
    UNION ALL SELECT 'scheduled', output FROM {{schema}}.scheduled WHERE id = n.job_id) s`
	layersSQL = `SELECT n.layer, s.state, count(*) FROM {{schema}}.flow_node n, ` + stateSQL + ` WHERE n.flow = $1 GROUP BY n.layer, s.state ORDER BY n.layer`
	nodesSQL  = `
SELECT n.position, n.name, n.layer, n.job_id::text, b.type, s.state, n.on_failure, ` + unmetSQL + `, n.needs, cardinality(n.dependents) + cardinality(n.sole), CASE WHEN $5 THEN s.output END
FROM (%s) n JOIN {{schema}}.job b ON b.id = ANY (ARRAY[n.job_id]), ` + stateSQL + ` ORDER BY n.position`
	nodesOfFlowSQL = `SELECT n.* FROM {{schema}}.flow_node n WHERE n.flow = (SELECT seq FROM {{schema}}.flow WHERE id = $1) AND`
	nodePageSQL    = ` n.position > $2 AND ($3 = '' OR n.name = $3)
    AND EXISTS (SELECT FROM {{schema}}.job b WHERE b.id = n.job_id OFFSET 0) ORDER BY n.position LIMIT $4`
)

// removeOfFlows removes up to limit finished jobs of flows whose time is over.
func (j *Jobs) removeOfFlows(ctx context.Context, state job.State, limit int, keep time.Duration) (n int, err error) {
	b := steadyBatch()
	b.Queue(j.db.sql(strings.ReplaceAll(removeOfFlowsSQL, `{{state}}`, string(state))), keep.Microseconds(), limit).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
	b.Queue(j.db.sql(forgetFlowsSQL))
	return n, j.db.run(ctx, "remove finished jobs of flows", b)
}

// flowInfos adds a query for flows to a batch.
func (j *Jobs) flowInfos(b *pgx.Batch, page *[]job.FlowInfo, condition string, args ...any) {
	var f job.FlowInfo
	into := []any{&f.Cursor, &f.ID, (*instant)(&f.CreatedAt), &f.Layers, &f.Jobs, &f.Completed, &f.Dead, &f.Cancelled}
	gather(b.Queue(j.db.sql(flowsSQL+condition), args...), into, &f, page)
}

// Flow implements job.FlowStore.
func (j *Jobs) Flow(ctx context.Context, id string) (status job.FlowStatus, err error) {
	if j.db.closed.Load() {
		return status, job.ErrClosed
	}
	err = pgx.BeginTxFunc(ctx, j.db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var found []job.FlowInfo
		b := &pgx.Batch{}
		j.flowInfos(b, &found, `f.id = $1`, id)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if len(found) == 0 || found[0].Jobs == 0 { // maintenance will forget it
			return &job.NotFoundError{What: "flow", ID: id}
		}
		status = job.FlowStatus{FlowInfo: found[0]}
		rows, _ := tx.Query(ctx, j.db.sql(layersSQL), status.Cursor)
		layer, state, n := 0, "", 0
		_, err = pgx.ForEachRow(rows, []any{&layer, &state, &n}, func() error {
			status.Add(layer, job.State(state), n)
			return nil
		})
		return err
	})
	return status, j.db.wrap("flow", err)
}

// Flows implements job.FlowStore.
func (j *Jobs) Flows(ctx context.Context, q job.FlowQuery) (page []job.FlowInfo, err error) {
	b := &pgx.Batch{}
	j.flowInfos(b, &page, pageOfFlowsSQL, q.Below, cmp.Or(max(q.Limit, 0), 100))
	return page, j.db.run(ctx, "flows", b)
}

// neighboursSQL selects the needs or the dependents of the job $1. A handler reads all needs, page by page: a page reads no others.
func neighboursSQL(needs bool) string {
	list := `SELECT n.* FROM (SELECT position FROM unnest(me.needs) u(position) WHERE position > $2 ORDER BY position) p,
    LATERAL (SELECT * FROM {{schema}}.flow_node n WHERE n.flow = me.flow AND n.position = p.position OFFSET 0) n
    WHERE ($3 = '' OR n.name = $3) AND EXISTS (SELECT FROM {{schema}}.job b WHERE b.id = n.job_id OFFSET 0) ORDER BY p.position LIMIT $4`
	if !needs {
		list = `SELECT n.* FROM unnest(me.dependents) p(position),
        LATERAL (SELECT * FROM {{schema}}.flow_node n WHERE n.flow = me.flow AND n.position = p.position OFFSET 0) n
    UNION ALL SELECT n.* FROM unnest(me.sole) p(id), LATERAL (SELECT * FROM {{schema}}.flow_node n WHERE n.job_id = p.id OFFSET 0) n`
	}
	return `SELECT n.* FROM {{schema}}.flow_node me, LATERAL (` + list + `) n WHERE me.job_id = $1 AND`
}

// FlowNodes implements job.FlowStore.
func (j *Jobs) FlowNodes(ctx context.Context, q job.NodeQuery) (page []job.FlowNode, err error) {
	find, nodes := `SELECT seq FROM {{schema}}.flow WHERE id = $1`, nodesOfFlowSQL
	of := any(q.Flow)
	if q.Flow == "" {
		id, ok := parseID(cmp.Or(q.NeededBy, q.DependsOn))
		if !ok {
			return nil, q.NotFound()
		}
		of = id
		find, nodes = `SELECT flow FROM {{schema}}.flow_node WHERE job_id = $1`, neighboursSQL(q.NeededBy != "")
	}
	found := false
	b := steadyBatch()
	b.Queue(j.db.sql(find), of).Query(func(rows pgx.Rows) error {
		found = rows.Next()
		return nil
	})
	queued := b.Queue(j.db.sql(fmt.Sprintf(nodesSQL, nodes+nodePageSQL)), of, min(q.After, math.MaxInt32), q.Node, cmp.Or(max(q.Limit, 0), 1000), q.Outputs)
	collect(queued, &page, func(row pgx.CollectableRow) (n job.FlowNode, err error) {
		err = row.Scan(&n.Position, &n.Node, &n.Layer, &n.JobID, &n.Type, &n.State, &n.OnFailure, &n.Unmet, &n.Needs, &n.Dependents, &n.Output)
		return n, err
	})
	if err := j.db.run(ctx, "flow nodes", b); err != nil {
		return nil, err
	}
	if !found {
		return nil, q.NotFound()
	}
	return page, nil
}
