package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func fill(t testing.TB, s *Jobs, n int, change func(i int, in *job.Insert)) {
	t.Helper()
	list := make([]job.Insert, n)
	for i := range list {
		list[i] = job.Insert{ID: fmt.Sprintf("%08d", i), Type: "t", Queue: "q", Priority: i % 10}
		if change != nil {
			change(i, &list[i])
		}
	}
	if _, err := s.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

var claimOne = job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Hour}

// TestJ10ClaimCostDoesNotGrow counts the comparisons of a claim: as many at 128,000 jobs as at 1,000 if the jobs became ready
// in order, and at most twice as many if they did not.
func TestJ10ClaimCostDoesNotGrow(t *testing.T) {
	many := 128_000
	if testing.Short() {
		many = 16_000
	}
	start := time.Now().Add(-time.Hour)
	cost := func(backlog int, step time.Duration) (compared int) {
		s := newJobs()
		fill(t, s, backlog, func(i int, in *job.Insert) { in.RunAt = start.Add(step * time.Duration(i)) })
		late := s.jobs.line("q", "t").late
		before := late.before
		late.before = func(a, b *entry) bool { compared++; return before(a, b) }
		for range 500 {
			if list, err := s.Claim(t.Context(), claimOne); err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
		}
		return compared
	}
	if small, large := cost(1000, time.Millisecond), cost(many, time.Millisecond); small != 0 || large != 0 {
		t.Errorf("in order: %d comparisons at 1,000 jobs, %d at %d", small, large, many)
	}
	if small, large := cost(1000, -time.Millisecond), cost(many, -time.Millisecond); large > 2*small || small == 0 {
		t.Errorf("in reverse: %d comparisons at 1,000 jobs, %d at %d", small, large, many)
	}
}

// TestJ19ClaimCostDoesNotGrowWithBlockedJobs counts the comparisons of claims and settlements beside blocked jobs: as many beside 64,000
// (8,000 with -short) as beside 1,000 while the blocked jobs stay where they are, and as many as the depth of a heap if they go on.
func TestJ19ClaimCostDoesNotGrowWithBlockedJobs(t *testing.T) {
	const few, keys = 1000, 10
	many := 64_000
	if testing.Short() {
		many = 8000
	}
	cost := func(blocked int, own bool) (compared int) {
		s := newJobs()
		limit := policy.JobLimit{Name: "key", Key: []string{"meta.k"}, Concurrency: 1}
		if err := s.SetLimit(t.Context(), job.LimitSetting{LimitName: job.LimitName{Queue: "q", Name: limit.Name}, Limit: &limit}); err != nil {
			t.Fatal(err)
		}
		fill(t, s, blocked, func(i int, in *job.Insert) {
			in.Priority, in.Meta = i/keys%10, map[string]string{"k": fmt.Sprint(i % keys)}
		})
		all := claimOne
		all.Queues = []job.Slots{{Queue: "q", Free: 100}}
		held, err := s.Claim(t.Context(), all)
		if err != nil || len(held) != keys {
			t.Fatal(len(held), err)
		}
		if own { // jobs of other keys
			for i := range 100 {
				in := job.Insert{ID: fmt.Sprintf("own %08d", i), Type: "t", Queue: "q", Meta: map[string]string{"k": fmt.Sprint("own ", i)}}
				if _, err := s.Enqueue(t.Context(), []job.Insert{in}); err != nil {
					t.Fatal(err)
				}
			}
		} else if errs := s.Settle(t.Context(), []job.Settlement{{Ref: held[0].Ref(), Kind: job.KindComplete}}); errs != nil {
			t.Fatal(errs)
		}
		for _, p := range append(slices.Collect(maps.Values(s.gate.lines)), s.jobs.line("q", "t").late) {
			before := p.before
			p.before = func(a, b *entry) bool { compared++; return before(a, b) }
		}
		for range 90 {
			claimed, err := s.Claim(t.Context(), claimOne)
			if err != nil || len(claimed) != 1 {
				t.Fatal(claimed, err)
			}
			if errs := s.Settle(t.Context(), []job.Settlement{{Ref: claimed[0].Ref(), Kind: job.KindComplete}}); errs != nil {
				t.Fatal(errs)
			}
		}
		return compared
	}
	if small, large := cost(few, true), cost(many, true); small != 0 || large != 0 {
		t.Errorf("%d comparisons beside %d blocked jobs, %d beside %d", small, few, large, many)
	}
	if small, large := cost(few, false), cost(many, false); large > 3*small || small == 0 {
		t.Errorf("%d comparisons while some of %d blocked jobs go on, %d of %d", small, few, large, many)
	}
}

// TestJ10LineKeepsOrder checks that the first job of a line precedes all others after any additions and removals.
func TestJ10LineKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLine()
		var all []*entry
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if n := len(all); n > 0 && rapid.IntRange(0, 2).Draw(t, "remove") > 0 {
				at := rapid.IntRange(0, n-1).Draw(t, "which") * rapid.IntRange(0, 1).Draw(t, "any") // the first one half of the time
				all[at].lift()
				all = slices.Delete(all, at, at+1)
			} else {
				e := &entry{Record: &job.Record{ID: fmt.Sprint(i), Priority: rapid.IntRange(-1, 11).Draw(t, "priority"), RunAt: time.Unix(rapid.Int64Range(0, 9).Draw(t, "run_at"), 0)}}
				l.add(e)
				all = append(all, e)
				slices.SortFunc(all, func(a, b *entry) int {
					if a.Before(b.Record) {
						return -1
					}
					return 1
				})
			}
			var want *entry
			if len(all) > 0 {
				want = all[0]
			}
			if got := l.first(); got != want {
				t.Fatalf("first is %+v, want %+v", got, want)
			}
		}
	})
}

// TestJ9EndedWindowsAreForgotten checks that keys of ended windows do not accumulate.
func TestJ9EndedWindowsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobs()
		fill(t, s, 100, func(i int, in *job.Insert) {
			in.UniqueKey, in.UniqueFor = fmt.Sprint(i), time.Duration(1+i%2)*time.Minute
		})
		for _, left := range []int{50, 0} {
			time.Sleep(time.Minute)
			if _, err := s.Maintain(t.Context(), job.Maintenance{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			if len(s.jobs.unique.holders) != left || len(s.jobs.unique.windows) != left {
				t.Fatalf("%d keys and %d windows are left, want %d", len(s.jobs.unique.holders), len(s.jobs.unique.windows), left)
			}
		}
	})
}

// TestJ13RemovedJobsLeaveNothing checks that retention also shrinks the list of IDs, even if nobody reads it.
func TestJ13RemovedJobsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobs()
		fill(t, s, 1000, func(_ int, in *job.Insert) { in.UniqueKey = in.ID })
		ids, err := s.Change(t.Context(), job.ActionCancel, job.Filter{}, 1000)
		if err != nil || len(ids) != 1000 {
			t.Fatal(len(ids), err)
		}
		time.Sleep(time.Minute)
		done, err := s.Maintain(t.Context(), job.Maintenance{Limit: 1000, Keep: map[job.State]time.Duration{job.Cancelled: time.Second}})
		if err != nil || done.Removed != 1000 || len(s.jobs.byID)+len(s.jobs.order.ids)+len(s.jobs.unique.holders) != 0 {
			t.Fatalf("%+v, %v; %d jobs, %d IDs, %d keys are left", done, err, len(s.jobs.byID), len(s.jobs.order.ids), len(s.jobs.unique.holders))
		}
	})
}

// TestJ11NotificationsEndWithTheStore checks that closing the store ends its listeners' wait.
func TestJ11NotificationsEndWithTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	db := Open()
	signals, err := db.Jobs().Notify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-signals; open {
		t.Error("a signal from a closed store")
	}
	cancel() // must not close the channel a second time
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkClaimAndComplete(b *testing.B) {
	for _, backlog := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(backlog), func(b *testing.B) {
			s := newJobs()
			fill(b, s, backlog, nil)
			for i := 0; b.Loop(); i++ {
				list, err := s.Claim(b.Context(), claimOne)
				if err != nil || len(list) != 1 {
					b.Fatal(list, err)
				}
				s.Settle(b.Context(), []job.Settlement{{Ref: list[0].Ref(), Kind: job.KindRelease}})
			}
		})
	}
}

// TestJ19ABucketIsToBeLookedAtOnce enqueues jobs for a rate that is used up. Each looks at the bucket, whose next place comes in an hour.
func TestJ19ABucketIsToBeLookedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Open().Jobs()
		rate := policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 1, Per: time.Hour, Burst: 1}}
		if err := s.SetLimit(t.Context(), job.LimitSetting{LimitName: job.LimitName{Queue: "q", Name: "rate"}, Limit: &rate}); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if _, err := s.Enqueue(t.Context(), []job.Insert{{ID: fmt.Sprintf("01990000-0000-7000-8000-%012d", i), Type: "t", Queue: "q"}}); err != nil {
				t.Fatal(err)
			}
			list, err := s.Claim(t.Context(), job.Claim{Worker: "w", Lease: time.Minute, Queues: []job.Slots{{Queue: "q", Free: 1}}})
			if err != nil || len(list) != 0 && i > 0 {
				t.Fatalf("claimed %d jobs, %v", len(list), err)
			}
		}
		if n := len(s.gate.due); n > 2 {
			t.Errorf("one bucket is to be looked at %d times", n)
		}
	})
}
