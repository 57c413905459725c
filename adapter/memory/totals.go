package memory

import (
	"context"
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

var _ job.Finisher = (*Jobs)(nil)

// count counts what a change has done to an entry.
func (s *Jobs) count(e *entry) {
	if e.was == e.State {
		return
	}
	q := s.stats[e.Queue]
	if q == nil {
		q = &job.QueueStats{}
		s.stats[e.Queue] = q
	}
	if e.was == "" {
		q.Activity.Enqueued++
	} else {
		*q.Of(e.was)--
	}
	*q.Of(e.State)++
	s.revived(e)
	if e.State == job.Dead {
		s.died(e)
	}
	q.Activity.Moved(e.was == job.Running, e.State, e.history[min(e.rows, len(e.history)):]) // an undone redrive takes rows back
	e.was, e.rows = e.State, len(e.history)
}

// Stats implements job.Admin. It reads kept counts, whatever the number of jobs.
func (s *Jobs) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	stats := make(map[string]job.QueueStats, len(s.stats))
	for queue, q := range s.stats {
		jobs := 0
		for _, state := range job.States() {
			jobs += *q.Of(state)
		}
		if jobs == 0 {
			continue
		}
		found := *q
		for _, l := range s.jobs.ready[queue] {
			if at := l.oldest(); q.Ready > 0 && !at.IsZero() {
				found.OldestReady = max(found.OldestReady, now.Sub(at))
			}
		}
		stats[queue] = found
	}
	return stats, nil
}

// oldest returns when the first job of a line became due, or zero.
func (l *line) oldest() (at time.Time) {
	earlier := func(e *entry) {
		if at.IsZero() || e.RunAt.Before(at) {
			at = e.RunAt
		}
	}
	for i := range l.runs {
		if e := l.runs[i].first(); e != nil {
			earlier(e) // the others of its priority were due later
		}
	}
	for _, e := range l.late.entries {
		earlier(e)
	}
	return at
}

// Finished implements job.Finisher. It looks at all jobs that are kept after they have finished.
func (s *Jobs) Finished(ctx context.Context, after time.Time, limit int) ([]job.Finish, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []job.Finish
	for _, state := range []job.State{job.Completed, job.Dead} {
		for _, e := range s.ended(state) {
			if e.FinishedAt.After(after) {
				list = append(list, job.Finish{Queue: e.Queue, State: state, Due: e.RunAt, Finished: e.FinishedAt})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b job.Finish) int { return b.Finished.Compare(a.Finished) })
	return list[:min(len(list), max(limit, 0))], nil
}
