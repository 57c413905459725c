package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestJ10JobsBehindTheBacklogOfABusyQueueAreNotStarved checks that a job with an earlier run_at than the last claimed job is
// claimed before the backlog, and when there is no backlog.
func TestJ10JobsBehindTheBacklogOfABusyQueueAreNotStarved(t *testing.T) {
	ctx := context.Background()
	db, _ := open(t)
	store := db.Jobs()
	claim := func(n int) []*job.Record {
		t.Helper()
		list, err := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: n}}, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	enqueue(t, store, inserts(10_000)...)
	if n := len(claim(6000)); n != 6000 {
		t.Fatalf("claimed %d", n)
	}
	if n := len(claim(500)); n != 500 { // from the position of the first claim
		t.Fatalf("claimed %d", n)
	}
	early := insert()
	early.RunAt = time.Now().Add(-time.Hour)
	enqueue(t, store, early)
	claimed := 0
	for found := false; !found; claimed++ {
		list := claim(1)
		if len(list) != 1 {
			t.Fatalf("the backlog ended after %d jobs", claimed)
		}
		found = list[0].ID == early.ID
	}
	if claimed > 3400 {
		t.Fatalf("%d jobs of the backlog were claimed first", claimed)
	}
	if n := len(claim(10_000)); n != 3501-claimed {
		t.Fatalf("claimed %d, want %d", n, 3501-claimed)
	}
	early = insert()
	early.RunAt = time.Now().Add(-time.Hour)
	enqueue(t, store, early)
	for list := claim(10); len(list) == 0; list = claim(10) { // at once, or a little later if the server is slow
		<-time.After(time.Millisecond)
	}
}
