package storetest

import (
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/job"
)

// maintenanceCases checks promotion, reclaiming and retention.
func maintenanceCases() []jobsCase {
	return []jobsCase{
		{name: "J13/finished jobs are removed when their state's time is over", run: func(s *jobs) {
			by := s.inEveryState()
			keep := map[job.State]time.Duration{job.Completed: s.short, job.Dead: 3 * s.short}
			s.almostElapse(s.short)
			s.removes(0, job.Maintenance{Limit: 100, Keep: keep})
			s.lapse(s.short)
			delete(s.kept, by[job.Completed])
			s.removes(1, job.Maintenance{Limit: 100, Keep: keep})
			s.in(by[job.Dead], job.Dead)
			s.lapse(2 * s.short)
			delete(s.kept, by[job.Dead])
			s.removes(1, job.Maintenance{Limit: 100, Keep: keep})
			s.lapse(s.short)
			s.removes(0, job.Maintenance{Limit: 100, Keep: keep})
			s.in(by[job.Cancelled], job.Cancelled)
		}},
		{name: "J13/without a time nothing is removed", run: func(s *jobs) {
			s.inEveryState()
			s.lapse(s.short)
			s.removes(0, job.Maintenance{Limit: 100})
			s.removes(0, job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{}})
		}},
		{name: "J13/a retried job starts its retention anew", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindDead, fails("x", 0))
			s.change(job.ActionRetry, job.Filter{IDs: []string{r.ID}}, 1)
			s.lapse(s.short)
			s.removes(0, job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{job.Dead: s.short}})
			s.must(s.settle(s.take(long).Ref(), job.KindDead, fails("x", 0)), nil)
			s.removes(0, job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{job.Dead: s.short}})
		}},
		{name: "J13/maintenance is done in batches", run: func(s *jobs) {
			const n = 7
			m := job.Maintenance{Limit: 3, Keep: map[job.State]time.Duration{job.Completed: time.Millisecond}}
			finished := s.enqueue(make([]job.Insert, n)...)
			for _, r := range s.lease(queue, n, long) {
				s.must(s.settle(r.Ref(), job.KindComplete), nil)
			}
			s.enqueue(make([]job.Insert, n)...)
			s.lease(queue, n, s.short)
			due := s.clock().Add(s.short)
			for range n {
				s.add(job.Insert{RunAt: due, Queue: "later"})
			}
			s.lapse(s.short)
			for _, r := range finished {
				delete(s.kept, r.ID)
			}
			var sum job.Maintained
			for range n {
				done := s.maintainWith(m)
				if done.Promoted > 3 || done.Reclaimed > 3 || done.Removed > 3 || len(done.Lost) != done.Reclaimed {
					s.Fatalf("more than the limit, or lost leases untold: %+v", done)
				}
				sum.Promoted += done.Promoted
				sum.Reclaimed += done.Reclaimed
				sum.Removed += done.Removed
			}
			if sum.Promoted != n || sum.Reclaimed != n || sum.Removed != n {
				s.Fatalf("in all %+v, want %d of each", sum, n)
			}
		}},
		{name: "J6/maintenance returns when the next job is due", run: func(s *jobs) {
			if done := s.maintain(); !done.NextDue.IsZero() {
				s.Fatalf("an empty store has a job due at %v", done.NextDue)
			}
			now := s.clock()
			s.enqueue(job.Insert{RunAt: now.Add(2 * time.Hour)}, job.Insert{RunAt: now.Add(time.Hour), Priority: 9}, job.Insert{RunAt: now.Add(3 * time.Hour)}, job.Insert{})
			done := s.maintain()
			if !done.NextDue.Equal(now.Add(time.Hour)) {
				s.Fatalf("next due at %v, want %v", done.NextDue, now.Add(time.Hour))
			}
			if after := s.clock(); done.Now.Before(now) || done.Now.After(after) {
				s.Fatalf("maintained at %v, between %v and %v", done.Now, now, after)
			}
		}},
		{name: "J6/maintenance returns each lost lease", run: func(s *jobs) {
			meta := map[string]string{"tenant_id": "acme", "trace_id": "\x00é"}
			s.attempt(job.Insert{Type: "a", Meta: meta}, job.KindRetry, fails("x", 0))
			again := s.take(s.short)
			dead := s.start(job.Insert{Type: "b", MaxAttempts: 1}, s.short)
			cancelled := s.start(job.Insert{Type: "c"}, s.short)
			s.start(job.Insert{}, long)
			s.change(job.ActionCancel, job.Filter{IDs: []string{cancelled.ID}}, 1)
			s.lapse(s.short)
			want := []job.Lost{
				{Ref: again.Ref(), Type: "a", Queue: queue, Meta: meta, Worker: "w", State: job.Ready, Attempts: 2},
				{Ref: dead.Ref(), Type: "b", Queue: queue, Worker: "w", State: job.Dead, Attempts: 1},
				{Ref: cancelled.Ref(), Type: "c", Queue: queue, Worker: "w", State: job.Cancelled, Attempts: 1},
			}
			byID := cmpopts.SortSlices(func(a, b job.Lost) bool { return a.ID < b.ID })
			noDiff(s, "lost leases", cmp.Diff(want, s.maintain().Lost, byID, cmpopts.EquateEmpty()))
			same(s, "lost jobs told of again", len(s.maintain().Lost), 0)
		}},
		{name: "J6/maintenance of an idle store does nothing", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			waiting := s.add(job.Insert{})
			s.unchanged(waiting, func() {
				s.unchanged(r.ID, func() {
					if done := s.maintain(); !reflect.DeepEqual(done, job.Maintained{Now: done.Now}) {
						s.Fatalf("%+v", done)
					}
				})
			})
		}},
	}
}

// removes runs maintenance and checks how many jobs it removed.
func (s *jobs) removes(want int, m job.Maintenance) {
	s.Helper()
	same(s, "jobs removed", s.maintainWith(m).Removed, want)
}
