package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

var _ job.Causer = (*Jobs)(nil)

// cause names a group of dead jobs.
type cause struct{ cause, queue, jobType string }

// deaths are the dead jobs of a group. The group remembers its first and its last death while it has jobs.
type deaths struct {
	cause
	count       int
	first, last time.Time
}

// died adds a dead job to its group.
func (s *Jobs) died(e *entry) {
	k := cause{e.Cause, e.Queue, e.Type}
	d := s.deaths[k]
	if d == nil {
		d = &deaths{cause: k, first: e.FinishedAt}
		s.deaths[k] = d
	}
	d.count++
	if e.FinishedAt.Before(d.first) {
		d.first = e.FinishedAt
	}
	if e.FinishedAt.After(d.last) {
		d.last = e.FinishedAt
	}
	e.deaths = d
}

// revived removes a job from its group, if it was dead.
func (s *Jobs) revived(e *entry) {
	d := e.deaths
	if d == nil {
		return
	}
	e.deaths = nil
	if d.count--; d.count == 0 {
		delete(s.deaths, d.cause)
	}
}

// Causes implements job.Causer. It goes through all dead jobs.
func (s *Jobs) Causes(ctx context.Context, q job.CauseQuery) (job.Causes, error) {
	if !q.Kept() {
		return q.Over(ctx, s)
	}
	if _, err := s.enter(ctx); err != nil {
		return job.Causes{}, err
	}
	defer s.mu.Unlock()
	var groups []job.CauseGroup
	for k, d := range s.deaths {
		g := job.CauseGroup{Cause: k.cause, Queue: k.queue, Type: k.jobType, Count: d.count, FirstSeen: d.first, LastSeen: d.last}
		if q.Selects(g) {
			groups = append(groups, g)
		}
	}
	dead := map[cause][]*job.Record{}
	for _, e := range s.ended(job.Dead) {
		dead[e.deaths.cause] = append(dead[e.deaths.cause], e.Record)
	}
	groups = job.SortCauses(groups, q.Groups())
	for i := range groups {
		g := &groups[i]
		list := dead[cause{g.Cause, g.Queue, g.Type}]
		slices.SortFunc(list, func(a, b *job.Record) int { return cmp.Compare(b.ID, a.ID) })
		g.Describe(list[:min(len(list), job.CauseSamples)])
	}
	return job.Causes{Groups: groups}, nil
}
