package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/tenetdev/tenet/job"
)

// redrive is a stored redrive with the rest of its selection.
type redrive struct {
	job.Redrive
	waiting []redriven // by position; those behind the first Released + Skipped are to be released
	pending []redriven // in the order of their positions
}

// redriven is a job of a selection.
type redriven struct {
	position int
	id       string
	fence    int64 // when the selection was made
	facts    job.DeadFacts
}

var _ job.RedriveStepper = (*Jobs)(nil)

// redrive returns a redrive, or job.ErrNotFound.
func (s *Jobs) redrive(id string) (*redrive, error) {
	if r := s.redrives[id]; r != nil {
		return r, nil
	}
	return nil, &job.NotFoundError{What: "redrive", ID: id}
}

// copied returns a redrive that shares nothing with the stored one.
func copied(r job.Redrive) job.Redrive {
	r.DeadJobs, r.Groups = slices.Clone(r.DeadJobs), slices.Clone(r.Groups)
	return r
}

// PreviewRedrive implements job.Redriver.
func (s *Jobs) PreviewRedrive(ctx context.Context, f job.Filter) ([]job.RedriveGroup, error) {
	n := job.NewRedrive{Filter: f}
	f = n.Selects()
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return groups(s.matching(f, "", len(s.jobs.byID), anyEntry)), nil
}

func anyEntry(*entry) bool { return true }

func groups(list []*entry) (found []job.RedriveGroup) {
	counts := map[job.RedriveGroup]int{}
	for _, e := range list {
		counts[job.RedriveGroup{Queue: e.Queue, Type: e.Type}]++
	}
	for g, n := range counts {
		g.Jobs = n
		found = append(found, g)
	}
	return job.SortGroups(found)
}

// CreateRedrive implements job.Redriver.
func (s *Jobs) CreateRedrive(ctx context.Context, n job.NewRedrive) (job.Redrive, error) {
	if err := n.Check(); err != nil {
		return job.Redrive{}, fmt.Errorf("memory: %w", err)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return job.Redrive{}, err
	}
	defer s.mu.Unlock()
	if s.redrives[n.ID] != nil {
		return job.Redrive{}, fmt.Errorf("%w: the redrive %s exists", job.ErrConflict, n.ID)
	}
	list := s.matching(n.Selects(), "", len(s.jobs.byID), anyEntry)
	if len(list) == 0 {
		return job.Redrive{}, fmt.Errorf("no dead job matches the filter: %w", job.ErrNotFound)
	}
	r := &redrive{Redrive: n.Start(groups(list), now)}
	for i, e := range list {
		r.waiting = append(r.waiting, redriven{position: i + 1, id: e.ID, fence: e.Fence})
	}
	s.redrives[n.ID] = r
	return copied(r.Redrive), nil
}

// Redrive implements job.Redriver.
func (s *Jobs) Redrive(ctx context.Context, id string) (job.Redrive, error) {
	if _, err := s.enter(ctx); err != nil {
		return job.Redrive{}, err
	}
	defer s.mu.Unlock()
	r, err := s.redrive(id)
	if err != nil {
		return job.Redrive{}, err
	}
	return copied(r.Redrive), nil
}

// Redrives implements job.Redriver.
func (s *Jobs) Redrives(ctx context.Context, q job.RedriveQuery) ([]job.Redrive, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []job.Redrive
	for _, r := range s.redrives {
		if (q.Below == "" || r.ID < q.Below) && (!q.Active || r.Active()) {
			list = append(list, copied(r.Redrive))
		}
	}
	slices.SortFunc(list, func(a, b job.Redrive) int { return cmp.Compare(b.ID, a.ID) })
	return list[:min(len(list), cmp.Or(max(q.Limit, 0), 100))], nil
}

// UpdateRedrive implements job.Redriver.
func (s *Jobs) UpdateRedrive(ctx context.Context, id string, c job.RedriveChange) (job.Redrive, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return job.Redrive{}, err
	}
	defer s.mu.Unlock()
	r, err := s.redrive(id)
	if err != nil {
		return job.Redrive{}, err
	}
	err = r.Apply(c, now)
	return copied(r.Redrive), err
}

// StepRedrive implements job.RedriveStepper.
func (s *Jobs) StepRedrive(ctx context.Context, id string, hold time.Duration) (job.Redrive, job.RedriveVerdict, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return job.Redrive{}, job.RedriveVerdict{}, err
	}
	defer s.leave()
	r, err := s.redrive(id)
	if err != nil {
		return job.Redrive{}, job.RedriveVerdict{}, err
	}
	v, err := r.Step(now, hold, redriveStep{s, r, now})
	return copied(r.Redrive), v, err
}

// redriveStep is the selection of a redrive during a step. Nothing in it fails.
type redriveStep struct {
	s   *Jobs
	r   *redrive
	now time.Time
}

// look calls keep for the first n pending jobs behind a position, removes those for which it returns false, and returns the
// position of the last one, or 0 if there are no more.
func (t redriveStep) look(after, n int, keep func(redriven, *entry) bool) (last int) {
	p := t.r.pending
	from := sort.Search(len(p), func(i int) bool { return p[i].position > after })
	to := min(from+n, len(p))
	if to < len(p) {
		last = p[to-1].position
	}
	kept := slices.DeleteFunc(p[from:to:to], func(m redriven) bool { return !keep(m, t.s.jobs.byID[m.id]) })
	t.r.pending = slices.Delete(p, from+len(kept), to)
	return last
}

// Settled implements job.RedriveSelection.
func (t redriveStep) Settled(after, n int) (ended []job.RedriveEnded, last int, err error) {
	last = t.look(after, n, func(m redriven, e *entry) bool {
		switch {
		case e == nil:
			ended = append(ended, job.RedriveEnded{ID: m.id})
		case e.State.Finished():
			ended = append(ended, job.RedriveEnded{ID: m.id, State: e.State})
		default:
			return true
		}
		return false
	})
	return ended, last, nil
}

// take removes the n waiting jobs behind a position, which are the first.
func (t redriveStep) take(n int) []redriven {
	taken := t.r.waiting[:n]
	t.r.waiting = t.r.waiting[n:]
	return taken
}

// Release implements job.RedriveSelection.
func (t redriveStep) Release(_, n int) (released int, err error) {
	for _, m := range t.take(n) {
		e := t.s.jobs.byID[m.id]
		if e == nil || e.State != job.Dead || e.Fence != m.fence || !t.s.hold(e, t.now) {
			continue
		}
		m.facts = e.DeadFacts()
		e.history = append(e.history, e.Apply(job.ActionRetry, t.now)...)
		t.s.place(e)
		t.r.pending = append(t.r.pending, m)
		released++
	}
	return released, nil
}

// Undo implements job.RedriveSelection.
func (t redriveStep) Undo(after, n int) (undone, last int, err error) {
	last = t.look(after, n, func(m redriven, e *entry) bool {
		if e == nil || e.State != job.Ready && e.State != job.Waiting || e.Fence != m.fence {
			return true
		}
		if e.PutBack(m.facts); m.facts.Refusals > 0 {
			e.history = e.history[:len(e.history)-1]
		}
		t.s.place(e)
		undone++
		return false
	})
	return undone, last, nil
}

// Discard implements job.RedriveSelection.
func (t redriveStep) Discard(_, n int) error {
	t.take(n)
	return nil
}
