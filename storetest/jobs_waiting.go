package storetest

import (
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

// waitingCases checks jobs that are stored but cannot be claimed yet.
func waitingCases() []jobsCase {
	stored := func(s *jobs) string { return s.add(job.Insert{WaitsFor: "a reason"}) }
	return []jobsCase{
		{name: "J20/a waiting job is listed with its reason and is not claimed", run: func(s *jobs) {
			id, later := stored(s), s.add(job.Insert{WaitsFor: "a reason", RunAt: s.clock().Add(s.short), UniqueKey: "k", Meta: map[string]string{"a": "b"}})
			s.lapse(s.short)
			if done := s.maintain(); done.Promoted != 0 || !done.NextDue.IsZero() {
				s.Fatalf("maintained: %+v", done)
			}
			s.claimed()
			list := s.list(job.Filter{States: []job.State{job.Waiting}})
			if !slices.Equal(namesOf(list), []string{id, later}) || list[0].WaitsFor != "a reason" || list[1].Meta["a"] != "b" {
				s.Fatalf("listed %v", list)
			}
			stats, err := s.Stats(s.ctx)
			s.must(err, nil)
			if q := stats[queue]; q.Waiting != 2 || q.Activity.Enqueued != 2 {
				s.Fatalf("counted %+v", q)
			}
			if again := s.enqueue(job.Insert{UniqueKey: "k"})[0]; again.ID != later || !again.Existed {
				s.Fatalf("J9: the key of a waiting job: %+v", again)
			}
		}},
		{name: "J20/a waiting job is cancelled", run: func(s *jobs) {
			id := stored(s)
			noDiff(s, "changed", cmp.Diff([]string{id}, s.change(job.ActionCancel, job.Filter{Queue: queue}, 9)))
			same(s, "what it waits for", s.in(id, job.Cancelled).WaitsFor, "")
			noDiff(s, "changed", cmp.Diff([]string{id}, s.change(job.ActionRetry, job.Filter{Queue: queue}, 9)))
			s.in(id, job.Ready)
		}},
		{name: "J20/a waiting job is deleted", run: func(s *jobs) {
			id := stored(s)
			noDiff(s, "changed", cmp.Diff([]string{id}, s.change(job.ActionDelete, job.Filter{IDs: []string{id}}, 9)))
			same(s, "jobs listed", len(s.list(job.Filter{IDs: []string{id}})), 0)
		}},
		{name: "J20/a retry leaves a waiting job alone", run: func(s *jobs) {
			id := stored(s)
			same(s, "jobs retried", len(s.change(job.ActionRetry, job.Filter{Queue: queue}, 9)), 0)
			s.in(id, job.Waiting)
		}},
	}
}
