package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

var _ job.RedriveStepper = (*Jobs)(nil)

var (
	redriveColumns = `SELECT data, jobs, statement_timestamp() FROM {{schema}}.redrive`
	redriveSQL     = redriveColumns + ` WHERE id = $1`
	redrivesSQL    = redriveColumns + ` WHERE id < $1 ORDER BY id DESC LIMIT $2`
	activeSQL      = redriveColumns + ` WHERE active AND id < $1 ORDER BY id DESC LIMIT $2`
	saveSQL        = `UPDATE {{schema}}.redrive SET active = $2, data = $3 WHERE id = $1`

	// settledSQL looks at pending jobs and removes those that have ended. It returns them all, with the state of those, "" for a
	// job that was removed, and NULL for one that goes on.
	settledSQL = `
WITH looked AS (
    SELECT p.redrive, p.position, p.job_id, coalesce(d.state, CASE WHEN b.type IS NULL THEN '' END) AS state
    FROM (SELECT redrive, position, job_id FROM {{schema}}.redrive_pending WHERE redrive = $1 AND position > $2 ORDER BY position LIMIT $3) p
    LEFT JOIN {{schema}}.done d ON d.id = ANY (ARRAY[p.job_id]) LEFT JOIN {{schema}}.job b ON b.id = ANY (ARRAY[p.job_id])
), gone AS (
    DELETE FROM {{schema}}.redrive_pending p USING looked l
    WHERE p.redrive = ANY (ARRAY[l.redrive]) AND p.position = l.position AND l.state IS NOT NULL
)
SELECT position, job_id::text, state FROM looked`

	// releasableSQL locks the jobs of the next positions that may be released. It makes them pending, with the facts that running
	// them again overwrites, and returns their IDs. No index matches the condition on the state, so that jobs are found by their IDs.
	releasableSQL = `
WITH locked AS (
    SELECT w.position, d.* FROM {{schema}}.redrive_waiting w JOIN {{schema}}.done d ON d.id = ANY (ARRAY[w.job_id])
    WHERE w.redrive = $1 AND w.position > $2 AND w.position <= $3 AND d.state || '' = 'dead' AND d.fence = w.fence FOR UPDATE OF d
), gone AS (
    DELETE FROM {{schema}}.redrive_waiting WHERE redrive = $1 AND position > $2 AND position <= $3
)
INSERT INTO {{schema}}.redrive_pending (redrive, position, job_id, fence, run_at, finished_at, attempts, refusals, started_at, cancel_requested, refused_at, refused_reason, cause)
SELECT $1, position, id, fence, run_at, finished_at, attempts, refusals, started_at, cancel_requested, refused_at, refused_reason, cause FROM locked RETURNING job_id`

	// unreleasedSQL removes pending jobs that could not be released because another job holds their unique key.
	unreleasedSQL = `DELETE FROM {{schema}}.redrive_pending WHERE redrive = $1 AND position > $2 AND job_id = ANY ($3::uuid[])`

	// undoSQL puts back released jobs that nobody has claimed. It returns how many, the last position that it looked at, and how
	// many jobs it looked at.
	undoSQL = `
WITH looked AS (
    SELECT * FROM {{schema}}.redrive_pending WHERE redrive = $1 AND position > $2 ORDER BY position LIMIT $3
), gone_ready AS (
    DELETE FROM {{schema}}.ready r USING looked p WHERE r.id = ANY (ARRAY[p.job_id]) AND r.fence = p.fence
    RETURNING 'ready' AS was, ` + undoneColumns + `, r.places, NULL::text AS line
), gone_waiting AS (
    DELETE FROM {{schema}}.waiting r USING looked p WHERE r.id = ANY (ARRAY[p.job_id]) AND r.fence = p.fence
    RETURNING 'waiting' AS was, ` + undoneColumns + `, r.places, r.line
), gone AS (SELECT * FROM gone_ready UNION ALL SELECT * FROM gone_waiting
), gate AS (
    INSERT INTO {{schema}}.gate_event (dropped, freed, departed) SELECT * FROM (SELECT
        (SELECT array_agg(p) FROM gone_ready g, unnest(g.places) p) AS dropped, (SELECT array_agg(p) FROM gone_waiting g, unnest(g.places) p) AS freed,
        (SELECT array_agg(line) FROM gone_waiting WHERE line IS NOT NULL) AS departed) e WHERE dropped IS NOT NULL OR freed IS NOT NULL OR departed IS NOT NULL
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, waiting, ready, dead)
    SELECT queue, -count(*) FILTER (WHERE was = 'waiting'), -count(*) FILTER (WHERE was = 'ready'), count(*) FROM gone GROUP BY queue
), ended AS (
    INSERT INTO {{schema}}.done (` + factColumns + `, needed, finished_at, state, cause, dead_type) SELECT ` + factColumns + `, needed, finished_at, 'dead', cause, type FROM gone
), histories AS (
    DELETE FROM {{schema}}.attempt a USING gone g WHERE a.job_id = ANY (ARRAY[g.id]) AND a.fence = g.fence AND a.part = 0 AND g.refusals > 0
), undone AS (
    DELETE FROM {{schema}}.redrive_pending p USING gone g WHERE p.redrive = ANY (ARRAY[g.redrive]) AND p.position = g.position
)` + keysSQL + `
SELECT (SELECT count(*) FROM gone), (SELECT ` + tellFlowsSQL + `'dead'::text` + endedSQL + ` FROM gone), coalesce(max(position), 0), count(*) FROM looked`

	undoneColumns = `p.redrive, p.position, p.run_at, p.finished_at, p.attempts, p.refusals, p.started_at, p.cancel_requested, p.refused_at, p.refused_reason, p.cause,
        r.type, r.id, r.fence, r.priority, r.queue, r.unique_key, r.claimed_at, r.failed_at, r.worker, r.reason, r.last_error, r.output, r.needed`

	discardSQL = `DELETE FROM {{schema}}.redrive_waiting WHERE redrive = $1 AND position > $2 AND position <= $3`
)

// readRedrive reads a row of redrives, and the time of the statement.
func readRedrive(row pgx.CollectableRow) (r job.Redrive, at time.Time, err error) {
	var data, groups string
	if err := row.Scan(&data, &groups, &at); err != nil {
		return r, at, err
	}
	return r, at, errors.Join(json.Unmarshal([]byte(data), &r), json.Unmarshal([]byte(groups), &r.Groups))
}

func noRedrive(id string) error { return &job.NotFoundError{What: "redrive", ID: id} }

// groupsSQL counts the jobs of a selection by queue and type, and with a redrive stores the selection. Its arguments are those of
// the filter.
func groupsSQL(n job.NewRedrive, redrive *pgtype.UUID) (selection, error) {
	q, err := selectJobs(`s.id, s.fence, s.queue, b.type`, n.Selects(), "", 0)
	if err != nil {
		return q, err
	}
	// The whole selection, without the limits of pages.
	q.args[len(q.args)-1] = nil
	stored := ``
	if redrive != nil {
		id := q.arg(*redrive)
		stored = `, stored AS (
    INSERT INTO {{schema}}.redrive_waiting (redrive, position, job_id, fence) SELECT ` + id + `::uuid, row_number() OVER (ORDER BY id), id, fence FROM selected
)`
	}
	q.text = `WITH selected AS (` + strings.TrimSpace(q.text) + `)` + stored + ` SELECT queue, type, count(*) FROM selected GROUP BY queue, type`
	return q, nil
}

// PreviewRedrive implements job.Redriver. It reads every dead job.
func (j *Jobs) PreviewRedrive(ctx context.Context, f job.Filter) ([]job.RedriveGroup, error) {
	q, err := groupsSQL(job.NewRedrive{Filter: f}, nil)
	if err != nil {
		return nil, err
	}
	var groups []job.RedriveGroup
	b := &pgx.Batch{}
	collect(b.Queue(j.db.sql(q.text), q.args...), &groups, pgx.RowToStructByPos[job.RedriveGroup])
	if err := j.db.run(ctx, "preview redrive", b); err != nil {
		return nil, err
	}
	return job.SortGroups(groups), nil
}

// CreateRedrive implements job.Redriver.
func (j *Jobs) CreateRedrive(ctx context.Context, n job.NewRedrive) (made job.Redrive, err error) {
	if err := n.Check(); err != nil {
		return made, fmt.Errorf("postgres: create redrive: %w", err)
	}
	id, ok := parseID(n.ID)
	if !ok {
		return made, fmt.Errorf("postgres: create redrive: %w", &job.RedriveError{Field: "id", Problem: "it is not a UUID"})
	}
	q, err := groupsSQL(n, &id)
	if err != nil {
		return made, err
	}
	err = j.transaction(ctx, "create redrive", func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT statement_timestamp()`).Scan(&now); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, j.db.sql(q.text), q.args...)
		groups, err := pgx.CollectRows(rows, pgx.RowToStructByPos[job.RedriveGroup])
		if err != nil {
			return err
		}
		if len(groups) == 0 {
			return fmt.Errorf("no dead job matches the filter: %w", job.ErrNotFound)
		}
		made = n.Start(groups, now)
		data, err := redriveData(made)
		if err != nil {
			return err
		}
		counted, err := json.Marshal(made.Groups)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, j.db.sql(`INSERT INTO {{schema}}.redrive (id, active, data, jobs) VALUES ($1, true, $2, $3) ON CONFLICT DO NOTHING`), id, data, string(counted))
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%w: the redrive %s exists", job.ErrConflict, n.ID)
		}
		return err
	})
	if err != nil {
		return job.Redrive{}, err
	}
	return made, nil
}

// transaction runs f in a transaction, again if the server aborts it.
func (j *Jobs) transaction(ctx context.Context, what string, f func(tx pgx.Tx) error) error {
	if j.db.closed.Load() {
		return job.ErrClosed
	}
	return j.db.wrap(what, retryAborted(ctx, func() error { return pgx.BeginFunc(ctx, j.db.pool, f) }))
}

// redriveData is a redrive as it is stored, without its groups.
func redriveData(r job.Redrive) (string, error) {
	r.Groups = nil
	raw, err := json.Marshal(r)
	return string(raw), err
}

// Redrive implements job.Redriver.
func (j *Jobs) Redrive(ctx context.Context, id string) (job.Redrive, error) {
	key, ok := parseID(id)
	if !ok {
		return job.Redrive{}, noRedrive(id)
	}
	list, err := j.readRedrives(ctx, redriveSQL, key)
	if err == nil && len(list) == 0 {
		err = noRedrive(id)
	}
	if err != nil {
		return job.Redrive{}, err
	}
	return list[0], nil
}

func (j *Jobs) readRedrives(ctx context.Context, text string, args ...any) (list []job.Redrive, err error) {
	b := steadyBatch()
	collect(b.Queue(j.db.sql(text), args...), &list, func(row pgx.CollectableRow) (job.Redrive, error) {
		r, _, err := readRedrive(row)
		return r, err
	})
	return list, j.db.run(ctx, "redrives", b)
}

// Redrives implements job.Redriver.
func (j *Jobs) Redrives(ctx context.Context, q job.RedriveQuery) ([]job.Redrive, error) {
	below := pgtype.UUID{Bytes: [16]byte{0: 0xff, 15: 0xff}, Valid: true}
	if q.Below != "" {
		var ok bool
		if below, ok = parseID(q.Below); !ok {
			return nil, fmt.Errorf("postgres: redrives: cursor %q is not an ID", q.Below)
		}
	}
	text := redrivesSQL
	if q.Active {
		text = activeSQL
	}
	return j.readRedrives(ctx, text, below, cmp.Or(max(q.Limit, 0), 100))
}

// UpdateRedrive implements job.Redriver.
func (j *Jobs) UpdateRedrive(ctx context.Context, id string, c job.RedriveChange) (job.Redrive, error) {
	return j.changeRedrive(ctx, "update redrive", id, func(_ pgx.Tx, r *job.Redrive, at time.Time) error { return r.Apply(c, at) })
}

// changeRedrive locks a redrive, changes and stores it.
func (j *Jobs) changeRedrive(ctx context.Context, what, id string, change func(tx pgx.Tx, r *job.Redrive, at time.Time) error) (state job.Redrive, err error) {
	key, ok := parseID(id)
	if !ok {
		return state, noRedrive(id)
	}
	err = j.transaction(ctx, what, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, steady); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, j.db.sql(redriveSQL+` FOR UPDATE`), key)
		var at time.Time
		state, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (r job.Redrive, err error) {
			r, at, err = readRedrive(row)
			return r, err
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return noRedrive(id)
		}
		if err != nil {
			return err
		}
		before, err := redriveData(state)
		if err != nil {
			return err
		}
		if err := change(tx, &state, job.Stamp(at)); err != nil {
			return err
		}
		after, err := redriveData(state)
		if err != nil || after == before {
			return err
		}
		_, err = tx.Exec(ctx, j.db.sql(saveSQL), key, state.Active(), after)
		return err
	})
	if err != nil {
		return job.Redrive{}, err
	}
	return state, nil
}

// StepRedrive implements job.RedriveStepper.
func (j *Jobs) StepRedrive(ctx context.Context, id string, hold time.Duration) (state job.Redrive, v job.RedriveVerdict, err error) {
	key, _ := parseID(id)
	state, err = j.changeRedrive(ctx, "step redrive", id, func(tx pgx.Tx, r *job.Redrive, at time.Time) (err error) {
		v, err = r.Step(at, hold, redriveStep{ctx, j, tx, key})
		return err
	})
	if err == nil && j.limits.known() {
		j.tendSoon(ctx)
	}
	if err == nil && v.Release > 0 {
		j.bell.wake()
	}
	return state, v, err
}

// redriveStep is the selection of a redrive in the transaction of a step.
type redriveStep struct {
	ctx context.Context
	j   *Jobs
	tx  pgx.Tx
	id  pgtype.UUID
}

// Settled implements job.RedriveSelection.
func (t redriveStep) Settled(after, n int) (ended []job.RedriveEnded, last int, err error) {
	rows, _ := t.tx.Query(t.ctx, t.j.db.sql(settledSQL), t.id, after, n)
	looked, position, id, state := 0, 0, "", pgtype.Text{}
	_, err = pgx.ForEachRow(rows, []any{&position, &id, &state}, func() error {
		looked++
		last = max(last, position)
		if state.Valid {
			ended = append(ended, job.RedriveEnded{ID: id, State: job.State(state.String)})
		}
		return nil
	})
	if looked < n {
		last = 0
	}
	return ended, last, err
}

// Release implements job.RedriveSelection.
func (t redriveStep) Release(after, n int) (released int, err error) {
	ids, err := t.uuids(releasableSQL, t.id, after, after+n)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	done, err := t.uuids(inTable(retryFinishedSQL, "done"), ids)
	if err != nil || len(done) == len(ids) {
		return len(done), err
	}
	freed := map[pgtype.UUID]bool{}
	for _, id := range done {
		freed[id] = true
	}
	var kept []pgtype.UUID
	for _, id := range ids {
		if !freed[id] {
			kept = append(kept, id)
		}
	}
	_, err = t.tx.Exec(t.ctx, t.j.db.sql(unreleasedSQL), t.id, after, kept)
	return len(done), err
}

// uuids runs a statement that returns IDs.
func (t redriveStep) uuids(text string, args ...any) ([]pgtype.UUID, error) {
	rows, _ := t.tx.Query(t.ctx, t.j.db.sql(text), args...)
	return pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
}

// Undo implements job.RedriveSelection.
func (t redriveStep) Undo(after, n int) (undone, last int, err error) {
	looked, released := 0, false
	err = t.tx.QueryRow(t.ctx, t.j.db.sql(undoSQL), t.id, after, n).Scan(&undone, &released, &last, &looked)
	if looked < n {
		last = 0
	}
	return undone, last, err
}

// Discard implements job.RedriveSelection.
func (t redriveStep) Discard(after, n int) error {
	_, err := t.tx.Exec(t.ctx, t.j.db.sql(discardSQL), t.id, after, after+n)
	return err
}
