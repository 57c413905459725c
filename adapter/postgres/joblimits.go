package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

var _ job.Limiter = (*Jobs)(nil)

// Limits implements job.Limiter.
func (j *Jobs) Limits(ctx context.Context) ([]job.LimitState, error) {
	stored, err := j.storedLimits(ctx)
	return lists.Map(stored, func(l job.StoredLimit) job.LimitState { return l.LimitState }), err
}

func (j *Jobs) storedLimits(ctx context.Context) (list []job.StoredLimit, err error) {
	b := &pgx.Batch{}
	j.queueLimits(b, func(found []job.StoredLimit) { list = found })
	return list, j.db.run(ctx, "limits", b)
}

// SetLimit implements job.Limiter. When it changes the buckets of jobs or lowers a number, it looks at every waiting, ready and
// running job of the store once, in steps of 1,000, between which workers go on. If ctx ends before the last step, maintenance goes on.
func (j *Jobs) SetLimit(ctx context.Context, s job.LimitSetting) error {
	if err := s.Check(); err != nil {
		return err
	}
	return j.changeLimits(ctx, "set limit", func(old []job.StoredLimit, next func() int64) (job.LimitChanges, error) {
		return job.ApplySetting(old, s, next)
	})
}

// PublishLimits implements job.Limiter, with the steps of SetLimit.
func (j *Jobs) PublishLimits(ctx context.Context, scopes []policy.LimitScope) error {
	return j.changeLimits(ctx, "publish limits", func(old []job.StoredLimit, next func() int64) (job.LimitChanges, error) {
		return job.ApplyDocument(old, scopes, next), nil
	})
}

const (
	putLimitSQL = `
INSERT INTO {{schema}}.job_limit AS l (queue, type, name, number, data) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (queue, type, name) DO UPDATE SET number = excluded.number, data = excluded.data`
	dropLimitSQL = `DELETE FROM {{schema}}.job_limit WHERE queue = $1 AND type = $2 AND name = $3`
	unbindSQL    = `DELETE FROM {{schema}}.bound`
	bindSQL      = `INSERT INTO {{schema}}.bound (queue, type) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	addWorkSQL   = `
INSERT INTO {{schema}}.gate_work AS w (kind, what, position) VALUES ($1, $2, '')
ON CONFLICT (kind, what) DO UPDATE SET position = '', changed = pg_current_xact_id(), sure = false`
)

// The kinds of work that a change of limits leaves.
const (
	workLimit = "limit" // what: the beginning of the names of a limit's buckets
	workJobs  = "jobs"  // what: a job.LimitName without a name, as JSON
)

func (j *Jobs) changeLimits(ctx context.Context, what string, change func([]job.StoredLimit, func() int64) (job.LimitChanges, error)) error {
	changed := false
	err := j.transaction(ctx, what, func(tx pgx.Tx) error {
		var old []job.StoredLimit
		b := &pgx.Batch{}
		b.Queue(`SELECT pg_advisory_xact_lock($1)`, j.db.lockKey("limits"))
		j.queueLimits(b, func(list []job.StoredLimit) { old = list })
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		var failed error
		next := func() (n int64) {
			failed = cmp.Or(failed, tx.QueryRow(ctx, j.db.sql(`SELECT nextval('{{schema}}.job_limit_number')`)).Scan(&n))
			return n
		}
		changes, err := change(old, next)
		if err = cmp.Or(failed, err); err != nil {
			return err
		}
		changed = len(changes.Put)+len(changes.Drop) > 0
		return (&gateTx{ctx: ctx, j: j, tx: tx}).putLimits(changes, changes.Apply(old))
	})
	if err != nil || !changed {
		return err
	}
	j.limits.note(true)
	for more := true; more && err == nil; {
		if more, err = j.gateStep(ctx); err == nil {
			var done tended
			done, err = j.tend(ctx)
			more = more || done.more
		}
	}
	j.bell.wake() // other processes have not heard of the change
	return err
}

func (t *gateTx) putLimits(c job.LimitChanges, all []job.StoredLimit) error {
	b := &pgx.Batch{}
	add := func(text string, args ...any) { b.Queue(t.j.db.sql(text), args...) }
	for _, l := range c.Put {
		data, err := json.Marshal(l.LimitState)
		if err != nil {
			return err
		}
		add(putLimitSQL, l.Queue, l.Type, l.Name, l.ID, string(data))
	}
	for _, n := range c.Drop {
		add(dropLimitSQL, n.Queue, n.Type, n.Name)
	}
	add(unbindSQL)
	for _, l := range all {
		if l.InForce() != nil {
			add(bindSQL, l.Queue, l.Type)
		}
	}
	gate := job.NewGate(all)
	for _, id := range c.Touch {
		add(addWorkSQL, workLimit, gate.Prefix(id))
	}
	for _, n := range c.Gate {
		n.Name = ""
		scope, err := json.Marshal(n)
		if err != nil {
			return err
		}
		add(addWorkSQL, workJobs, string(scope))
	}
	return t.tx.SendBatch(t.ctx, b).Close()
}

const (
	// nextWorkSQL leaves out passes that would have to be repeated once more. They wait for transactions anywhere on the server.
	nextWorkSQL = `
SELECT kind, what, position, sure, settled FROM (SELECT *, pg_snapshot_xmin(pg_current_snapshot()) > changed AS settled FROM {{schema}}.gate_work) w
WHERE position <> '` + passedOnce + `' OR settled ORDER BY kind, what LIMIT 1`
	moveWorkSQL = `UPDATE {{schema}}.gate_work SET position = $3, sure = $4 WHERE kind = $1 AND what = $2`
	endWorkSQL  = `DELETE FROM {{schema}}.gate_work WHERE kind = $1 AND what = $2`

	// touchLimitSQL touches the next buckets of a limit with waiting jobs.
	touchLimitSQL = `
WITH page AS (
    SELECT name, waiting FROM {{schema}}.bucket WHERE name > $2 AND starts_with(name, $1) ORDER BY name LIMIT 1000
), touched AS (
    INSERT INTO {{schema}}.gate_event (touched) SELECT array_agg(name) FROM page WHERE waiting > 0 HAVING count(*) > 0
)
SELECT coalesce(max(name), '') FROM page HAVING count(*) = 1000`

	// recallSQL brings the next waiting and ready jobs of a queue or type to the gate again.
	recallReadySQL = `
WITH page AS (
    SELECT id, ctid AS place FROM {{schema}}.ready WHERE id > $1 ORDER BY id LIMIT 1000
), gone AS (
    DELETE FROM {{schema}}.ready WHERE ctid = ANY (ARRAY(SELECT place FROM page)) AND ($2 <> '' AND queue = $2 OR $3 <> '' AND type = $3) RETURNING *
), held_back AS (
    INSERT INTO {{schema}}.waiting (` + factColumns + `, type, needed, waits_for) SELECT ` + factColumns + `, type, needed, '` + atGate + `' FROM gone
), gate AS (
    INSERT INTO {{schema}}.gate_event (dropped, arrived)
    SELECT (SELECT array_agg(p) FROM gone g, unnest(g.places) p), array_agg(id) FROM gone HAVING count(*) > 0
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, ready, waiting) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
)
SELECT id::text FROM page ORDER BY id DESC LIMIT 1`
	recallWaitingSQL = `
WITH page AS (
    SELECT id, ctid AS place, line, queue, type FROM {{schema}}.waiting WHERE id > $1 ORDER BY id LIMIT 1000 FOR UPDATE
), own AS (
    SELECT * FROM page WHERE line IS NOT NULL AND ($2 <> '' AND queue = $2 OR $3 <> '' AND type = $3)
), recalled AS (
    UPDATE {{schema}}.waiting SET line = NULL, waits_for = '` + atGate + `' WHERE ctid = ANY (ARRAY(SELECT place FROM own))
), gate AS (
    INSERT INTO {{schema}}.gate_event (departed, arrived) SELECT array_agg(line), array_agg(id) FROM own HAVING count(*) > 0
)
SELECT id::text FROM page ORDER BY id DESC LIMIT 1`
	recallRunningSQL = `
SELECT r.id::text, r.places, r.queue, r.type, b.meta, b.payload FROM (SELECT * FROM {{schema}}.running WHERE id > $1 ORDER BY id LIMIT 1000 FOR UPDATE) r,
    {{schema}}.job b WHERE b.id = ANY (ARRAY[r.id])`
	replaceSQL = `
WITH replaced AS (
    UPDATE {{schema}}.running r SET places = string_to_array(a.places, E'\n') FROM unnest($1::uuid[], $2::text[]) AS a(id, places) WHERE r.id = ANY (ARRAY[a.id])
)
INSERT INTO {{schema}}.gate_event (freed, taken) VALUES ($3, $4)`
)

// recalled lists the tables whose jobs are given their buckets again. Running jobs come first, because they count before others get
// places, and again after the ready ones, some of which were claimed meanwhile. Waiting jobs come before the ready ones: these give places
// back, and a job that got one with the buckets that it had before would not be found again.
var recalled = []string{"running", "waiting", "ready", "running"}

// passedOnce is the position of a pass that must be repeated, once all transactions have ended that may not know of the change.
const passedOnce = "again"

// noID is before all IDs.
const noID = "00000000-0000-0000-0000-000000000000"

// gateStep does a part of the work that changes of limits have left, and reports whether there is more to do at once.
func (j *Jobs) gateStep(ctx context.Context) (more bool, err error) {
	err = j.transaction(ctx, "limits", func(tx pgx.Tx) error {
		t := &gateTx{ctx: ctx, j: j, tx: tx}
		if err := tx.SendBatch(ctx, t.hold()).Close(); err != nil {
			return err
		}
		more, err = t.work()
		return err
	})
	return more, err
}

func (t *gateTx) work() (more bool, err error) {
	var kind, what, position string
	var sure, settled bool
	rows, _ := t.tx.Query(t.ctx, t.j.db.sql(nextWorkSQL))
	_, err = pgx.ForEachRow(rows, []any{&kind, &what, &position, &sure, &settled}, func() error { return nil })
	if err != nil || kind == "" {
		return false, err
	}
	if position == passedOnce {
		position = ""
	}
	if position == "" {
		sure = settled
	}
	var next string
	if kind == workLimit {
		next, err = t.queryText(touchLimitSQL, what, position)
		sure = true
	} else {
		next, err = t.recall(what, position)
	}
	if err != nil {
		return false, err
	}
	if next == "" && sure {
		_, err = t.tx.Exec(t.ctx, t.j.db.sql(endWorkSQL), kind, what)
		return true, err
	}
	next = cmp.Or(next, passedOnce)
	_, err = t.tx.Exec(t.ctx, t.j.db.sql(moveWorkSQL), kind, what, next, sure)
	return true, err
}

// queryText returns the text of a statement's row, or "".
func (t *gateTx) queryText(statement string, args ...any) (found string, err error) {
	rows, _ := t.tx.Query(t.ctx, t.j.db.sql(statement), args...)
	_, err = pgx.ForEachRow(rows, []any{&found}, func() error { return nil })
	return found, err
}

// recall gives the next jobs their buckets again and returns the position behind them, "" at the end. A position is an index in
// recalled and an ID.
func (t *gateTx) recall(scope, position string) (next string, err error) {
	var name job.LimitName
	if err := json.Unmarshal([]byte(scope), &name); err != nil {
		return "", err
	}
	phase, after := 0, noID
	if position != "" {
		if _, err := fmt.Sscan(position, &phase, &after); err != nil {
			return "", err
		}
	}
	from, _ := parseID(after)
	var last string
	switch recalled[phase] {
	case "waiting":
		last, err = t.queryText(recallWaitingSQL, from, name.Queue, name.Type)
	case "ready":
		last, err = t.queryText(recallReadySQL, from, name.Queue, name.Type)
	default:
		last, err = t.recallRunning(from, name)
	}
	if last == "" {
		phase, last = phase+1, noID
	}
	if err != nil || phase == len(recalled) {
		return "", err
	}
	return fmt.Sprint(phase, " ", last), nil
}

// recallRunning gives running jobs places in their new buckets, also beyond the limit: they have started already.
func (t *gateTx) recallRunning(from pgtype.UUID, name job.LimitName) (last string, err error) {
	rows, err := t.tx.Query(t.ctx, t.j.db.sql(recallRunningSQL), from)
	if err != nil {
		return "", err
	}
	var ids []pgtype.UUID
	var places []pgtype.Text
	var v job.GateEvents
	for rows.Next() {
		var r job.Record
		var held []string
		var meta []byte
		if err := rows.Scan(&r.ID, &held, &r.Queue, &r.Type, &meta, &r.Payload); err != nil {
			return "", err
		}
		if last = max(last, r.ID); !name.Bounds(&r) {
			continue
		}
		if meta != nil {
			if err := json.Unmarshal(meta, &r.Meta); err != nil {
				return "", err
			}
		}
		needs := t.gate.Needs(&r)
		v.Replace(held, needs)
		id, _ := parseID(r.ID)
		ids, places = append(ids, id), append(places, names(needs))
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return last, err
	}
	_, err = t.tx.Exec(t.ctx, t.j.db.sql(replaceSQL), ids, places, v.Freed, v.Taken)
	return last, err
}

const bucketUseSQL = `SELECT name, held, waiting FROM {{schema}}.bucket WHERE starts_with(name, $1)`

// LimitUse implements job.Limiter.
func (j *Jobs) LimitUse(ctx context.Context, name job.LimitName, n int) (use job.LimitUse, err error) {
	j.catchUp(ctx)
	list, err := j.storedLimits(ctx)
	if err != nil {
		return use, err
	}
	prefix, err := job.NewGate(list).PrefixOf(list, name)
	if err != nil || prefix == "" {
		return use, err
	}
	b := &pgx.Batch{}
	var x job.Bucket
	each(b.Queue(j.db.sql(bucketUseSQL), prefix), []any{&x.Name, &x.Held, &x.Waiting}, func() error { use.Add(&x, n); return nil })
	err = j.db.run(ctx, "limit use", b)
	use.Cut(n)
	return use, err
}
