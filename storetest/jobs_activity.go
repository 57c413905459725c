package storetest

import (
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

// activityCases checks what stores count of the past.
func activityCases() []jobsCase {
	return []jobsCase{
		{name: "J13/statistics count what has happened", run: activityIsCounted},
		{name: "J13/the activity of a queue outlives its jobs' retention", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindComplete)
			s.add(job.Insert{})
			s.lapse(s.short)
			s.maintainWith(job.Maintenance{Keep: map[job.State]time.Duration{job.Completed: 0}, Limit: 10})
			delete(s.kept, r.ID)
			s.did(job.Activity{Enqueued: 2, Completed: 1, Attempts: 1})
		}},
		{name: "J13/the newest finished jobs are listed with the time that they took", run: finishedAreListed},
	}
}

// did compares the activity of "q".
func (s *jobs) did(want job.Activity) {
	s.Helper()
	stats, err := s.Stats(s.ctx)
	s.must(err, nil)
	same(s, "activity", stats[queue].Activity, want)
}

func activityIsCounted(s *jobs) {
	s.add(job.Insert{})
	s.add(job.Insert{RunAt: s.clock().Add(long)})
	s.add(job.Insert{UniqueKey: "k", RunAt: s.clock().Add(long)})
	_, err := s.Enqueue(s.ctx, []job.Insert{{ID: newID(), Type: "t", Queue: queue, UniqueKey: "k"}})
	s.ok(err)
	want := job.Activity{Enqueued: 3} // a duplicate is none
	s.did(want)
	for _, kind := range []job.Kind{job.KindRelease, job.KindRefuse, job.KindSnooze} {
		s.must(s.settle(s.take(long).Ref(), kind), nil)
		s.did(want)
	}
	s.must(s.settle(s.take(long).Ref(), job.KindRetry, fails("no", 0)), nil)
	want.Attempts, want.Retries = 1, 1
	s.did(want)
	r := s.take(long)
	s.must(s.settle(r.Ref(), job.KindDead, fails("no", 0)), nil)
	want.Attempts, want.Dead = 2, 1
	s.did(want)
	s.change(job.ActionRetry, job.Filter{IDs: []string{r.ID}}, 1)
	s.did(want)
	r = s.take(long)
	s.must(s.settle(r.Ref(), job.KindComplete), nil)
	want.Attempts, want.Completed = 3, 1
	s.did(want)
	s.must(s.settle(r.Ref(), job.KindComplete), nil) // a repetition
	s.did(want)
	s.change(job.ActionCancel, job.Filter{Queue: queue, States: []job.State{job.Scheduled}}, 10)
	want.Cancelled = 2
	s.did(want)
	lost := s.start(job.Insert{}, s.short)
	s.maintainAfter(s.short)
	want.Enqueued, want.Attempts, want.Retries = 4, 4, 2
	s.did(want)
	buried := s.take(long)
	same(s, "the job claimed", buried.ID, lost.ID)
	s.must(s.settle(buried.Ref(), job.KindBury), nil)
	want.Dead = 2
	s.did(want)
	running := s.start(job.Insert{}, long)
	s.change(job.ActionCancel, job.Filter{IDs: []string{running.ID}}, 1)
	want.Enqueued = 5
	s.did(want)
	s.must(s.settle(running.Ref(), job.KindRetry, fails("no", 0)), job.ErrCancelRequested)
	want.Cancelled, want.Attempts = 3, 5
	s.did(want)
	s.change(job.ActionDelete, job.Filter{Queue: queue, States: []job.State{job.Cancelled}}, 10)
	s.did(want)
}

func finishedAreListed(s *jobs) {
	finisher := optional[job.Finisher](s, s.Store)
	var want []job.Finish
	for _, kind := range []job.Kind{job.KindComplete, job.KindDead, job.KindCancel, job.KindComplete, job.KindDead} {
		r := s.start(job.Insert{}, long)
		s.lapse(time.Millisecond)
		s.must(s.settle(r.Ref(), kind, fails("no", 0)), nil)
		if r = s.record(r.ID); kind != job.KindCancel {
			want = append(want, job.Finish{Queue: queue, State: r.State, Due: r.RunAt, Finished: r.FinishedAt})
		}
	}
	slices.Reverse(want)
	find := func(after time.Time, limit int, want []job.Finish) {
		s.Helper()
		got, err := finisher.Finished(s.ctx, after, limit)
		if err != nil || !slices.Equal(got, want) {
			s.Errorf("after %v, at most %d: %v %v, want %v", after, limit, got, err, want)
		}
	}
	find(time.Time{}, 10, want)
	find(time.Time{}, 2, want[:2])
	find(want[2].Finished, 10, want[:2])
	find(want[0].Finished, 10, nil)
	find(time.Time{}, 0, nil)
	s.must(s.Close(), nil)
	s.closed = true
	s.must(errorOf(finisher.Finished(s.ctx, time.Time{}, 1)), job.ErrClosed)
}
