package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestJ9ARetryDoesNotRestartAWindow checks that a retried job does not take the key of its window again.
func TestJ9ARetryDoesNotRestartAWindow(t *testing.T) {
	ctx := context.Background()
	db, _ := open(t)
	store := db.Jobs()
	windowed := insert()
	windowed.UniqueKey, windowed.UniqueFor = "k", time.Millisecond
	enqueue(t, store, windowed)
	if ids, err := store.Change(ctx, job.ActionCancel, job.Filter{IDs: []string{windowed.ID}}, 1); err != nil || len(ids) != 1 {
		t.Fatalf("%v, %v", ids, err)
	}
	<-time.After(20 * time.Millisecond)
	if ids, err := store.Change(ctx, job.ActionRetry, job.Filter{IDs: []string{windowed.ID}}, 1); err != nil || len(ids) != 1 {
		t.Fatalf("%v, %v", ids, err)
	}
	next := insert()
	next.UniqueKey = "k"
	receipts, err := store.Enqueue(ctx, []job.Insert{next})
	if err != nil || receipts[0].Existed {
		t.Fatalf("%+v, %v: the key is held beyond its window", receipts, err)
	}
}
