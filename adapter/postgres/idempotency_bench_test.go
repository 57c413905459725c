package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/idempotency"
)

// BenchmarkGuardMiss begins and completes keys, and alternately commits two rows of a bare table, one by one, on the same
// server: the ratio of the medians is the cost of idempotency.
func BenchmarkGuardMiss(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprint(goroutines, " goroutines"), func(b *testing.B) {
			guarded, bare := beginAndComplete(b), twoBareCommits(b)
			var mu sync.Mutex
			var took, bareTook []time.Duration
			work := make(chan int)
			var group sync.WaitGroup
			for range goroutines {
				group.Go(func() {
					for i := range work {
						start := time.Now()
						if err := guarded(i); err != nil {
							b.Error(err)
						}
						middle := time.Now()
						if err := bare(i); err != nil {
							b.Error(err)
						}
						mu.Lock()
						took, bareTook = append(took, middle.Sub(start)), append(bareTook, time.Since(middle))
						mu.Unlock()
					}
				})
			}
			n := 0
			for b.Loop() {
				work <- n
				n++
			}
			close(work)
			group.Wait()
			slices.Sort(took)
			slices.Sort(bareTook)
			median, bareMedian := took[len(took)/2], bareTook[len(bareTook)/2]
			b.ReportMetric(float64(median.Microseconds()), "µs/miss")
			b.ReportMetric(float64(bareMedian.Microseconds()), "µs/bare")
			b.ReportMetric(float64(median)/float64(bareMedian), "ratio")
		})
	}
}

func beginAndComplete(b *testing.B) func(i int) error {
	db, _ := open(b)
	store := db.Idempotency()
	return func(i int) error {
		begun, err := store.Begin(context.Background(), idempotency.BeginRequest{
			ID:          idempotency.ID{Tenant: "tenant", Operation: "charge", Key: fmt.Sprintf("%064x", i)},
			Fingerprint: fmt.Sprintf("%064x", i), Owner: fmt.Sprintf("%032x", i), Lease: time.Minute,
		})
		if err != nil {
			return err
		}
		return store.Settle(context.Background(), begun.Record.Claim(), idempotency.Settlement{
			State: idempotency.Completed, HasResult: true, Result: []byte(`{"charged":true}`), TTL: time.Hour,
		})
	}
}

func twoBareCommits(b *testing.B) func(i int) error {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 10 // as open has
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	table := fmt.Sprint("bare", schemas.Add(1))
	if _, err := pool.Exec(ctx, `CREATE TABLE `+table+` (id bigint PRIMARY KEY, value text NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	return func(i int) error {
		for part := range 2 {
			if _, err := pool.Exec(ctx, `INSERT INTO `+table+` (id, value) VALUES ($1, $2)`, 2*i+part, `{"charged":true}`); err != nil {
				return err
			}
		}
		return nil
	}
}
