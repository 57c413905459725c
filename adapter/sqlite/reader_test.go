package sqlite_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
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

// TestJ9AReadThatIsGivenUpLeavesNoTransaction: the driver may report the statement in which a context ended as failed although it has
// taken effect. A transaction that BEGIN left open would make the connection fail for every later reader.
func TestJ9AReadThatIsGivenUpLeavesNoTransaction(t *testing.T) {
	db := open(t)
	read := func(ctx context.Context) error {
		_, err := db.Jobs().List(ctx, job.Filter{}, "", 10)
		return err
	}
	for begun := time.Now(); time.Since(begun) < time.Second; {
		ctx, cancel := context.WithCancel(t.Context())
		var giving sync.WaitGroup
		giving.Go(func() {
			for start, after := time.Now(), rand.N(30*time.Microsecond); time.Since(start) < after; { // a timer is too coarse
			}
			cancel()
		})
		_ = read(ctx)
		giving.Wait()
		if err := read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
