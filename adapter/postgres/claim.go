package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

// Rows that are locked here are never updated, only deleted, so that their physical address finds them again.
const (
	pausedSQL = `SELECT FROM {{schema}}.queue q WHERE q.queue = $1 AND q.paused AND (q.until IS NULL OR q.until > statement_timestamp())`

	// reachedSQL selects the positions to start at, $5 to $7, one for each priority in order.
	reachedSQL = `
        SELECT r.ctid FROM unnest($5::smallint[], $6::timestamptz[], $7::uuid[]) AS reached(priority, run_at, id), LATERAL (`
	onwardSQL = ` AND x.priority = reached.priority AND (x.run_at, x.id) >= (reached.run_at, reached.id)`

	// typesSQL steps from type to type in the index; its cost does not grow with the number of jobs.
	typesSQL = `
WITH RECURSIVE found(type) AS (
    (SELECT r.type FROM {{schema}}.ready r WHERE r.queue = $1 ORDER BY r.queue, r.type LIMIT 1)
    UNION ALL
    SELECT (SELECT r.type FROM {{schema}}.ready r WHERE r.queue = $1 AND r.type > f.type ORDER BY r.queue, r.type LIMIT 1) FROM found f WHERE f.type IS NOT NULL
) SELECT type FROM found WHERE type IS NOT NULL`

	takeSQL = `
WITH taken AS (
    DELETE FROM {{schema}}.ready WHERE ctid = ANY (ARRAY(`
	leaseSQL = `))
    RETURNING *
), leased AS (
    INSERT INTO {{schema}}.running (id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at,
        failed_at, refused_at, worker, reason, refused_reason, last_error, output, type, places, needed, lease_until)
    SELECT id, run_at, fence + 1, attempts, refusals, priority, cancel_requested, queue, unique_key,
        started_at, statement_timestamp(), failed_at, refused_at, $3, reason, refused_reason, last_error, output, type, places, needed,
        statement_timestamp() + $4::bigint * interval '1 microsecond'
    FROM taken
), gate AS (
    INSERT INTO {{schema}}.gate_event (started, started_at)
    SELECT array_agg(p), statement_timestamp() FROM (SELECT places FROM taken WHERE places IS NOT NULL) t, unnest(t.places) p WHERE left(p, 1) IN ('r', 'b') HAVING count(*) > 0
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, ready, running) SELECT $1::text, -n, n FROM (SELECT count(*) AS n FROM taken) t WHERE n > 0
)
SELECT ` + bodyColumns + `, t.run_at, t.attempts, t.started_at, t.fence + 1, statement_timestamp(), t.refusals
FROM taken t JOIN {{schema}}.job b ON b.id = ANY (ARRAY[t.id])`
)

// maxPromoted bounds the due jobs that a claim makes ready.
const maxPromoted = 1000

// claimText describes a statement that claims from a number of types, whose names are the last parameters. It starts at a
// number of positions, or at the head if there are none.
type claimText struct{ types, positions int }

// sql returns the statement, with a placeholder for the schema.
func (t claimText) sql() string {
	switch {
	case t.types == 1 && t.positions == 0:
		return takeSQL + oneTypeSQL(5, "") + leaseSQL
	case t.types == 1:
		return takeSQL + reachedSQL + oneTypeSQL(8, onwardSQL) + `) r LIMIT $2` + leaseSQL
	}
	return takeSQL + t.merged() + leaseSQL
}

// oneTypeSQL locks the next jobs of a type, which are one part of the index in the order of claims.
func oneTypeSQL(parameter int, where string) string {
	return fmt.Sprintf(`
            SELECT x.ctid FROM {{schema}}.ready x
            WHERE x.queue = $1 AND x.type = $%d`+where+` AND NOT EXISTS (`+pausedSQL+`)
            ORDER BY x.queue, x.type, x.priority, x.run_at, x.id LIMIT $2 FOR UPDATE SKIP LOCKED`, parameter)
}

// merged locks the next jobs of several types. The parts of the index are merged while they are read, and the jobs are locked
// afterwards: locking in each part would lock more jobs than are taken. $5 to $8 are the bounds of rangeColumns.
func (t claimText) merged() string {
	ranges, first := []string{""}, 5
	if t.positions > 0 {
		ranges, first = nil, 9
		for i := 1; i <= t.positions; i++ {
			ranges = append(ranges, fmt.Sprintf(` AND (x.priority, x.run_at, x.id) >= (($5::smallint[])[%d], ($6::timestamptz[])[%[1]d], ($7::uuid[])[%[1]d])
                AND x.priority < ($8::smallint[])[%[1]d]`, i))
		}
	}
	var parts []string
	for i := range t.types {
		for _, where := range ranges {
			parts = append(parts, fmt.Sprintf(`
                (SELECT x.ctid AS place, x.priority, x.run_at, x.id FROM {{schema}}.ready x WHERE x.queue = $1 AND x.type = $%d`+where+`
                ORDER BY x.queue, x.type, x.priority, x.run_at, x.id)`, first+i))
		}
	}
	return `
            SELECT l.ctid FROM (SELECT * FROM (` + strings.Join(parts, ` UNION ALL`) + `) u ORDER BY priority, run_at, id OFFSET 0) c
            JOIN {{schema}}.ready l ON l.ctid = c.place
            WHERE NOT EXISTS (` + pausedSQL + `)
            LIMIT $2 FOR UPDATE OF l SKIP LOCKED`
}

// claimText returns the statement with the schema. A worker always claims the same types, so there are few statements.
func (j *Jobs) claimText(t claimText) string {
	if text, ok := j.claims.Load(t); ok {
		return text.(string)
	}
	text := j.db.sql(t.sql())
	j.claims.Store(t, text)
	return text
}

// Claim implements job.Store. The records lack the columns that workers do not read: output, errors and reasons of earlier
// attempts. In a queue with many jobs per second, a job with an earlier run_at than already claimed jobs of its priority may
// wait for 100 ms, or for up to 5 s if the server is slow to vacuum.
func (j *Jobs) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	untended := j.limits.pending()
	if untended && len(c.Types) == 0 { // a claim of any type looks at what is ready
		j.tendSoon(ctx)
	}
	from, err := j.origins(ctx, c)
	if err != nil {
		return nil, err
	}
	first, err := j.claim(ctx, c, from, false)
	if err != nil {
		return nil, err
	}
	list, again := first.list, first.again
	if rest := left(from, list); len(rest) > 0 { // a claim that is full does not wait for more
		if first.due {
			again = rest
			b := steadyBatch()
			p := j.promote(b)
			if err = j.db.run(ctx, "claim", b); err == nil {
				j.promoted(p)
			}
		}
		if untended || j.limits.pending() {
			j.tendSoon(ctx)
			again = rest
		}
	}
	if err == nil && len(again) > 0 {
		var more taken
		more, err = j.claim(ctx, c, again, true)
		list = append(list, more.list...)
	}
	if len(list) > 0 {
		return list, nil // the jobs claimed first must run even if the rest fails
	}
	return nil, err
}

// left returns what a claim may still take.
func left(from []origin, list []*job.Record) (again []origin) {
	for _, o := range from {
		for _, r := range list {
			if r.Queue == o.Queue {
				o.Free--
			}
		}
		if o.Free > 0 {
			again = append(again, o)
		}
	}
	return again
}

// origin is a part of a claim: up to free jobs of a queue, of types.
type origin struct {
	job.Slots
	types  []string
	cursor string // key of the cursor: the queue and the requested types
}

// origins returns the queues of a claim with slots, and the types to claim from each. If the claim names no types, it reads
// them from the store.
func (j *Jobs) origins(ctx context.Context, c job.Claim) (from []origin, err error) {
	asked := strings.Join(c.Types, "\x00")
	for _, slots := range c.Queues {
		if slots.Free > 0 {
			from = append(from, origin{Slots: slots, types: c.Types, cursor: slots.Queue + "\x00" + asked})
		}
	}
	if len(c.Types) > 0 || len(from) == 0 {
		return from, nil
	}
	b := steadyBatch()
	p := j.promote(b)
	for i := range from {
		collect(b.Queue(j.db.hot(typesSQL), from[i].Queue), &from[i].types, pgx.RowTo[string])
	}
	if err := j.db.run(ctx, "claim", b); err != nil {
		return nil, err
	}
	j.promoted(p)
	return slices.DeleteFunc(from, func(o origin) bool { return len(o.types) == 0 }), nil
}

const anyDueSQL = `SELECT EXISTS (SELECT FROM {{schema}}.scheduled WHERE run_at > $1 AND run_at <= statement_timestamp())`

// lookForDue looks in a batch whether jobs are due, which costs a fifth of promoting them.
func (j *Jobs) lookForDue(b *pgx.Batch, due *bool) {
	from := j.due.from(time.Now())
	b.Queue(j.db.hot(anyDueSQL), from).QueryRow(func(r pgx.Row) error {
		err := r.Scan(due)
		if *due && from.InfinityModifier != 0 {
			j.due.restart() // the promotion must start at the beginning too
		}
		return err
	})
}

// promotion is how many due jobs a batch has made ready or sent to the gate.
type promotion struct {
	jobs  int
	gated bool
}

// promote makes due jobs ready in a batch. After its commit, the result goes to promoted.
func (j *Jobs) promote(b *pgx.Batch) *promotion {
	p := &promotion{}
	b.Queue(j.db.hot(promoteSQL), maxPromoted, j.due.from(time.Now())).QueryRow(func(r pgx.Row) error {
		at := time.Time{}
		return r.Scan(&p.jobs, &at, &p.gated)
	})
	return p
}

// promoted notes a promotion that is committed and tells workers.
func (j *Jobs) promoted(p *promotion) {
	j.promotes.Store(p.jobs > 0)
	if p.gated {
		j.limits.news()
	}
	if p.jobs > 0 {
		j.bell.wake() // the jobs may belong to queues and types that the claim does not take
	}
}

// taken is the result of a claim: its jobs, the slots for which there may be more jobs at the head, and whether scheduled jobs were due.
type taken struct {
	list  []*job.Record
	again []origin
	due   bool
}

// claim claims once from each origin, from its cursor's position or from the head.
func (j *Jobs) claim(ctx context.Context, c job.Claim, from []origin, head bool) (t taken, err error) {
	if len(from) == 0 { // no free slots: only check the context and the store
		if j.db.closed.Load() {
			return t, job.ErrClosed
		}
		return t, ctx.Err()
	}
	b := steadyBatch()
	var p *promotion
	switch {
	case head || len(c.Types) == 0:
	case j.promotes.Load():
		p = j.promote(b)
	default:
		j.lookForDue(b, &t.due)
	}
	j.askLimits(b)
	start := time.Now()
	var noted []func(took time.Duration)
	for _, o := range from {
		args := []any{o.Queue, o.Free, c.Worker, c.Lease.Microseconds()}
		at, onward := j.cursors.start(o.cursor, start)
		text := claimText{types: len(o.types)}
		if onward = onward && !head; onward {
			var bounds []any
			text.positions, bounds = positionColumns(at, len(o.types))
			args = append(args, bounds...)
		}
		for _, name := range o.types {
			args = append(args, name)
		}
		b.Queue(j.claimText(text), args...).Query(func(rows pgx.Rows) error {
			claimed, err := readClaimed(rows, c)
			t.list = append(t.list, claimed...)
			noted = append(noted, func(took time.Duration) {
				if onward {
					took = 0
				}
				j.cursors.advance(o.cursor, claimResult{claimed, o.Free, took, start})
				if left := o.Free - len(claimed); onward && left > 0 && j.cursors.mayHaveMore(o.cursor) {
					o.Free = left
					t.again = append(t.again, o)
				}
			})
			return err
		})
	}
	if err := j.db.run(ctx, "claim", b); err != nil {
		return taken{}, err
	}
	took := time.Since(start)
	for _, note := range noted {
		note(took)
	}
	if p != nil {
		j.promoted(p)
	}
	if t.due {
		j.promotes.Store(true)
	}
	return t, nil
}

// readClaimed reads one queue's jobs and sorts them, since the move between tables does not keep the order. The server does
// not send values that the claim itself contains.
func readClaimed(rows pgx.Rows, c job.Claim) ([]*job.Record, error) {
	var list []*job.Record
	r := row{Record: job.Record{State: job.Running}}
	columns := r.claimed()
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return nil, err
		}
		record, err := r.record()
		if err != nil {
			return nil, err
		}
		record.Worker, record.LeaseUntil = c.Worker, record.ClaimedAt.Add(c.Lease.Truncate(time.Microsecond))
		list = append(list, record)
	}
	slices.SortFunc(list, func(a, b *job.Record) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	return list, rows.Err()
}

const extendSQL = `
WITH s AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS s(id, fence, ord)),
extended AS (
    UPDATE {{schema}}.running r SET lease_until = statement_timestamp() + $3::bigint * interval '1 microsecond'
    FROM s WHERE ` + heldSQL + `
    RETURNING s.ord, r.cancel_requested IS NOT NULL AS cancel_requested
)
SELECT coalesce(array_agg(ord), '{}'), coalesce(array_agg(ord) FILTER (WHERE cancel_requested), '{}') FROM extended`

// Extend implements job.Store.
func (j *Jobs) Extend(ctx context.Context, leases []job.Ref, d time.Duration) []error {
	if len(leases) == 0 {
		return nil
	}
	if err := job.CheckLease(d); err != nil {
		return all(len(leases), err)
	}
	ids, fences := refColumns(leases)
	var extended, cancelled []int
	err := retryAborted(ctx, func() error {
		b := steadyBatch()
		b.Queue(j.db.hot(extendSQL), ids, fences, d.Microseconds()).QueryRow(func(r pgx.Row) error { return r.Scan(&extended, &cancelled) })
		return j.db.run(ctx, "extend", b)
	})
	if err != nil {
		return all(len(leases), err)
	}
	errs := make([]error, len(leases))
	for _, ord := range cancelled {
		errs[ord-1] = job.ErrCancelRequested
	}
	if missing := without(len(leases), extended); len(missing) > 0 {
		for i, err := range j.judge(ctx, pick(leases, missing), make([]*string, len(missing))) {
			if !errors.Is(err, errLive) {
				errs[missing[i]] = err
			}
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

// judgeSQL has no condition on a state that matches an index, so that jobs are found by their IDs.
const judgeSQL = `
SELECT r.id IS NOT NULL, coalesce(r.lease_until > statement_timestamp(), false), coalesce(r.fence = s.fence, false),
    EXISTS (SELECT FROM {{schema}}.job b WHERE b.id = ANY (ARRAY[s.id])),
    CASE s.kind
    WHEN 'refuse' THEN coalesce(s.fence >= r.fence - r.refusals AND s.fence < r.fence, false)
        OR EXISTS (SELECT FROM {{schema}}.waiting x WHERE x.id = ANY (ARRAY[s.id]) AND s.fence > x.fence - x.refusals AND s.fence <= x.fence)
        OR EXISTS (SELECT FROM {{schema}}.ready x WHERE x.id = ANY (ARRAY[s.id]) AND s.fence > x.fence - x.refusals AND s.fence <= x.fence)
        OR EXISTS (SELECT FROM {{schema}}.scheduled x WHERE x.id = ANY (ARRAY[s.id]) AND s.fence > x.fence - x.refusals AND s.fence <= x.fence)
        OR EXISTS (SELECT FROM {{schema}}.done x WHERE x.id = ANY (ARRAY[s.id]) AND s.fence > x.fence - (x.state = 'dead')::int - x.refusals
            AND s.fence <= x.fence - (x.state = 'dead')::int)
    WHEN 'bury' THEN EXISTS (SELECT FROM {{schema}}.done x WHERE x.id = ANY (ARRAY[s.id]) AND x.fence = s.fence AND x.state || '' = 'dead')
    ELSE EXISTS (SELECT FROM {{schema}}.attempt a WHERE a.job_id = ANY (ARRAY[s.id]) AND a.fence = s.fence AND a.kind = s.kind)
        OR EXISTS (SELECT FROM {{schema}}.done x WHERE x.id = ANY (ARRAY[s.id]) AND x.fence = s.fence AND x.completed_from IS NOT NULL AND s.kind = 'complete')
    END,
    coalesce(s.kind, '') IN ('retry', 'snooze', 'refuse', 'release') AND EXISTS (SELECT FROM {{schema}}.done x
        WHERE x.id = ANY (ARRAY[s.id]) AND x.fence = s.fence AND x.cancel_requested IS NOT NULL AND x.state || '' = 'cancelled')
FROM unnest($1::uuid[], $2::bigint[], $3::text[]) WITH ORDINALITY AS s(id, fence, kind, ord)
LEFT JOIN {{schema}}.running r ON r.id = ANY (ARRAY[s.id])
ORDER BY s.ord`

// judge returns why leases had no effect on their jobs. A kind is the settlement's, or nil for an extension. For a settlement
// that repeats an earlier one with the same token, the error is that of the earlier one.
func (j *Jobs) judge(ctx context.Context, leases []job.Ref, kinds []*string) []error {
	ids, fences := refColumns(leases)
	errs := make([]error, 0, len(leases))
	b := steadyBatch()
	var l leaseState
	each(b.Queue(j.db.hot(judgeSQL), ids, fences, kinds), l.targets(), func() error {
		errs = append(errs, l.err())
		return nil
	})
	if err := j.db.run(ctx, "judge leases", b); err != nil {
		return all(len(leases), err)
	}
	return errs
}

// leaseState is a row of judgeSQL.
type leaseState struct{ running, live, holds, exists, repeats, cancelled bool }

func (l *leaseState) targets() []any {
	return []any{&l.running, &l.live, &l.holds, &l.exists, &l.repeats, &l.cancelled}
}

// err returns the first reason that applies why the lease had no effect.
func (l *leaseState) err() error {
	switch {
	case l.repeats && l.cancelled:
		return job.ErrCancelRequested
	case l.repeats:
		return nil
	case !l.exists:
		return job.ErrNotFound
	case !l.running:
		return job.ErrNotRunning
	case !l.live:
		return job.ErrLeaseExpired
	case !l.holds:
		return job.ErrFenced
	}
	return errLive
}

// errLive is the error of a valid lease without effect: it is in a call twice, or it had expired and a call that began earlier
// extended it. The job is not settled.
var errLive = errors.New("postgres: the lease was being extended; try again")

func refColumns(leases []job.Ref) ([]pgtype.UUID, []int64) {
	ids, fences := make([]pgtype.UUID, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], _ = parseID(l.ID) // an invalid UUID becomes NULL, which matches no job
		fences[i] = l.Fence
	}
	return ids, fences
}

// all returns n times the same error.
func all(n int, err error) []error { return slices.Repeat([]error{err}, n) }

// without lists the positions below n that are not among the ordinals, which count from 1.
func without(n int, ordinals []int) []int {
	if len(ordinals) == n {
		return nil
	}
	there := make([]bool, n)
	for _, ord := range ordinals {
		there[ord-1] = true
	}
	var missing []int
	for i, ok := range there {
		if !ok {
			missing = append(missing, i)
		}
	}
	return missing
}

func pick[T any](list []T, positions []int) []T {
	picked := make([]T, len(positions))
	for i, at := range positions {
		picked[i] = list[at]
	}
	return picked
}
