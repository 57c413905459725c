package postgres_test

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestS8CountersGoOnWhileAJobIsNotInTheTotalsYet: another process has stored it since they were added up.
func TestS8CountersGoOnWhileAJobIsNotInTheTotalsYet(t *testing.T) {
	db, _ := open(t)
	store := db.Jobs()
	enqueue := func() {
		t.Helper()
		if _, err := store.Enqueue(t.Context(), []job.Insert{insert()}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue()
	if err := settleOne(t, store, job.Settlement{Ref: claimOne(t, store).Ref(), Kind: job.KindComplete}); err != nil {
		t.Fatal(err)
	}
	keep := map[job.State]time.Duration{job.Completed: 0}
	if done, err := store.Maintain(t.Context(), job.Maintenance{Keep: keep, Limit: 10}); err != nil || done.Removed != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := store.Maintain(t.Context(), job.Maintenance{Limit: 10}); err != nil { // adds the removal up
		t.Fatal(err)
	}
	enqueue()
	if err := store.ForgetEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	stats, err := store.Stats(t.Context())
	if got := stats["q"].Activity.Enqueued; err != nil || got != 2 {
		t.Errorf("%d jobs enqueued, want 2, %v", got, err)
	}
}
