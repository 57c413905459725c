package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

// Statements that change the jobs $1 of one table and return the IDs of those that were still there, with the keys that are to be released.
// All statements of a transaction use the same time, so that jobs which are retried together keep their order.
var (
	// readySQL starts jobs again, from "gone". Refusals that are still on the record go to the history.
	readySQL = `, refused AS (
    INSERT INTO {{schema}}.attempt (job_id, fence, started, finished, delay, number, count, part, worker, reason)
    SELECT id, fence, refused_at, now(), 0, attempts + 1, refusals, 0, worker, refused_reason FROM gone WHERE refusals > 0
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, waiting, ready, scheduled, completed, dead, cancelled)
    SELECT queue, count(*) FILTER (WHERE state IN ('waiting', 'held')), count(*) FILTER (WHERE state = 'ready') - count(*) FILTER (WHERE was = 'ready'), ` + leftSQL + ` FROM gone GROUP BY queue
), gate AS (
    INSERT INTO {{schema}}.gate_event (arrived) SELECT array_agg(id) FROM gone WHERE state = 'waiting' HAVING count(*) > 0
), held_back AS (
    INSERT INTO {{schema}}.waiting (` + waitingColumns + `, waits_for)
    SELECT ` + afreshSQL + `, CASE state WHEN 'held' THEN 'needs' ELSE '` + atGate + `' END FROM gone WHERE state IN ('waiting', 'held')
), flowed AS (
    INSERT INTO {{schema}}.flow_change (flow, jobs, completed, dead, cancelled)
    SELECT n.flow, 0, ` + leftDoneSQL + ` FROM gone g, ` + flowOfSQL + ` WHERE g.needed > 0 GROUP BY n.flow
), again AS (
    INSERT INTO {{schema}}.ready (` + waitingColumns + `) SELECT ` + afreshSQL + ` FROM gone WHERE state = 'ready'
)
SELECT id FROM gone`

	afreshSQL = `id, now(), fence, 0, 0, priority, NULL::timestamptz, queue, unique_key, NULL::timestamptz, claimed_at, failed_at, NULL::timestamptz,
        worker, reason, NULL, last_error, output, type, places, needed`

	leftDoneSQL = `-count(*) FILTER (WHERE g.was = 'completed'), -count(*) FILTER (WHERE g.was = 'dead'), -count(*) FILTER (WHERE g.was = 'cancelled')`

	// A ready job keeps its places.
	retryWaitingSQL = `WITH gone AS (
    DELETE FROM {{schema}}.{{table}} WHERE id = ANY ($1::uuid[])
    RETURNING *, {{was}} AS was, CASE WHEN {{was}} = 'ready' AND places IS NOT NULL THEN 'ready' ELSE ` + dueStateSQL("{{table}}") + ` END AS state
)` + readySQL

	// A finished job has released its key and has to take it again. A job whose key another job holds, or takes in the same
	// statement, is left out. The attempt that completed it moves from its row to the history.
	retryFinishedSQL = `
WITH locked AS (
    SELECT id, queue, unique_key FROM {{schema}}.done WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE
), taken AS (
    INSERT INTO {{schema}}.unique_key AS u (queue, key, job_id, expires_at)
    SELECT DISTINCT ON (` + keyOrder + `) queue, unique_key, id, NULL::timestamptz FROM locked WHERE unique_key IS NOT NULL
    ORDER BY ` + keyOrder + `, id
    ON CONFLICT (queue, key) DO UPDATE SET
        job_id = CASE WHEN u.expires_at <= now() THEN excluded.job_id ELSE u.job_id END,
        expires_at = CASE WHEN u.expires_at <= now() THEN NULL ELSE u.expires_at END
    RETURNING job_id
), left_done AS (
    DELETE FROM {{schema}}.done d USING locked l
    WHERE d.id = ANY (ARRAY[l.id]) AND (l.unique_key IS NULL OR EXISTS (SELECT FROM taken t WHERE t.job_id = l.id))
    RETURNING d.*, (SELECT b.type FROM {{schema}}.job b WHERE b.id = d.id) AS type
), gone AS (
    SELECT id, fence, priority, queue, unique_key, claimed_at, failed_at, worker, reason, last_error, output, refusals, refused_at, refused_reason, attempts,
        completed_from, finished_at, type, needed, state AS was, NULL::text[] AS places,
        CASE WHEN needed > 0 AND (SELECT ` + unmetSQL + ` FROM {{schema}}.flow_node n WHERE n.job_id = d.id) > 0 THEN 'held' WHEN ` + boundSQL("d") + ` THEN 'waiting' ELSE 'ready' END AS state FROM left_done d
), completed AS (
    INSERT INTO {{schema}}.attempt (job_id, fence, started, finished, delay, number, count, part, kind, worker, reason)
    SELECT id, fence, completed_from, finished_at, 0, attempts + 1, 1, 1, 'complete', worker, reason FROM gone WHERE completed_from IS NOT NULL
)` + readySQL

	cancelWaitingSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.{{table}} WHERE id = ANY ($1::uuid[]) RETURNING *, {{was}} AS was
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, cancelled, all_cancelled, waiting, ready, scheduled)
    SELECT queue, count(*), count(*), -count(*) FILTER (WHERE was = 'waiting'), -count(*) FILTER (WHERE was = 'ready'), -count(*) FILTER (WHERE was = 'scheduled') FROM gone GROUP BY queue
), ended AS (
    INSERT INTO {{schema}}.done (` + factColumns + `, needed, finished_at, state)
    SELECT ` + factColumns + `, CASE WHEN needed > 1 THEN 3 ELSE needed END, now(), 'cancelled' FROM gone
)` + departSQL + changedSQL + `'cancelled'::text` + endedSQL + changedIDsSQL

	cancelRunningSQL = `UPDATE {{schema}}.running SET cancel_requested = coalesce(cancel_requested, now()) WHERE id = ANY ($1::uuid[]) RETURNING id`

	deleteSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.{{table}} WHERE id = ANY ($1::uuid[]) RETURNING id, queue, unique_key, needed, {{was}} AS was{{gated}}
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, waiting, ready, scheduled, completed, dead, cancelled)
    SELECT queue, -count(*) FILTER (WHERE was = 'waiting'), -count(*) FILTER (WHERE was = 'ready'), ` + leftSQL + ` FROM gone GROUP BY queue
), bodies AS (
    DELETE FROM {{schema}}.job b USING gone WHERE b.id = ANY (ARRAY[gone.id])
), histories AS (
    DELETE FROM {{schema}}.attempt a USING gone WHERE a.job_id = ANY (ARRAY[gone.id])
), flowed AS (
    INSERT INTO {{schema}}.flow_change (flow, jobs, completed, dead, cancelled)
    SELECT n.flow, -count(*), ` + leftDoneSQL + ` FROM gone g, ` + flowOfSQL + ` WHERE g.needed > 0 GROUP BY n.flow
)` + departSQL + changedSQL + `''::text` + endedSQL + changedIDsSQL

	// departSQL gives up the places of jobs, and leaves the lines in which they wait. inTable chooses the columns.
	departSQL = `{{departed}}`

	// leftSQL counts the jobs that leave scheduled, completed, dead and cancelled. "was" is the state that a job of "gone" had.
	leftSQL = `-count(*) FILTER (WHERE was = 'scheduled'), -count(*) FILTER (WHERE was = 'completed'), -count(*) FILTER (WHERE was = 'dead'),
        -count(*) FILTER (WHERE was = 'cancelled')`

	// changedSQL, a state, endedSQL and changedIDsSQL select "gone" and tell the flows of these jobs that the jobs have ended. "told" is
	// materialized because PostgreSQL could otherwise run it once for each row of "gone".
	changedSQL = `, told AS MATERIALIZED (
    SELECT ` + tellFlowsSQL
	changedIDsSQL = ` AS released FROM gone
)
SELECT g.id, g.queue, g.unique_key FROM gone g, told f WHERE f.released IS NOT NULL`

	// keysSQL releases the keys of "gone" that are held until their job ends.
	keysSQL = `, keys AS (
    ` + releaseSQL("gone") + `
)`

	// releaseAllSQL releases the keys of the jobs of several tables: one statement for each table would not keep the order of keys.
	releaseAllSQL = releaseSQL("unnest($1::uuid[], $2::text[], $3::bytea[]) AS gone(id, queue, unique_key)")
)

// releaseSQL releases the keys of jobs that are held until their job ends.
func releaseSQL(jobs string) string {
	return `DELETE FROM {{schema}}.unique_key u USING (
        SELECT id, queue, unique_key FROM ` + jobs + ` WHERE unique_key IS NOT NULL ORDER BY ` + keyOrder + `) g
    WHERE u.queue = ANY (ARRAY[g.queue]) AND u.key = g.unique_key AND u.job_id = g.id AND u.expires_at IS NULL`
}

// changeSQL is the statement for an action on the jobs of a table.
func changeSQL(a job.Action, table string) string {
	switch {
	case a == job.ActionDelete:
		return deleteSQL
	case a == job.ActionRetry && table == "done":
		return retryFinishedSQL
	case a == job.ActionRetry:
		return retryWaitingSQL
	case table == "running":
		return cancelRunningSQL
	}
	return cancelWaitingSQL
}

// changeLimit bounds the jobs of one transaction.
const changeLimit = 1000

// Change implements job.Admin. Each 1,000 jobs are one transaction; with an error it returns the jobs changed before.
func (j *Jobs) Change(ctx context.Context, action job.Action, f job.Filter, limit int) ([]string, error) {
	if err := action.Check(); err != nil {
		return nil, err
	}
	if j.db.closed.Load() {
		return nil, job.ErrClosed
	}
	if len(f.States) == 0 {
		f.States = job.States()
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s job.State) bool { return !action.Applies(s) })
	if len(f.States) == 0 {
		return nil, nil
	}
	var changed []string
	for after := ""; len(changed) < limit; {
		q, err := selectJobs(`s.id, s.state`, f, after, min(limit-len(changed), changeLimit))
		if err != nil || q.text == "" {
			return changed, j.db.wrap(string(action), err)
		}
		page, last, err := j.changePage(ctx, action, f, q)
		changed = append(changed, page...)
		if err != nil {
			return changed, j.db.wrap(string(action), err)
		}
		if last == "" {
			break
		}
		after = last
	}
	if len(changed) > 0 && j.limits.known() {
		j.tendSoon(ctx)
	}
	switch {
	case len(changed) == 0:
	case action == job.ActionCancel:
		j.cancels.Ring()
		fallthrough // dependents in flows may run
	default:
		j.bell.wake()
	}
	return changed, nil
}

// changeTries is how often jobs are looked for that went to another table before they were changed, such as ready jobs that were claimed.
const changeTries = 5

// changePage changes the selected jobs, which match f. It returns the IDs of the changed jobs, in order, and the last ID that was
// selected, or "" if there are no more.
func (j *Jobs) changePage(ctx context.Context, action job.Action, f job.Filter, q selection) (changed []string, last string, err error) {
	for try := range changeTries {
		var some, missed []string
		var newest string
		err = retryAborted(ctx, func() (err error) {
			some, missed, newest, err = j.changeSome(ctx, action, q)
			return err
		})
		if try == 0 {
			last = newest
		}
		changed = append(changed, some...)
		if err != nil || len(missed) == 0 {
			break
		}
		f.IDs = missed
		if q, err = selectJobs(`s.id, s.state`, f, "", len(missed)); err != nil {
			break
		}
	}
	slices.Sort(changed)
	return changed, last, err
}

// changeSome changes the selected jobs in one transaction. It returns the IDs of the jobs that it changed, of those that were not where
// they had been selected, and of the last that was selected, or "".
func (j *Jobs) changeSome(ctx context.Context, action job.Action, q selection) (changed, missed []string, last string, err error) {
	err = pgx.BeginFunc(ctx, j.db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, steady); err != nil {
			return err
		}
		byTable, newest, err := j.candidates(ctx, tx, q)
		if err != nil {
			return err
		}
		last = newest
		var keys heldKeys
		for _, p := range places() {
			ids := byTable[p.table]
			if len(ids) == 0 {
				continue
			}
			if action == job.ActionRetry && p.table == "done" {
				if _, err := tx.Exec(ctx, j.db.sql(lockNodesSQL), ids); err != nil {
					return err
				}
			}
			rows, _ := tx.Query(ctx, j.db.sql(inTable(changeSQL(action, p.table), p.table)), ids)
			names, err := pgx.CollectRows(rows, keys.read)
			if err != nil {
				return err
			}
			if action == job.ActionDelete {
				if _, err := tx.Exec(ctx, j.db.sql(dropNodesSQL), ids); err != nil {
					return err
				}
			}
			changed = append(changed, names...)
			if len(names) < len(ids) {
				missed = append(missed, others(ids, names)...)
			}
			if action == job.ActionCancel && p.table == "running" && len(names) > 0 {
				if _, err := tx.Exec(ctx, notifyMarkedSQL, j.channel(), cancelPayload); err != nil {
					return err
				}
			}
		}
		if len(keys.ids) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, j.db.sql(releaseAllSQL), keys.ids, keys.queues, keys.keys)
		return err
	})
	if err != nil {
		return nil, nil, "", err
	}
	return changed, missed, last, nil
}

// heldKeys are the keys that jobs which have ended still hold.
type heldKeys struct {
	ids    []pgtype.UUID
	queues []string
	keys   [][]byte
}

// read returns the ID of a changed job and adds its key, if the statement returns keys.
func (k *heldKeys) read(row pgx.CollectableRow) (string, error) {
	var id pgtype.UUID
	var queue string
	var key []byte
	into := []any{&id, &queue, &key}
	err := row.Scan(into[:len(row.FieldDescriptions())]...)
	if key != nil {
		k.ids, k.queues, k.keys = append(k.ids, id), append(k.queues, queue), append(k.keys, key)
	}
	return id.String(), err
}

// others returns the IDs that are not among the names.
func others(ids []pgtype.UUID, names []string) (list []string) {
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for _, id := range ids {
		if !there[id.String()] {
			list = append(list, id.String())
		}
	}
	return list
}

// candidates selects jobs and sorts them by the table that they are in.
func (j *Jobs) candidates(ctx context.Context, tx pgx.Tx, q selection) (byTable map[string][]pgtype.UUID, last string, err error) {
	rows, _ := tx.Query(ctx, j.db.sql(q.text), q.args...)
	byTable = map[string][]pgtype.UUID{}
	var id pgtype.UUID
	var state job.State
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		for _, p := range places() {
			if slices.Contains(p.states, state) {
				byTable[p.table] = append(byTable[p.table], id)
			}
		}
		last = id.String()
		return nil
	})
	return byTable, last, err
}
