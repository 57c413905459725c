package sqlite_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestJ9ReadersLeaveConnectionsForTransactions(t *testing.T) {
	db := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	var reading sync.WaitGroup
	var reads atomic.Int64
	defer reading.Wait()
	defer cancel()
	for range 30 {
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := db.Jobs().Stats(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				reads.Add(1)
			}
		})
	}
	for reads.Load() < 1000 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		tx, err := db.BeginTx(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}
