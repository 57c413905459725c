package postgres_test

import (
	"strings"
	"sync"
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
	late.RunAt = time.Now().Add(time.Second)
	enqueue(t, store, late)
	claim := job.Claim{Worker: "w", Types: []string{late.Type}, Queues: []job.Slots{{Queue: late.Queue, Free: 1}}, Lease: time.Minute}
	if list, err := store.Claim(t.Context(), claim); err != nil || len(list) != 0 {
		t.Fatalf("claimed before its time: %v, %v", list, err)
	}
	time.Sleep(1200 * time.Millisecond)
	store.Swept(time.Now().Add(time.Hour))
	if list, err := store.Claim(t.Context(), claim); err != nil || len(list) != 1 {
		t.Fatalf("claimed %v, %v", list, err)
	}
}

// TestJ11WorkIsAnnouncedOnceItCanBeClaimed: a claim that promotes a job of another type, and takes so many jobs itself that the server
// sends results before it commits, wakes the other type's worker when the job is visible.
func TestJ11WorkIsAnnouncedOnceItCanBeClaimed(t *testing.T) {
	db, _ := open(t)
	store := db.Jobs()
	signals, err := store.Notify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim := func(jobType string, free int) ([]*job.Record, error) {
		return store.Claim(t.Context(), job.Claim{Worker: "w", Types: []string{jobType}, Queues: []job.Slots{{Queue: "q", Free: free}}, Lease: time.Minute})
	}
	const size = 400
	for range 5 {
		many, due := inserts(size), insert()
		for i := range many {
			many[i].Payload = []byte(`"` + strings.Repeat("x", 1000) + `"`)
		}
		due.Type, due.RunAt = "other", time.Now().Add(500*time.Millisecond)
		enqueue(t, store, append(many, due)...)
		time.Sleep(600 * time.Millisecond)
		for len(signals) > 0 {
			<-signals
		}
		store.PromoteNext()
		var claimed sync.WaitGroup
		claimed.Go(func() {
			if list, err := claim("t", size); err != nil || len(list) != size {
				t.Errorf("claimed %d, %v", len(list), err)
			}
		})
		for found, end := false, time.After(30*time.Second); !found; {
			select {
			case <-signals:
				list, err := claim("other", 1)
				if err != nil {
					t.Fatal(err)
				}
				found = len(list) == 1
			case <-end:
				t.Fatal("the last signal came before the job could be claimed")
			}
		}
		claimed.Wait()
	}
}
