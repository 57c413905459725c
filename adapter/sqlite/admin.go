package sqlite

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

const historySelect = `SELECT number, fence, kind, worker, started, finished, outcome, reason, error, stack, delay, count FROM tenet_attempt
WHERE job = ? ORDER BY part`

// history reads the history of a job.
func history(q querier, e *entry) ([]job.Attempt, error) {
	var a job.Attempt
	targets := []any{
		&a.Number, &a.Fence, &a.Kind, &a.Worker, (*instantOrNone)(&a.Started), (*instantOrNone)(&a.Finished), &a.Outcome, &a.Reason, &a.Error, &a.Stack,
		&a.Delay, &a.Count,
	}
	rows, err := all(q, selection{text: historySelect, args: []any{e.seq}, into: targets}, &a)
	return append(rows, e.completion()...), err
}

// Get implements job.Admin.
func (s *Jobs) Get(ctx context.Context, id string) (r *job.Record, past []job.Attempt, err error) {
	err = s.view(ctx, "get", func(q querier) error {
		found, err := read(q, allColumns, `WHERE id = ?`, id)
		if err != nil || len(found) == 0 {
			return err
		}
		past, err = history(q, found[0])
		r = &found[0].Record
		return err
	})
	switch {
	case err != nil:
		return nil, nil, err
	case r == nil:
		return nil, nil, &job.NotFoundError{What: "job", ID: id}
	}
	r.Fence = 0 // only Claim hands out leases
	return r, r.History(past), nil
}

// List implements job.Admin. Queue and State filters other than dead read through the jobs in the order of their IDs.
func (s *Jobs) List(ctx context.Context, f job.Filter, after string, limit int) ([]*job.Record, error) {
	var page []*job.Record
	err := s.view(ctx, "list", func(q querier) error {
		from, args, err := matching(f, after)
		if err != nil {
			return err
		}
		found, err := read(q, allColumns, from+` ORDER BY id LIMIT ? + 0`, append(args, max(limit, 0))...)
		for _, e := range found {
			e.Fence = 0 // only Claim hands out leases
			page = append(page, &e.Record)
		}
		return err
	})
	return page, err
}

// matching returns the condition for the jobs that f selects with IDs above an ID.
func matching(f job.Filter, after string) (from string, args []any, err error) {
	if err := f.Check(); err != nil {
		return "", nil, err
	}
	where, args := []string{`id > ?`}, []any{after}
	add := func(condition string, values ...any) { where, args = append(where, condition), append(args, values...) }
	if len(f.IDs) > 0 {
		add(`id IN (SELECT value FROM json_each(?))`, list(f.IDs, itself))
	}
	if f.Queue != "" {
		add(`queue = ?`, f.Queue)
	}
	if f.Type != "" {
		add(`type = ?`, f.Type)
	}
	switch {
	case len(f.States) == 1 && f.States[0] == job.Dead:
		add(`state = 'dead'`) // a literal lets SQLite use the index of dead jobs
	case len(f.States) > 0:
		add(`state IN (SELECT value FROM json_each(?))`, list(f.States, func(s job.State) string { return string(s) }))
	}
	if f.ErrorContains != "" {
		add(`instr(last_error, ?) > 0`, f.ErrorContains)
	}
	if !f.CreatedBefore.IsZero() { // rounds up: stored times are whole microseconds
		add(`created_at < ?`, f.CreatedBefore.Add(time.Microsecond-1).UnixMicro())
	}
	if !f.CreatedAfter.IsZero() {
		add(`created_at > ?`, f.CreatedAfter.UnixMicro())
	}
	for _, t := range f.Terms {
		condition, values := termSQL(t)
		add(condition, values...)
	}
	return `WHERE ` + strings.Join(where, ` AND `), args, nil
}

// retriable excludes jobs whose unique key now belongs to another job.
const retriable = ` AND (unique_key = '' OR unique_for > 0 OR NOT EXISTS (SELECT 1 FROM tenet_unique AS u
WHERE u.queue = tenet_job.queue AND u.key = tenet_job.unique_key AND (u.until = 0 OR +u.until > ?) AND u.job_id <> tenet_job.id))`

// Change implements job.Admin. It does not retry a job whose unique key now belongs to another job.
func (s *Jobs) Change(ctx context.Context, action job.Action, f job.Filter, limit int) ([]string, error) {
	if err := action.Check(); err != nil {
		return nil, err
	}
	return written(ctx, s, "change", func(q querier) ([]string, error) {
		if err := tend(q, now()); err != nil { // others may have stored jobs in this transaction, which are at the gate
			return nil, err
		}
		return change(q, action, f, limit)
	})
}

func change(q querier, action job.Action, f job.Filter, limit int) ([]string, error) {
	at := now()
	if len(f.States) == 0 {
		f.States = job.States()
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s job.State) bool { return !action.Applies(s) })
	if len(f.States) == 0 || limit <= 0 {
		return nil, nil
	}
	var changed []string
	for after := ""; len(changed) < limit; {
		from, args, err := matching(f, after)
		if err != nil {
			return nil, err
		}
		if action == job.ActionRetry {
			from, args = from+retriable, append(args, at.UnixMicro())
		}
		found, err := read(q, stateColumns, from+` ORDER BY id LIMIT ? + 0`, append(args, limit-len(changed))...)
		if err != nil || len(found) == 0 {
			return changed, err
		}
		after = found[len(found)-1].ID
		page, err := changeEach(q, action, found, at)
		if err != nil {
			return nil, err
		}
		changed = append(changed, page...)
	}
	return changed, nil
}

// changeEach applies an action to jobs and returns the IDs of the changed jobs.
func changeEach(q querier, action job.Action, found []*entry, at time.Time) (changed []string, err error) {
	if action == job.ActionDelete {
		return ids(found), drop(q, found)
	}
	kept := found[:0]
	requested := false
	for _, e := range found {
		held := true // another of these jobs may have taken the key
		if action == job.ActionRetry {
			if held, err = retakeKey(q, e, at); err != nil {
				return nil, err
			}
		}
		if held {
			e.rows, e.changed = append(e.completion(), e.Apply(action, at)...), true
			if err := hold(q, action, e); err != nil {
				return nil, err
			}
			kept = append(kept, e)
			requested = requested || e.State == job.Running
		}
	}
	if requested {
		if err := q.exec(`UPDATE tenet_cancel SET requests = requests + 1`); err != nil {
			return nil, err
		}
	}
	return ids(kept), save(q, kept)
}

// retakeKey gives a retried job its unique key again, and reports whether the key was free. It does not start a new window.
func retakeKey(q querier, e *entry, at time.Time) (bool, error) {
	if e.UniqueKey == "" || !e.living {
		return true, nil
	}
	holder, err := keyHolder(q, e.Queue, e.UniqueKey, at)
	if err != nil || holder != "" && holder != e.ID {
		return false, err
	}
	return true, q.exec(holdSQL, e.Queue, e.UniqueKey, e.ID, 0)
}

func ids(of []*entry) []string {
	return lists.Map(of, func(e *entry) string { return e.ID })
}

// Queues implements job.Admin.
func (s *Jobs) Queues(ctx context.Context) ([]job.QueueState, error) {
	var x job.QueueState
	rows := selection{
		text: `SELECT name, paused, reason, until, actor FROM tenet_queue ORDER BY name`,
		into: []any{&x.Queue, &x.Paused, &x.Reason, (*instantOrNone)(&x.Until), &x.Actor},
	}
	return viewed(ctx, s, "queues", func(q querier) ([]job.QueueState, error) { return all(q, rows, &x) })
}

// SetQueue implements job.Admin.
func (s *Jobs) SetQueue(ctx context.Context, state job.QueueState) error {
	if err := state.Check(); err != nil {
		return err
	}
	return s.write(ctx, "set queue", func(q querier) error {
		q.changed()
		return q.exec(`INSERT OR REPLACE INTO tenet_queue (name, paused, reason, until, actor) VALUES (?, ?, ?, ?, ?)`,
			state.Queue, state.Paused, job.CleanText(state.Reason), micros(job.Stamp(state.Until)), job.CleanText(state.Actor))
	})
}
