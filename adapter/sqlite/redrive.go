package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

var _ job.RedriveStepper = (*Jobs)(nil)

const (
	redriveSQL       = `SELECT seq, data, jobs FROM tenet_redrive WHERE id = ?`
	redrivesSQL      = `SELECT seq, data, jobs FROM tenet_redrive WHERE id < ? ORDER BY id DESC LIMIT ? + 0`
	activeSQL        = `SELECT seq, data, jobs FROM tenet_redrive INDEXED BY tenet_redrive_active WHERE active AND id < ? ORDER BY id DESC LIMIT ? + 0`
	insertRedriveSQL = `INSERT INTO tenet_redrive (id, active, data, jobs) VALUES (?, ?, ?, ?)`
	updateRedriveSQL = `UPDATE tenet_redrive SET active = ?, data = ? WHERE seq = ?`
	selectJobsSQL    = `INSERT INTO tenet_redrive_waiting (redrive, position, job, fence)
SELECT (SELECT seq FROM tenet_redrive WHERE id = ?), row_number() OVER (ORDER BY id), id, fence FROM tenet_job `
	waitingSQL = `SELECT position, job, fence, '{}' FROM tenet_redrive_waiting WHERE redrive = ? AND position > ? AND position <= ? ORDER BY position`
	pendingSQL = `SELECT position, job, fence, facts FROM tenet_redrive_pending WHERE redrive = ? AND position > ? ORDER BY position LIMIT ? + 0`
	discardSQL = `DELETE FROM tenet_redrive_waiting WHERE redrive = ? AND position > ? AND position <= ?`
	endedSQL   = `DELETE FROM tenet_redrive_pending WHERE redrive = ? AND position IN (SELECT value FROM json_each(?))`
	unrefuse   = `DELETE FROM tenet_attempt WHERE job = ? AND part = ?`
)

var pendSQL = newBulk(5, `INSERT INTO tenet_redrive_pending (redrive, position, job, fence, facts) VALUES `, ``)

// redrive is a redrive during an operation.
type redrive struct {
	job.Redrive
	seq   int64
	saved string // data, as it is stored
}

// readRedrives returns the redrives that a query selects.
func readRedrives(q querier, text string, args ...any) (list []*redrive, err error) {
	r := redrive{}
	groups := ""
	err = each(q, selection{text: text, args: args, into: []any{&r.seq, &r.saved, &groups}}, func() error {
		one := r
		if err := json.Unmarshal([]byte(r.saved), &one.Redrive); err != nil {
			return err
		}
		list = append(list, &one)
		return json.Unmarshal([]byte(groups), &one.Groups)
	})
	return list, err
}

func readRedrive(q querier, id string) (*redrive, error) {
	list, err := readRedrives(q, redriveSQL, id)
	if err == nil && len(list) == 0 {
		return nil, &job.NotFoundError{What: "redrive", ID: id}
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// data is a redrive as it is stored, without its groups.
func (r *redrive) data() (string, error) {
	stored := r.Redrive
	stored.Groups = nil
	raw, err := json.Marshal(stored)
	return string(raw), err
}

// save writes a redrive if it has changed.
func (r *redrive) save(q querier) error {
	data, err := r.data()
	if err != nil || data == r.saved {
		return err
	}
	return q.exec(updateRedriveSQL, r.Active(), data, r.seq)
}

// PreviewRedrive implements job.Redriver. It reads every dead job that other terms than the queue are about.
func (s *Jobs) PreviewRedrive(ctx context.Context, f job.Filter) ([]job.RedriveGroup, error) {
	return viewed(ctx, s, "preview redrive", func(q querier) ([]job.RedriveGroup, error) { return deadGroups(q, job.NewRedrive{Filter: f}) })
}

func deadGroups(q querier, n job.NewRedrive) ([]job.RedriveGroup, error) {
	from, args, err := matching(n.Selects(), "")
	if err != nil {
		return nil, err
	}
	var g job.RedriveGroup
	text := `SELECT queue, type, count(*) FROM tenet_job ` + from + ` GROUP BY queue, type`
	groups, err := all(q, selection{text: text, args: args, into: []any{&g.Queue, &g.Type, &g.Jobs}}, &g)
	return job.SortGroups(groups), err
}

// CreateRedrive implements job.Redriver. Nothing else is written meanwhile: a few seconds for a million jobs.
func (s *Jobs) CreateRedrive(ctx context.Context, n job.NewRedrive) (job.Redrive, error) {
	if err := n.Check(); err != nil {
		return job.Redrive{}, s.db.wrap("create redrive", err)
	}
	return written(ctx, s, "create redrive", func(q querier) (job.Redrive, error) { return createRedrive(q, n) })
}

func createRedrive(q querier, n job.NewRedrive) (job.Redrive, error) {
	groups, err := deadGroups(q, n)
	if err != nil {
		return job.Redrive{}, err
	}
	if len(groups) == 0 {
		return job.Redrive{}, fmt.Errorf("no dead job matches the filter: %w", job.ErrNotFound)
	}
	if list, err := readRedrives(q, redriveSQL, n.ID); err != nil || len(list) > 0 {
		return job.Redrive{}, cmp.Or(err, fmt.Errorf("%w: the redrive %s exists", job.ErrConflict, n.ID))
	}
	r := redrive{Redrive: n.Start(groups, now())}
	data, err := r.data()
	if err != nil {
		return job.Redrive{}, err
	}
	counted, err := json.Marshal(r.Groups)
	if err != nil {
		return job.Redrive{}, err
	}
	if err := q.exec(insertRedriveSQL, r.ID, true, data, string(counted)); err != nil {
		return job.Redrive{}, err
	}
	from, args, err := matching(n.Selects(), "")
	if err != nil {
		return job.Redrive{}, err
	}
	return r.Redrive, q.exec(selectJobsSQL+from, append([]any{r.ID}, args...)...)
}

// Redrive implements job.Redriver.
func (s *Jobs) Redrive(ctx context.Context, id string) (job.Redrive, error) {
	r, err := viewed(ctx, s, "redrive", func(q querier) (*redrive, error) { return readRedrive(q, id) })
	if err != nil {
		return job.Redrive{}, err
	}
	return r.Redrive, nil
}

// Redrives implements job.Redriver.
func (s *Jobs) Redrives(ctx context.Context, query job.RedriveQuery) ([]job.Redrive, error) {
	text := redrivesSQL
	if query.Active {
		text = activeSQL
	}
	found, err := viewed(ctx, s, "redrives", func(q querier) ([]*redrive, error) {
		return readRedrives(q, text, cmp.Or(query.Below, aboveAll), cmp.Or(max(query.Limit, 0), 100))
	})
	return lists.Map(found, func(r *redrive) job.Redrive { return r.Redrive }), err
}

// UpdateRedrive implements job.Redriver.
func (s *Jobs) UpdateRedrive(ctx context.Context, id string, c job.RedriveChange) (job.Redrive, error) {
	return written(ctx, s, "update redrive", func(q querier) (job.Redrive, error) {
		r, err := readRedrive(q, id)
		if err == nil {
			err = r.Apply(c, now())
		}
		if err != nil {
			return job.Redrive{}, err
		}
		return r.Redrive, r.save(q)
	})
}

// StepRedrive implements job.RedriveStepper.
func (s *Jobs) StepRedrive(ctx context.Context, id string, hold time.Duration) (state job.Redrive, v job.RedriveVerdict, err error) {
	err = s.write(ctx, "step redrive", func(q querier) error {
		if err := tend(q, now()); err != nil {
			return err
		}
		state, v, err = stepRedrive(q, id, hold, now())
		return err
	})
	return state, v, err
}

func stepRedrive(q querier, id string, hold time.Duration, at time.Time) (state job.Redrive, v job.RedriveVerdict, err error) {
	r, err := readRedrive(q, id)
	if err != nil {
		return state, v, err
	}
	if v, err = r.Step(at, hold, redriveStep{q, r.seq, at}); err != nil {
		return state, v, err
	}
	return r.Redrive, v, r.save(q)
}

// redriveStep is the selection of a redrive in the transaction of a step.
type redriveStep struct {
	q   querier
	seq int64
	at  time.Time
}

// redriven is a job of a selection, with the job as it is stored, which is nil for one that was removed.
type redriven struct {
	position int64
	id       string
	fence    int64
	facts    string
	job      *entry
}

// members reads a part of the selection, with the jobs.
func (t redriveStep) members(text string, args ...any) ([]redriven, error) {
	var m redriven
	list, err := all(t.q, selection{text: text, args: append([]any{t.seq}, args...), into: []any{&m.position, &m.id, &m.fence, &m.facts}}, &m)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	jobs, err := find(t.q, idsOf(list))
	for i := range list {
		list[i].job = jobs[list[i].id]
	}
	return list, err
}

func idsOf(of []redriven) string { return list(of, func(m redriven) string { return m.id }) }

// pending reads n pending jobs behind a position. last is the position of the last of them, or 0 if there are no more.
func (t redriveStep) pending(after, n int) (list []redriven, last int, err error) {
	list, err = t.members(pendingSQL, after, n+1)
	if len(list) > n {
		list = list[:n]
		last = int(list[n-1].position)
	}
	return list, last, err
}

// end removes pending jobs.
func (t redriveStep) end(gone []redriven) error {
	if len(gone) == 0 {
		return nil
	}
	return t.q.exec(endedSQL, t.seq, list(gone, func(m redriven) int64 { return m.position }))
}

// Settled implements job.RedriveSelection.
func (t redriveStep) Settled(after, n int) (ended []job.RedriveEnded, last int, err error) {
	list, last, err := t.pending(after, n)
	if err != nil {
		return nil, 0, err
	}
	gone := list[:0]
	for _, m := range list {
		e := job.RedriveEnded{ID: m.id}
		if m.job != nil {
			if e.State = m.job.State; !e.State.Finished() {
				continue
			}
		}
		ended, gone = append(ended, e), append(gone, m)
	}
	return ended, last, t.end(gone)
}

// Release implements job.RedriveSelection.
func (t redriveStep) Release(after, n int) (released int, err error) {
	list, err := t.members(waitingSQL, after, after+n)
	if err != nil {
		return 0, err
	}
	var jobs []*entry
	var rows []any
	for _, m := range list {
		if m.job == nil || m.job.State != job.Dead || m.job.Fence != m.fence {
			continue
		}
		if held, err := retakeKey(t.q, m.job, t.at); err != nil {
			return 0, err
		} else if !held {
			continue
		}
		facts, err := json.Marshal(m.job.DeadFacts())
		if err != nil {
			return 0, err
		}
		m.job.rows, m.job.changed = m.job.Apply(job.ActionRetry, t.at), true
		jobs = append(jobs, m.job)
		rows = append(rows, t.seq, m.position, m.id, m.fence, string(facts))
	}
	if err := save(t.q, jobs); err != nil {
		return 0, err
	}
	if err := pendSQL.exec(t.q, rows); err != nil {
		return 0, err
	}
	return len(jobs), t.Discard(after, n)
}

// Undo implements job.RedriveSelection.
func (t redriveStep) Undo(after, n int) (undone, last int, err error) {
	list, last, err := t.pending(after, n)
	if err != nil {
		return 0, 0, err
	}
	var jobs []*entry
	gone := list[:0]
	for _, m := range list {
		if m.job == nil || m.job.State != job.Ready && m.job.State != job.Waiting || m.job.Fence != m.fence {
			continue
		}
		var facts job.DeadFacts
		if err := json.Unmarshal([]byte(m.facts), &facts); err != nil {
			return 0, 0, err
		}
		if facts.Refusals > 0 {
			if err := t.q.exec(unrefuse, m.job.seq, 2*m.fence-1); err != nil {
				return 0, 0, err
			}
		}
		m.job.PutBack(facts)
		m.job.changed = true
		jobs, gone = append(jobs, m.job), append(gone, m)
	}
	if err := save(t.q, jobs); err != nil {
		return 0, 0, err
	}
	return len(jobs), last, t.end(gone)
}

// Discard implements job.RedriveSelection.
func (t redriveStep) Discard(after, n int) error {
	return t.q.exec(discardSQL, t.seq, after, after+n)
}
