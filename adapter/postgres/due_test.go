package postgres_test

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestJ6AClaimFindsDueJobsOfLateTransactions: a job that became visible long after its time is behind where sweeps continue, and found
// by those that start at the beginning.
func TestJ6AClaimFindsDueJobsOfLateTransactions(t *testing.T) {
	db, _ := open(t)
	store := db.Jobs()
	late := insert()
	late.RunAt = time.Now().Add(300 * time.Millisecond)
	if _, err := store.Enqueue(t.Context(), []job.Insert{late}); err != nil {
		t.Fatal(err)
	}
	claim := job.Claim{Worker: "w", Types: []string{late.Type}, Queues: []job.Slots{{Queue: late.Queue, Free: 1}}, Lease: time.Minute}
	if list, err := store.Claim(t.Context(), claim); err != nil || len(list) != 0 {
		t.Fatalf("claimed before its time: %v, %v", list, err)
	}
	time.Sleep(500 * time.Millisecond)
	store.Swept(time.Now().Add(time.Hour))
	if list, err := store.Claim(t.Context(), claim); err != nil || len(list) != 1 {
		t.Fatalf("claimed %v, %v", list, err)
	}
}
