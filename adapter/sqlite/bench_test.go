package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tenetdev/tenet/job"
)

// BenchmarkInsert stores jobs one by one from a number of goroutines, each commit flushed to the disk.
func BenchmarkInsert(b *testing.B) {
	for _, goroutines := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			store := open(b).Jobs()
			var next atomic.Int64
			var group sync.WaitGroup
			for range goroutines {
				group.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if _, err := store.Enqueue(b.Context(), []job.Insert{number(int(i))}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkBurnDown claims and completes jobs in batches of 100 with two callers, beside a backlog.
func BenchmarkBurnDown(b *testing.B) {
	for _, callers := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			store := open(b).Jobs()
			fill(b, store, b.N)
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for left.Load() > 0 {
						list, err := store.Claim(b.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 100}}, Types: []string{"t"}, Lease: job.DefaultLease})
						if err != nil {
							b.Error(err)
							return
						}
						done := make([]job.Settlement, len(list))
						for i, r := range list {
							done[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete, Reason: "success"}
						}
						if errs := store.Settle(b.Context(), done); errs != nil {
							b.Error(errs)
							return
						}
						left.Add(-int64(len(list)))
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// number makes the n-th job: IDs ascend, as those of clients do.
func number(n int) job.Insert {
	return job.Insert{ID: fmt.Sprintf("01990000-%04x-7%03x-8000-%012x", n>>28&0xffff, n>>16&0xfff, n), Type: "t", Queue: "q", Payload: []byte(`{"n":1}`)}
}

// fill stores n jobs.
func fill(t testing.TB, store job.Store, n int) {
	t.Helper()
	for from := 0; from < n; from += 10_000 {
		list := make([]job.Insert, min(10_000, n-from))
		for i := range list {
			list[i] = number(from + i)
		}
		if _, err := store.Enqueue(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkClaimBesideForeignJobs claims from a queue without a job of the claim's types: an empty one, and one with a
// million jobs of another type.
func BenchmarkClaimBesideForeignJobs(b *testing.B) {
	for _, foreign := range []int{0, 1_000_000} {
		b.Run(fmt.Sprint(foreign, " jobs"), func(b *testing.B) {
			store := open(b).Jobs()
			fill(b, store, foreign)
			c := job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 100}}, Types: []string{"known", "other"}, Lease: job.DefaultLease}
			for b.Loop() {
				if list, err := store.Claim(b.Context(), c); err != nil || len(list) != 0 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
