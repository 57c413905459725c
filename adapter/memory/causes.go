package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/tenetdev/tenet/job"
)

var _ job.Causer = (*Jobs)(nil)

// Causes implements job.Causer. It goes through all dead jobs.
func (s *Jobs) Causes(ctx context.Context, q job.CauseQuery) (job.Causes, error) {
	if !q.Kept() {
		return q.Over(ctx, s)
	}
	if _, err := s.enter(ctx); err != nil {
		return job.Causes{}, err
	}
	defer s.mu.Unlock()
	type key struct{ cause, queue, jobType string }
	dead := map[key][]*job.Record{}
	for _, e := range s.ended(job.Dead) {
		k := key{e.Cause, e.Queue, e.Type}
		dead[k] = append(dead[k], e.Record)
	}
	var groups []job.CauseGroup
	for k, list := range dead {
		if g := (job.CauseGroup{Cause: k.cause, Queue: k.queue, Type: k.jobType, Count: len(list)}); q.Selects(g) {
			groups = append(groups, g)
		}
	}
	groups = job.SortCauses(groups, q.Groups())
	for i := range groups {
		g := &groups[i]
		list := dead[key{g.Cause, g.Queue, g.Type}]
		slices.SortFunc(list, func(a, b *job.Record) int { return cmp.Compare(b.ID, a.ID) })
		g.FirstSeen, g.LastSeen = list[0].FinishedAt, list[0].FinishedAt
		for _, r := range list {
			if r.FinishedAt.Before(g.FirstSeen) {
				g.FirstSeen = r.FinishedAt
			}
			if r.FinishedAt.After(g.LastSeen) {
				g.LastSeen = r.FinishedAt
			}
		}
		g.Describe(list[:min(len(list), job.CauseSamples)])
	}
	return job.Causes{Groups: groups}, nil
}
