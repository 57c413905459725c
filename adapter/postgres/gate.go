package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// A statement that makes jobs ready leaves those with limits in waiting, without a line. It notes them, and the places that jobs
// give up, in gate_event. The gate is tended by one transaction at a time, which no other waits for: it applies the events to the
// buckets, and moves jobs to ready or into lines. Whoever has committed events tends the gate next, as does every maintenance, so
// that events outlive whoever wrote them. Tending need not be flushed to disk: a later commit that depends on it is.

// atGate is the waits_for of jobs that have not passed the gate.
const atGate = "limits"

// boundSQL is the condition that jobs of a row's queue and type have limits. The first part is evaluated once for a statement.
func boundSQL(row string) string {
	return strings.ReplaceAll(`((SELECT EXISTS (SELECT FROM {{schema}}.bound)) AND (EXISTS (SELECT FROM {{schema}}.bound n WHERE n.queue = ROW.queue AND n.type = '')
        OR EXISTS (SELECT FROM {{schema}}.bound n WHERE n.queue = '' AND n.type = ROW.type)))`, "ROW.", row+".")
}

// dueStateSQL is the state of a due job: ready, or waiting if it has limits or has kept places.
func dueStateSQL(row string) string {
	return `CASE WHEN ` + row + `.places IS NOT NULL OR ` + boundSQL(row) + ` THEN 'waiting' ELSE 'ready' END`
}

// keptSQL are the places that a job keeps through a retry.
const keptSQL = `CASE WHEN r.places IS NOT NULL THEN (SELECT array_agg(p) FROM unnest(r.places) p WHERE left(p, 1) IN ('s', 'b')) END`

// freshSQL says of new jobs whether they are due and whether they have limits.
var freshSQL = `i.run_at <= statement_timestamp() AND i.waits_for IS NULL AS due, ` + boundSQL("i") + ` AS bound`

// limited is what a process knows of the limits of the store.
type limited struct {
	mu     sync.Mutex
	are    bool      // there are limits, or places that jobs hold
	asked  time.Time // when the store was asked last
	told   int       // how often there may have been events
	owed   int       // what told was when a settlement last left the gate to tendFor
	tended int       // what told was when the gate was last tended
}

const (
	askEvery    = time.Second
	tendTimeout = 30 * time.Second
	tendPause   = 25 * time.Millisecond // for which settlements gather if nobody waits for them
	maxTendFor  = 1000                  // callers
)

func (l *limited) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.are
}

func (l *limited) note(are bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if are && !l.are {
		l.told++
	}
	l.are, l.asked = are, time.Now()
}

// news notes that there may be events.
func (l *limited) news() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told++
}

// pending reports whether there may be events that nobody has tended.
func (l *limited) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.are && l.tended < l.told
}

// owe notes that there are events, which nobody waits for.
func (l *limited) owe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told++
	l.owed = l.told
}

// owes reports whether events that owe has noted have not been tended.
func (l *limited) owes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tended < l.owed
}

// now returns what seen takes once everything that is known now has been tended.
func (l *limited) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func (l *limited) seen(told int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tended = max(l.tended, told)
}

func (l *limited) stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.asked) >= askEvery
}

const askLimitsSQL = `SELECT EXISTS (SELECT FROM {{schema}}.bound) OR EXISTS (SELECT FROM {{schema}}.bucket)
    OR EXISTS (SELECT FROM {{schema}}.gate_work) OR EXISTS (SELECT FROM {{schema}}.gate_event)`

// askLimits adds to a batch, once per second, the question whether there are limits.
func (j *Jobs) askLimits(b *pgx.Batch) {
	if !j.limits.stale() {
		return
	}
	b.Queue(j.db.hot(askLimitsSQL)).QueryRow(func(r pgx.Row) error {
		are := false
		err := r.Scan(&are)
		if err == nil {
			j.limits.note(are)
		}
		return err
	})
}

// tendSoon tends the gate after a commit, and returns when it has been tended. Callers that come while it is being tended share the
// next time, so that they do not queue for the gate one by one. If that fails, the next maintenance does it.
func (j *Jobs) tendSoon(ctx context.Context) {
	done := make(chan struct{})
	j.limits.news()
	if !j.tends.Add(done) {
		return
	}
	j.hurry.Send()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// tendLater is tendSoon for a settlement, which does not wait. A claim that finds too little waits, and so do readers of jobs.
func (j *Jobs) tendLater() {
	j.limits.owe()
	j.tends.Add(nil)
}

// catchUp waits until the gate has seen the settlements of this process, so that what is read next shows what follows from them.
func (j *Jobs) catchUp(ctx context.Context) {
	if j.limits.owes() {
		j.tendSoon(ctx)
	}
}

// tendFor tends the gate for callers of tendSoon and tendLater. One look for many settlements costs less than a look for each.
func (j *Jobs) tendFor(callers []chan struct{}) {
	if !slices.ContainsFunc(callers, func(c chan struct{}) bool { return c != nil }) {
		_, _ = wait.ForSignal(context.Background(), tendPause, j.hurry)
	} else {
		select {
		case <-j.hurry: // it was for this look
		default:
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tendTimeout)
	defer cancel()
	told := j.limits.now()
	switch done, err := j.tend(ctx); {
	case err != nil:
		j.db.log.Debug("postgres: limits are looked at later", "error", err)
	case !done.more:
		j.limits.seen(told)
	}
	for _, c := range callers {
		if c != nil {
			close(c)
		}
	}
}

// tendRounds bounds the transactions of one call.
const tendRounds = 4

// errLeft means that a job left its line, for example cancelled, between the look at the line and the end of its wait.
var errLeft = errors.New("postgres: a job left its line meanwhile")

// tended is the result of tending the gate.
type tended struct {
	due  time.Time // when time alone gives the next place
	more bool
}

// tend applies events and gives free places to those who come next.
func (j *Jobs) tend(ctx context.Context) (done tended, err error) {
	admitted := 0
	for range tendRounds {
		var n int
		err = j.transaction(ctx, "limits", func(tx pgx.Tx) (err error) {
			n, done, err = (&gateTx{ctx: ctx, j: j, tx: tx}).tend()
			return err
		})
		admitted += n
		if errors.Is(err, errLeft) { // rolled back: the events are still there
			done.more, err = true, nil
			continue
		}
		if err != nil || !done.more {
			break
		}
	}
	if admitted > 0 {
		j.bell.wake()
	}
	return done, err
}

// maintainGate tends the gate, does a part of what changes of limits have left, and adds to the result of a maintenance.
func (j *Jobs) maintainGate(ctx context.Context, m *job.Maintained) error {
	if !j.limits.known() {
		return nil
	}
	more, err := j.gateStep(ctx)
	if err != nil {
		return err
	}
	done, err := j.tend(ctx)
	m.More = more || done.more
	if !done.due.IsZero() && (m.NextDue.IsZero() || done.due.Before(m.NextDue)) {
		m.NextDue = done.due
	}
	return err
}

// gateTx is a transaction that holds the gate.
type gateTx struct {
	ctx  context.Context
	j    *Jobs
	tx   pgx.Tx
	gate *job.Gate
	now  time.Time

	stored map[string]bool // the buckets that the store had
}

const (
	holdGateSQL = `SELECT set_config('synchronous_commit', 'off', true), pg_advisory_xact_lock($1)`

	// eventsSQL takes the oldest events, $1 at most and no more once $2 jobs have come. What is committed after its snapshot is not seen.
	eventsSQL = `
WITH next AS (
    SELECT place FROM (SELECT place, sum(came) OVER (ORDER BY at, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (
        SELECT ctid AS place, at, coalesce(cardinality(arrived), 0) AS came FROM {{schema}}.gate_event WHERE at >= (SELECT seen FROM {{schema}}.gate) ORDER BY at LIMIT $1) oldest
    ) e WHERE coalesce(before, 0) < $2
), gone AS (
    DELETE FROM {{schema}}.gate_event WHERE ctid = ANY (ARRAY(SELECT place FROM next)) RETURNING *
), seen AS (
    UPDATE {{schema}}.gate SET seen = least(pg_snapshot_xmin(pg_current_snapshot()), (SELECT at FROM gone ORDER BY at DESC LIMIT 1)) WHERE EXISTS (SELECT FROM gone)
)
SELECT freed, dropped, taken, departed, touched, started, started_at, arrived FROM gone ORDER BY at`

	jobLimitsSQL  = `SELECT queue, type, name, number, data FROM {{schema}}.job_limit ORDER BY queue, type, name`
	dueBucketsSQL = `SELECT name, statement_timestamp() FROM (SELECT 1) one LEFT JOIN LATERAL (
        SELECT name FROM {{schema}}.bucket WHERE due <= statement_timestamp() ORDER BY due LIMIT 1000) d ON true`
	arrivedSQL = `
SELECT w.id::text, w.places, w.priority, w.run_at, b.created_at, b.queue, b.type, b.meta, b.payload
FROM {{schema}}.waiting w JOIN {{schema}}.job b ON b.id = ANY (ARRAY[w.id]) WHERE w.id = ANY ($1::uuid[]) AND w.line IS NULL AND w.waits_for = '` + atGate + `' ORDER BY w.id FOR UPDATE OF w`
	bucketsSQL = `SELECT name, held, unstarted, waiting, next FROM {{schema}}.bucket WHERE name = ANY ($1::text[])`
	linesSQL   = `
SELECT x.id::text, x.needs, x.places, x.line, x.priority, x.run_at, x.created_at FROM unnest($1::text[], $2::integer[]) AS l(line, first), LATERAL (
    SELECT w.id, w.needs, w.places, w.line, w.priority, w.run_at, w.created_at FROM {{schema}}.waiting w WHERE w.line = l.line
    ORDER BY w.line, w.rank, w.since, w.id LIMIT l.first) x`
	nextPlaceSQL = `SELECT due FROM {{schema}}.bucket WHERE due IS NOT NULL ORDER BY due LIMIT 1`

	// admitSQL makes jobs ready, with places in all buckets that they need, a line of text for each. It returns their number, for the
	// lines are read without locks.
	admitSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.waiting w USING unnest($1::uuid[], $2::text[]) AS a(id, needs) WHERE w.id = ANY (ARRAY[a.id])
    RETURNING w.*, string_to_array(a.needs, E'\n') AS all_needs
), moved AS (
    INSERT INTO {{schema}}.ready (` + factColumns + `, type, places, needed) SELECT ` + factColumns + `, type, all_needs, needed FROM gone
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, waiting, ready) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
)
SELECT count(*) FROM gone`
	lineUpSQL = `
UPDATE {{schema}}.waiting w SET needs = string_to_array(a.needs, E'\n'), places = string_to_array(a.holds, E'\n'), line = a.line, rank = a.rank, since = a.since,
    waits_for = a.waits_for, created_at = a.created_at
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[], $7::text[], $8::timestamptz[])
    AS a(id, needs, holds, line, rank, since, waits_for, created_at)
WHERE w.id = ANY (ARRAY[a.id])`
	addBucketsSQL = `
INSERT INTO {{schema}}.bucket (name, held, unstarted, waiting, next, due)
SELECT * FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[], $5::timestamptz[], $6::timestamptz[])`
	changeBucketsSQL = `
UPDATE {{schema}}.bucket b SET held = x.held, unstarted = x.unstarted, waiting = x.waiting, next = x.next, due = x.due
FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[], $5::timestamptz[], $6::timestamptz[]) AS x(name, held, unstarted, waiting, next, due) WHERE b.name = ANY (ARRAY[x.name])`
	dropBucketsSQL = `DELETE FROM {{schema}}.bucket WHERE name = ANY ($1::text[])`
	touchSQL       = `INSERT INTO {{schema}}.gate_event (touched) VALUES ($1)`
)

// hold takes the gate and reads the limits, first in a batch. What follows sees everything that whoever held it before has written.
func (t *gateTx) hold() *pgx.Batch {
	b := steadyBatch()
	b.Queue(holdGateSQL, t.j.db.lockKey("limits"))
	t.j.queueLimits(b, func(list []job.StoredLimit) { t.gate = job.NewGate(list) })
	return b
}

// queueLimits adds a query for the limits of the store.
func (j *Jobs) queueLimits(b *pgx.Batch, use func([]job.StoredLimit)) {
	b.Queue(j.db.hot(jobLimitsSQL)).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, readLimit)
		if err == nil {
			use(list)
		}
		return err
	})
}

func readLimit(row pgx.CollectableRow) (l job.StoredLimit, err error) {
	var name job.LimitName
	var data string
	if err := row.Scan(&name.Queue, &name.Type, &name.Name, &l.ID, &data); err != nil {
		return l, err
	}
	err = json.Unmarshal([]byte(data), &l.LimitState)
	l.LimitName = name
	return l, err
}

// A step takes at most maxEvents events, and no more once maxArrived jobs have come.
const (
	maxEvents  = 1000
	maxArrived = 10_000
)

// tend does one step.
func (t *gateTx) tend() (admitted int, done tended, err error) {
	events, arrived, err := t.events()
	if err != nil {
		return 0, done, err
	}
	full := len(events) > maxEvents || len(arrived) >= maxArrived
	if len(arrived) > 0 {
		came, err := t.arrivals(arrived)
		if err != nil {
			return 0, done, err
		}
		events = append(events, job.GateEvents{Arrived: came})
	}
	result := &job.GateResult{}
	if slices.ContainsFunc(events, func(v job.GateEvents) bool { return !v.Empty() }) {
		if result, err = t.gate.Tend(events, t, t.now); err != nil {
			return 0, done, err
		}
	}
	done.due, err = t.write(result)
	done.more = full || len(result.More) > 0
	return len(result.Admitted), done, err
}

// events takes the gate, and from the store the events and the buckets that are due.
func (t *gateTx) events() (events []job.GateEvents, arrived []pgtype.UUID, err error) {
	b := t.hold()
	var v, due job.GateEvents
	var came []pgtype.UUID
	into := []any{&v.Freed, &v.Dropped, &v.Taken, &v.Left, &v.Touched, &v.Started, (*instant)(&v.At), &came}
	each(b.Queue(t.j.db.hot(eventsSQL), maxEvents, maxArrived), into, func() error {
		events, arrived = append(events, v), append(arrived, came...)
		return nil
	})
	var name pgtype.Text
	each(b.Queue(t.j.db.hot(dueBucketsSQL)), []any{&name, (*instant)(&t.now)}, func() error {
		if name.Valid {
			due.Touched = append(due.Touched, name.String)
		}
		return nil
	})
	err = t.tx.SendBatch(t.ctx, b).Close()
	return append(events, due), arrived, err
}

// arrivals reads jobs that have come to the gate.
func (t *gateTx) arrivals(ids []pgtype.UUID) ([]*job.Entrant, error) {
	rows, _ := t.tx.Query(t.ctx, t.j.db.hot(arrivedSQL), ids)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*job.Entrant, error) {
		var r job.Record
		var holds []string
		var meta []byte
		err := row.Scan(&r.ID, &holds, &r.Priority, (*instant)(&r.RunAt), (*instant)(&r.CreatedAt), &r.Queue, &r.Type, &meta, &r.Payload)
		if err != nil {
			return nil, err
		}
		if meta != nil {
			if err := json.Unmarshal(meta, &r.Meta); err != nil {
				return nil, fmt.Errorf("metadata of job %s: %w", r.ID, err)
			}
		}
		return t.gate.Entrant(&r, holds), nil
	})
}

// Buckets implements job.GateStore.
func (t *gateTx) Buckets(names []string) ([]*job.Bucket, error) {
	if t.stored == nil {
		t.stored = map[string]bool{}
	}
	rows, _ := t.tx.Query(t.ctx, t.j.db.hot(bucketsSQL), names)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*job.Bucket, error) {
		b := &job.Bucket{}
		err := row.Scan(&b.Name, &b.Held, &b.Unstarted, &b.Waiting, (*instant)(&b.Next))
		t.stored[b.Name] = true
		return b, err
	})
}

// Lines implements job.GateStore.
func (t *gateTx) Lines(first map[string]int) ([]*job.Entrant, error) {
	var names []string
	var counts []int32
	for name, n := range first {
		names, counts = append(names, name), append(counts, int32(n))
	}
	rows, _ := t.tx.Query(t.ctx, t.j.db.hot(linesSQL), names, counts)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*job.Entrant, error) {
		e := &job.Entrant{}
		return e, row.Scan(&e.ID, &e.Needs, &e.Holds, &e.Line, &e.Priority, (*instant)(&e.RunAt), (*instant)(&e.CreatedAt))
	})
}

// write writes the result of a step, and returns when time alone gives the next place.
func (t *gateTx) write(r *job.GateResult) (next time.Time, err error) {
	b := &pgx.Batch{}
	if n := len(r.Admitted); n > 0 {
		slices.SortFunc(r.Admitted, func(a, b *job.Entrant) int { return strings.Compare(a.ID, b.ID) }) // which is how indexes take them best
		ids, needs := make([]pgtype.UUID, n), make([]pgtype.Text, n)
		for i, e := range r.Admitted {
			ids[i], _ = parseID(e.ID)
			needs[i] = names(e.Needs)
		}
		b.Queue(t.j.db.hot(admitSQL), ids, needs).QueryRow(func(row pgx.Row) error {
			moved := 0
			if err := row.Scan(&moved); err != nil || moved == n {
				return err
			}
			return errLeft
		})
	}
	if n := len(r.Lined); n > 0 {
		ids, needs, holds, lines, why := make([]pgtype.UUID, n), make([]pgtype.Text, n), make([]pgtype.Text, n), make([]string, n), make([]string, n)
		ranks, since, created := make([]int16, n), make([]pgtype.Timestamptz, n), make([]pgtype.Timestamptz, n)
		for i, e := range r.Lined {
			ids[i], _ = parseID(e.ID)
			needs[i], holds[i], lines[i], why[i] = names(e.Needs), names(e.Holds), e.Line, t.gate.WaitsFor(e.Line)
			rank, at := e.Rank()
			ranks[i], since[i], created[i] = int16(rank), stamp(at), stamp(e.CreatedAt)
		}
		b.Queue(t.j.db.hot(lineUpSQL), ids, needs, holds, lines, ranks, since, why, created).Exec(func(done pgconn.CommandTag) error {
			if done.RowsAffected() == int64(n) {
				return nil
			}
			return errLeft
		})
	}
	t.putBuckets(b, r.Buckets)
	if len(r.More) > 0 {
		b.Queue(t.j.db.hot(touchSQL), r.More)
	}
	each(b.Queue(t.j.db.hot(nextPlaceSQL)), []any{(*instant)(&next)}, func() error { return nil })
	return next, t.tx.SendBatch(t.ctx, b).Close()
}

func (t *gateTx) putBuckets(b *pgx.Batch, buckets []*job.Bucket) {
	var idle []string
	var changed, added bucketColumns
	for _, x := range buckets {
		switch {
		case x.Idle(t.now) && t.stored[x.Name]:
			idle = append(idle, x.Name)
		case x.Idle(t.now):
		case t.stored[x.Name]:
			changed.add(x, t.gate.Due(x, t.now))
		default:
			added.add(x, t.gate.Due(x, t.now))
		}
	}
	if len(changed.names) > 0 {
		b.Queue(t.j.db.hot(changeBucketsSQL), changed.arguments()...)
	}
	if len(added.names) > 0 {
		b.Queue(t.j.db.hot(addBucketsSQL), added.arguments()...)
	}
	if len(idle) > 0 {
		b.Queue(t.j.db.hot(dropBucketsSQL), idle)
	}
}

// bucketColumns are buckets as a statement takes them.
type bucketColumns struct {
	names                    []string
	held, unstarted, waiting []int32
	next, due                []pgtype.Timestamptz
}

func (c *bucketColumns) add(x *job.Bucket, due time.Time) {
	c.names, c.held, c.unstarted, c.waiting = append(c.names, x.Name), append(c.held, int32(x.Held)), append(c.unstarted, int32(x.Unstarted)), append(c.waiting, int32(x.Waiting))
	c.next, c.due = append(c.next, stamp(x.Next)), append(c.due, stamp(due))
}

func (c *bucketColumns) arguments() []any {
	return []any{c.names, c.held, c.unstarted, c.waiting, c.next, c.due}
}

// names joins the names of buckets, which have no control characters. None is NULL.
func names(list []string) pgtype.Text { return text(strings.Join(list, "\n")) }
