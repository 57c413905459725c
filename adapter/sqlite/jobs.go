package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/verdict"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Jobs is a job store in an SQLite file. It is safe for concurrent use, by any number of processes on one machine.
type Jobs struct {
	db *DB
}

var (
	_ job.Store    = (*Jobs)(nil)
	_ job.Admin    = (*Jobs)(nil)
	_ job.Notifier = (*Jobs)(nil)
	_ job.Elector  = (*Jobs)(nil)
	_ job.Registry = (*Jobs)(nil)
	_ job.Searcher = (*Jobs)(nil)
	_ job.Relay    = (*Jobs)(nil)

	_ job.SettingStore = (*Jobs)(nil)
	_ job.Indexer      = (*Jobs)(nil)
	_ job.Finisher     = (*Jobs)(nil)

	_ job.CancelNotifier = (*Jobs)(nil)
)

// Close closes the DB that the store belongs to.
func (s *Jobs) Close() error { return s.db.Close() }

// check fails if ctx has ended or the store is closed.
func (s *Jobs) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	if s.db.writer.closed() {
		return job.ErrClosed
	}
	return nil
}

// durability returns the guarantee of a commit.
func (s *Jobs) durability() job.Durability {
	if s.db.options.Synchronous == Normal {
		return OSBuffered
	}
	return job.GroupCommitted
}

// write runs f in the writer's next transaction. It may run twice.
func (s *Jobs) write(ctx context.Context, what string, f func(q querier) error) error {
	return s.db.writer.write(ctx, what, &operation{run: f})
}

// written returns what f returns in a write, once that is committed.
func written[T any](ctx context.Context, s *Jobs, what string, f func(q querier) (T, error)) (T, error) {
	var x, none T
	err := s.write(ctx, what, func(q querier) (err error) {
		x, err = f(q)
		return err
	})
	if err != nil {
		return none, err
	}
	return x, nil
}

// maxPromoted bounds how many due jobs a claim makes ready.
const maxPromoted = 1000

// SQLite plans a statement again for each new value of a parameter that its plan might depend on: a LIMIT, or a comparison
// like the condition of a partial index. That costs ten times the statement, so such parameters are put into an expression,
// "? + 0" or "+until > ?", which the planner does not analyse. OR FAIL is explained at insertSQL.
const (
	promoteSQL = `UPDATE tenet_job SET state = 'ready' WHERE seq IN
(SELECT seq FROM tenet_job INDEXED BY tenet_job_scheduled WHERE state = 'scheduled' AND run_at <= ? ORDER BY run_at LIMIT ? + 0) RETURNING queue, type, id`
	resumedSQL = `NOT EXISTS (SELECT 1 FROM tenet_queue WHERE name = ?1 AND paused AND (until = 0 OR until > ?2))`
	inOrderSQL = ` ORDER BY priority, run_at, id LIMIT ?3 + 0`
	// typesSQL steps from type to type in the index; its cost does not grow with the number of jobs.
	typesSQL = `WITH RECURSIVE found (type) AS (
SELECT min(type) FROM tenet_job INDEXED BY tenet_job_ready WHERE state = 'ready' AND queue = ?1
UNION ALL SELECT (SELECT min(type) FROM tenet_job INDEXED BY tenet_job_ready WHERE state = 'ready' AND queue = ?1 AND type > found.type) FROM found
WHERE found.type IS NOT NULL) SELECT type FROM found WHERE type IS NOT NULL`
	claimSQL = `UPDATE OR FAIL tenet_job SET state = 'running', worker = ?2, claimed_at = ?3, lease_until = ?4, fence = fence + 1
WHERE seq IN (SELECT value FROM json_each(?1))`
	extendSQL = `UPDATE tenet_job SET lease_until = ?2 WHERE seq IN (SELECT value FROM json_each(?1))`
	byIDSQL   = `INDEXED BY sqlite_autoindex_tenet_job_1 WHERE id IN (SELECT value FROM json_each(?))`
)

// Claim implements job.Store. Jobs that have become due are made ready first, at most 1,000 in a claim.
func (s *Jobs) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return written(ctx, s, "claim", func(q querier) ([]*job.Record, error) { return claim(q, c, now()) })
}

func claim(q querier, c job.Claim, at time.Time) ([]*job.Record, error) {
	if _, err := promote(q, maxPromoted, at); err != nil {
		return nil, err
	}
	if err := tend(q, at); err != nil {
		return nil, err
	}
	var moves []move
	var claimed []*job.Record
	counts := totals{}
	for _, slots := range c.Queues {
		if slots.Free <= 0 {
			continue
		}
		found, err := ready(q, slots, c.Types, at)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue
		}
		for _, e := range found {
			e.Claim(c.Worker, c.Lease, at)
			claimed = append(claimed, &e.Record)
			moves = append(moves, move{e.ID, e.Queue, e.Type, job.Ready, job.Running})
		}
		counts.move(slots.Queue, job.Ready, job.Running, len(found))
		r := found[0]
		if err := q.exec(claimSQL, list(found, seqOf), r.Worker, r.ClaimedAt.UnixMicro(), r.LeaseUntil.UnixMicro()); err != nil {
			return nil, err
		}
	}
	if err := pass(q, moves, at); err != nil {
		return nil, err
	}
	return claimed, q.count(counts, nil)
}

// typesAtOnce bounds the types of one statement; SQLite allows 500 parts in a compound select.
const typesAtOnce = 100

// ready reads the jobs of a queue to be claimed next, in their order.
func ready(q querier, slots job.Slots, types []string, at time.Time) (found []*entry, err error) {
	if len(types) == 0 {
		if types, err = column[string](q, typesSQL, slots.Queue); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(types, typesAtOnce) {
		args := []any{slots.Queue, at.UnixMicro(), slots.Free}
		for _, name := range some {
			args = append(args, name)
		}
		list, err := read(q, claimColumns, readySQL(len(some)), args...)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	if len(types) > 1 {
		slices.SortFunc(found, func(a, b *entry) int {
			if a.Before(&b.Record) {
				return -1
			}
			return 1
		})
	}
	return found[:min(len(found), slots.Free)], nil
}

// readySQL selects the next jobs of a number of types, whose names are ?4 and following. Each type is a sorted part of the
// index, and the parts are merged while they are read.
func readySQL(types int) string {
	const from = `INDEXED BY tenet_job_ready WHERE queue = ?1 AND state = 'ready' AND type = ?`
	if types == 1 {
		return from + `4 AND ` + resumedSQL + inOrderSQL
	}
	var b strings.Builder
	b.WriteString(`WHERE ` + resumedSQL + ` AND seq IN (SELECT seq FROM (`)
	for i := range types {
		if i > 0 {
			b.WriteString(` UNION ALL `)
		}
		b.WriteString(`SELECT seq, priority, run_at, id FROM tenet_job ` + from + strconv.Itoa(4+i))
	}
	return b.String() + inOrderSQL + `))`
}

// promote makes due jobs ready and returns how many.
func promote(q querier, limit int, at time.Time) (n int, err error) {
	counts := totals{}
	m := move{from: job.Scheduled, to: job.Ready}
	var moves []move
	err = each(q, selection{text: promoteSQL, args: []any{at.UnixMicro(), limit}, into: []any{&m.queue, &m.jobType, &m.id}}, func() error {
		n++
		counts.move(m.queue, job.Scheduled, job.Ready, 1)
		moves = append(moves, m)
		return nil
	})
	if n == 0 || err != nil {
		return n, err
	}
	q.changed()
	if err := pass(q, moves, at); err != nil {
		return n, err
	}
	return n, q.count(counts, nil)
}

// Extend implements job.Store.
func (s *Jobs) Extend(ctx context.Context, leases []job.Ref, d time.Duration) []error {
	err := job.CheckLease(d)
	if err == nil && len(leases) == 0 {
		return nil
	}
	var errs verdict.List
	if err == nil {
		errs, err = written(ctx, s, "extend", func(q querier) (verdict.List, error) { return extend(q, leases, d, now()) })
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(leases))
	}
	return errs
}

func extend(q querier, leases []job.Ref, d time.Duration, at time.Time) (verdict.List, error) {
	jobs, err := find(q, list(leases, refID))
	if err != nil {
		return nil, err
	}
	var errs verdict.List
	var extended []*entry
	for i, lease := range leases {
		e := jobs[lease.ID]
		err := job.ErrNotFound
		if e != nil {
			err = e.Holds(lease, at)
		}
		if err == nil {
			extended = append(extended, e)
			if e.CancelRequested() {
				err = job.ErrCancelRequested
			}
		}
		errs.Set(i, len(leases), err)
	}
	if len(extended) == 0 {
		return errs, nil
	}
	return errs, q.exec(extendSQL, list(extended, seqOf), job.Stamp(at.Add(d)).UnixMicro())
}

// find reads the columns that transitions need, by ID. The IDs are a JSON array.
func find(q querier, ids string) (map[string]*entry, error) {
	found, err := read(q, stateColumns, byIDSQL, ids)
	jobs := make(map[string]*entry, len(found))
	for _, e := range found {
		jobs[e.ID] = e
	}
	return jobs, err
}

// Settle implements job.Store.
func (s *Jobs) Settle(ctx context.Context, list []job.Settlement) []error {
	if len(list) == 0 {
		return nil
	}
	errs, err := written(ctx, s, "settle", func(q querier) (verdict.List, error) { return settle(q, list, now()) })
	if err != nil {
		return slices.Repeat([]error{err}, len(list))
	}
	return errs
}

// CompleteTx completes a job inside its handler's transaction of DB.BeginTx, so that the job's completion and what the
// handler wrote are stored together or not at all. The lease is the one of the job that the handler got. CompleteTx returns
// ErrNotFound, ErrNotRunning, ErrLeaseExpired or ErrFenced when the lease is lost: roll back then and return the error. When
// the handler returns nil after its commit, the worker's own completion repeats this one and changes nothing.
func (s *Jobs) CompleteTx(ctx context.Context, tx *sql.Tx, lease job.Lease) error {
	if tx == nil {
		return errNoTx
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	complete := job.Settlement{Ref: lease.Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess}
	q := newTransaction(ctx, tx)
	errs, err := settle(q, []job.Settlement{complete}, now())
	if err == nil {
		err = tend(q, now())
	}
	if err == nil && errs != nil {
		return errs[0]
	}
	return s.db.wrap("complete", err)
}

func settle(q querier, settlements []job.Settlement, at time.Time) (verdict.List, error) {
	left, err := complete(q, settlements, at)
	if len(left) == 0 || err != nil {
		return nil, err
	}
	jobs, err := find(q, list(left, func(i int) string { return settlements[i].ID }))
	if err != nil {
		return nil, err
	}
	var errs verdict.List
	var changed []*entry
	for _, i := range left {
		s := settlements[i]
		e := jobs[s.ID]
		refused, err := judge(q, e, s, at)
		if err != nil {
			return nil, err
		}
		if refused == nil && e.Holds(s.Ref, at) == nil { // not a repetition
			e.rows, e.changed = e.Settle(s, at), true
			changed = append(changed, e)
		}
		if refused == nil && e.CancelledBy(s) {
			refused = job.ErrCancelRequested // it is written nevertheless
		}
		errs.Set(i, len(settlements), refused)
	}
	return errs, save(q, changed)
}

// completeSQL completes jobs whose completion needs no row in the history.
var completeSQL = newBulk(3, `UPDATE OR FAIL tenet_job SET state = 'completed', reason = 'success', finished_at = ?1, lease_until = 0, output = NULL,
ran_at = min(claimed_at + v.column3, ?1), started_at = iif(started_at = 0, min(claimed_at + v.column3, ?1), started_at) FROM (VALUES `, `) AS v WHERE tenet_job.id = v.column1 AND fence = v.column2 AND state = 'running'
AND lease_until > ?1 AND refusals = 0 AND needed = 0 AND unique_key = '' RETURNING tenet_job.queue, tenet_job.id`)

func plain(s *job.Settlement) bool {
	return s.Kind == job.KindComplete && s.Reason == policy.ReasonSuccess && len(s.Output) == 0 && s.Error == "" && s.Stack == "" && s.Delay == 0
}

// complete settles plain completions, the most frequent settlements, without reading the jobs first. It returns the positions
// of the remaining settlements: all of them if it missed a job, because repeating a completion is harmless.
func complete(q querier, settlements []job.Settlement, at time.Time) (left []int, err error) {
	others := map[string]bool{} // jobs with another settlement, which may come first
	for i := range settlements {
		if s := &settlements[i]; !plain(s) {
			others[s.ID] = true
		}
	}
	args := make([]any, 0, len(settlements)*completeSQL.width)
	for i := range settlements {
		if s := &settlements[i]; others[s.ID] {
			left = append(left, i)
		} else {
			args = append(args, s.ID, s.Fence, max(s.Started, 0).Microseconds())
		}
	}
	n, queue, counts := 0, "", totals{}
	m := move{from: job.Running, to: job.Completed}
	var moves []move
	err = completeSQL.each(q, selection{args: args, into: []any{&queue, &m.id}}, func() error {
		n++
		counts.completed(queue)
		moves = append(moves, m)
		return nil
	}, at.UnixMicro())
	if err != nil {
		return nil, err
	}
	if err := pass(q, moves, at); err != nil {
		return nil, err
	}
	if n < len(settlements)-len(left) {
		left = left[:0]
		for i := range settlements {
			left = append(left, i)
		}
	}
	return left, q.count(counts, nil)
}

// judge returns why a settlement is refused, or nil if its lease is live or it repeats an earlier settlement.
func judge(q querier, e *entry, s job.Settlement, at time.Time) (refused, err error) {
	if err := s.Check(); err != nil {
		return err, nil
	}
	if e == nil {
		return job.ErrNotFound, nil
	}
	refused = e.Holds(s.Ref, at)
	if refused == nil || e.Repeats(e.completion(), s) {
		return nil, nil
	}
	past, err := history(q, e)
	if e.Repeats(append(past, e.rows...), s) {
		refused = nil
	}
	return refused, err
}
