package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
)

// BenchmarkBurnDown claims and completes jobs in batches of 1,000 with four workers; the backlog of 200,000 is not measured.
func BenchmarkBurnDown(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		db, _ := open(b)
		store := db.Jobs()
		const n = 200_000
		fillUp(b, store, n)
		b.StartTimer()
		start := time.Now()
		var group sync.WaitGroup
		for w := range 4 {
			group.Go(func() { burn(b, store, fmt.Sprint("w", w)) })
		}
		group.Wait()
		b.ReportMetric(n/time.Since(start).Seconds(), "jobs/s")
	}
}

func fillUp(b *testing.B, store *postgres.Jobs, n int) {
	b.Helper()
	for range n / 10_000 {
		if _, err := store.Enqueue(context.Background(), inserts(10_000)); err != nil {
			b.Fatal(err)
		}
	}
}

// burn claims and completes until nothing is left.
func burn(b *testing.B, store job.Store, worker string) {
	ctx := context.Background()
	for {
		list, err := store.Claim(ctx, job.Claim{Worker: worker, Queues: []job.Slots{{Queue: "q", Free: 1000}}, Types: []string{"t"}, Lease: time.Minute})
		if err != nil {
			b.Error(err)
			return
		}
		if len(list) == 0 {
			return
		}
		settlements := make([]job.Settlement, len(list))
		for i, r := range list {
			settlements[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
		}
		for _, err := range store.Settle(ctx, settlements) {
			if err != nil {
				b.Error(err)
				return
			}
		}
	}
}

// BenchmarkEnqueueOne stores jobs one by one from 1 and 16 goroutines.
func BenchmarkEnqueueOne(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprint(goroutines, " goroutines"), func(b *testing.B) {
			db, _ := open(b)
			store := db.Jobs()
			work := make(chan struct{})
			var group sync.WaitGroup
			for range goroutines {
				group.Go(func() {
					for range work {
						if _, err := store.Enqueue(context.Background(), inserts(1)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkEnqueueMany stores jobs 10,000 at a time.
func BenchmarkEnqueueMany(b *testing.B) {
	db, _ := open(b)
	for b.Loop() {
		fillUp(b, db.Jobs(), 10_000)
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkClaim claims ten jobs of a backlog.
func BenchmarkClaim(b *testing.B) {
	for _, backlog := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint("backlog ", backlog), func(b *testing.B) {
			db, _ := open(b)
			fillUp(b, db.Jobs(), backlog)
			for b.Loop() {
				_, err := db.Jobs().Claim(context.Background(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 10}}, Types: []string{"t"}, Lease: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkClaimBesideForeignJobs claims from a queue without a job of the claim's types: an empty one, and one with a
// million jobs of another type.
func BenchmarkClaimBesideForeignJobs(b *testing.B) {
	for _, foreign := range []int{0, 1_000_000} {
		b.Run(fmt.Sprint(foreign, " jobs"), func(b *testing.B) {
			db, _ := open(b)
			fillUp(b, db.Jobs(), foreign)
			c := job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 100}}, Types: []string{"known", "other"}, Lease: time.Minute}
			for b.Loop() {
				if list, err := db.Jobs().Claim(context.Background(), c); err != nil || len(list) != 0 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
