package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

// enqueueCases checks batches and receipts.
func enqueueCases() []jobsCase {
	return []jobsCase{
		{name: "J9/receipts are in the order of the inserts", run: func(s *jobs) {
			var list []job.Insert
			var want []string
			for i := range 100 {
				id := newID()
				list, want = append(list, job.Insert{ID: id, Queue: fmt.Sprint("q", i%3), Priority: i % 10}), append(want, id)
			}
			receipts := s.enqueue(list...)
			noDiff(s, "receipts", cmp.Diff(want, idsOf(receipts)))
			known := []job.Durability{job.InMemory, job.GroupCommitted, job.Fsynced, job.InTransaction}
			for _, r := range receipts {
				if r.Existed || !slices.Contains(known, r.Durability) {
					s.Fatalf("receipt %+v", r)
				}
			}
		}},
		{name: "J9/ten thousand jobs in one call", run: func(s *jobs) {
			n := sized(10_000, 2_000)
			want := idsOf(s.enqueue(make([]job.Insert, n)...))
			slices.Sort(want)
			noDiff(s, "stored", cmp.Diff(want, namesOf(s.list(job.Filter{}))))
			same(s, "jobs claimed", len(s.lease(queue, n, long)), n)
		}},
		{name: "J9/nothing to enqueue is no error", run: func(s *jobs) {
			receipts, err := s.Enqueue(s.ctx, nil)
			if err != nil || len(receipts) != 0 {
				s.Fatalf("%v, %v", receipts, err)
			}
		}},
		{name: "J9/a batch with an ID that exists is stored not at all", run: func(s *jobs) {
			id := s.add(job.Insert{Payload: []byte("first")})
			fresh := job.Insert{}
			fill(&fresh)
			again := job.Insert{ID: id, Payload: []byte("second")}
			fill(&again)
			if receipts, err := s.Enqueue(s.ctx, []job.Insert{fresh, again}); !errors.Is(err, job.ErrConflict) {
				s.Fatalf("%v, %v, want %v", receipts, err, job.ErrConflict)
			}
			if _, _, err := s.Get(s.ctx, fresh.ID); !errors.Is(err, job.ErrNotFound) {
				s.Fatalf("the rest of the batch: %v", err)
			}
			same(s, "the payload", string(s.record(id).Payload), "first")
		}},
		{name: "J9/a batch with one ID twice is stored not at all", run: func(s *jobs) {
			in := job.Insert{}
			fill(&in)
			s.must(errorOf(s.Enqueue(s.ctx, []job.Insert{in, in})), job.ErrConflict)
			s.stored(0)
		}},
	}
}

// uniqueCases checks unique keys. A key belongs to its queue.
func uniqueCases() []jobsCase {
	return []jobsCase{
		{name: "J9/a duplicate gets the first ID and changes nothing", run: func(s *jobs) {
			id := s.add(job.Insert{UniqueKey: "k", Payload: []byte("first")})
			s.unchanged(id, func() {
				r := s.enqueue(job.Insert{UniqueKey: "k", Payload: []byte("second"), Priority: 3})[0]
				if r.ID != id || !r.Existed {
					s.Fatalf("receipt %+v, want %s", r, id)
				}
			})
			s.stored(1)
		}},
		{name: "J9/a key holds while its job lives", run: func(s *jobs) {
			id := s.add(job.Insert{UniqueKey: "k"})
			for _, kind := range []job.Kind{job.KindRetry, job.KindSnooze, job.KindRelease, job.KindRefuse} {
				r := s.take(long)
				s.duplicate(id, job.Insert{UniqueKey: "k"})
				s.must(s.settle(r.Ref(), kind), nil)
				s.duplicate(id, job.Insert{UniqueKey: "k"})
			}
		}},
		{name: "J9/a key is free when its job has ended", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindComplete, job.KindDead, job.KindCancel} {
				s.attempt(job.Insert{UniqueKey: "k"}, kind)
			}
			id := s.add(job.Insert{UniqueKey: "k"})
			s.change(job.ActionCancel, job.Filter{IDs: []string{id}}, 1)
			id = s.add(job.Insert{UniqueKey: "k"})
			s.change(job.ActionDelete, job.Filter{IDs: []string{id}}, 1)
			r := s.start(job.Insert{UniqueKey: "k", MaxAttempts: 1}, s.short)
			s.maintainAfter(s.short)
			s.in(r.ID, job.Dead)
			s.add(job.Insert{UniqueKey: "k"})
			s.stored(6)
		}},
		{name: "J9/a key with a window holds for the window only", run: func(s *jobs) {
			first := s.attempt(job.Insert{UniqueKey: "k", UniqueFor: s.short}, job.KindComplete)
			s.almostElapse(s.short)
			s.duplicate(first.ID, job.Insert{UniqueKey: "k", UniqueFor: s.short})
			s.lapse(s.short)
			second := s.add(job.Insert{UniqueKey: "k", UniqueFor: s.short})
			if second == first.ID {
				s.Fatal("the window did not end")
			}
			s.lapse(s.short)
			third := s.enqueue(job.Insert{UniqueKey: "k"})[0]
			if third.Existed {
				s.Fatal("the key held longer than its window, because its job lives")
			}
			s.duplicate(third.ID, job.Insert{UniqueKey: "k", UniqueFor: s.short})
			s.add(job.Insert{UniqueKey: "brief", UniqueFor: time.Nanosecond})
			s.lapse(time.Millisecond)
			if s.enqueue(job.Insert{UniqueKey: "brief"})[0].Existed {
				s.Fatal("a window of a nanosecond did not end")
			}
		}},
		{name: "J9/a job whose key had a window is retried without it", run: func(s *jobs) {
			first := s.attempt(job.Insert{UniqueKey: "k", UniqueFor: s.short}, job.KindDead)
			s.lapse(s.short)
			same(s, "jobs retried", len(s.change(job.ActionRetry, job.Filter{IDs: []string{first.ID}}, 1)), 1)
			second := s.enqueue(job.Insert{UniqueKey: "k", UniqueFor: long})[0]
			if second.Existed {
				s.Fatal("the retry took the key for the job's life")
			}
			s.must(s.settle(s.take(long).Ref(), job.KindDead), nil)
			same(s, "jobs retried", len(s.change(job.ActionRetry, job.Filter{IDs: []string{first.ID}}, 1)), 1)
			s.duplicate(second.ID, job.Insert{UniqueKey: "k", UniqueFor: long})
		}},
		{name: "J9/a window outlives the retention of its job", run: func(s *jobs) {
			r := s.attempt(job.Insert{UniqueKey: "k", UniqueFor: long}, job.KindComplete)
			s.lapse(2 * time.Millisecond)
			s.removes(1, job.Maintenance{Limit: 10, Keep: map[job.State]time.Duration{job.Completed: time.Millisecond}})
			delete(s.kept, r.ID)
			receipts, err := s.Enqueue(s.ctx, []job.Insert{{ID: newID(), Type: "t", Queue: queue, UniqueKey: "k", UniqueFor: long}})
			if err != nil || !receipts[0].Existed || receipts[0].ID != r.ID {
				s.Fatalf("%+v, %v", receipts, err)
			}
		}},
		{name: "J9/duplicates inside one call are stored once", run: func(s *jobs) {
			r := s.enqueue(
				job.Insert{UniqueKey: "k"}, job.Insert{UniqueKey: "other"}, job.Insert{UniqueKey: "k"}, job.Insert{}, job.Insert{UniqueKey: "k", UniqueFor: long},
				job.Insert{UniqueKey: "k", Queue: "elsewhere"},
			)
			existed := lists.Map(r, func(r job.Receipt) bool { return r.Existed })
			if !slices.Equal(existed, []bool{false, false, true, false, true, false}) || r[2].ID != r[0].ID || r[4].ID != r[0].ID {
				s.Fatalf("receipts %+v", r)
			}
			s.stored(4)
		}},
		{name: "J9/keys never collide, whatever they hold", run: func(s *jobs) {
			pairs := [][2]string{
				{"a", "b/c"}, {"a/b", "c"}, {"a:b", "c"}, {"a", "b:c"}, {"a", "b\x1fc"}, {"a", "b\x00c"}, {"a", "b\x00d"}, {"a", "b"}, {"a", "B"},
				{"a", "b "}, {"a", " b"}, {"a", "b\xff"}, {"a", "b\xfe"}, {"a", "b\uFFFD"}, {"a", "é"}, {"a", "e\u0301"}, {"a", "%"}, {"a", "_"},
				{"a", "'"}, {"a", "\""}, {"a", "\\"}, {"a", "null"}, {"a b", "x"}, {"a", "b x"}, {"A", "b"}, {"a", "1"}, {"a", "1.0"}, {"a", "01"},
			}
			list := lists.Map(pairs, func(p [2]string) job.Insert { return job.Insert{Queue: p[0], UniqueKey: p[1]} })
			first := s.enqueue(list...)
			for i, r := range first {
				if r.Existed {
					s.Errorf("%q collides", pairs[i])
				}
				if got := s.record(r.ID).UniqueKey; got != pairs[i][1] { // keys that differ may look the same
					s.Errorf("key %q was stored as %q", pairs[i][1], got)
				}
			}
			for i := range list {
				list[i].ID = newID()
			}
			for i, r := range s.enqueue(list...) {
				if !r.Existed || r.ID != first[i].ID {
					s.Errorf("%q again: %+v, want %s", pairs[i], r, first[i].ID)
				}
			}
		}},
		{name: "J9/a retry that would break uniqueness is left out", run: func(s *jobs) {
			old := s.attempt(job.Insert{UniqueKey: "k"}, job.KindDead, fails("x", 0))
			live := s.add(job.Insert{UniqueKey: "k"})
			s.unchanged(old.ID, func() {
				same(s, "jobs retried", len(s.change(job.ActionRetry, job.Filter{IDs: []string{old.ID}}, 1)), 0)
			})
			s.change(job.ActionCancel, job.Filter{IDs: []string{live}}, 1)
			noDiff(s, "changed", cmp.Diff([]string{old.ID}, s.change(job.ActionRetry, job.Filter{IDs: []string{old.ID}}, 1)))
			s.duplicate(old.ID, job.Insert{UniqueKey: "k"})
		}},
	}
}

// duplicate checks that an insert is kept out by the job id.
func (s *jobs) duplicate(id string, in job.Insert) {
	s.Helper()
	if r := s.enqueue(in)[0]; !r.Existed || r.ID != id {
		s.Fatalf("receipt %+v, want that of %s", r, id)
	}
}
