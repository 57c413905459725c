package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
)

// TestJ8MigrationKeepsStoredJobs checks that jobs of a release that claimed without types are claimed by type, and count as
// started only if an attempt ran.
func TestJ8MigrationKeepsStoredJobs(t *testing.T) {
	db := openNew(t, Options{})
	store := db.Jobs()
	var list []job.Insert
	for i := range 3 {
		list = append(list, job.Insert{ID: fmt.Sprintf("01990000-0000-7000-8000-%012x", i), Type: "t", Queue: "q"})
	}
	if _, err := store.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	claim := job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 2}}, Types: []string{"t"}, Lease: time.Hour}
	claimed, err := store.Claim(t.Context(), claim)
	if err != nil || len(claimed) != 2 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	if errs := store.Settle(t.Context(), []job.Settlement{{Ref: claimed[0].Ref(), Kind: job.KindRefuse}, {Ref: claimed[1].Ref(), Kind: job.KindRetry}}); errs != nil {
		t.Fatal(errs)
	}
	err = store.write(t.Context(), "age", func(q querier) error { return q.exec(`UPDATE tenet_job SET started_at = 1 WHERE fence > 0`) })
	if err != nil {
		t.Fatal(err)
	}
	for above := true; above; {
		status, err := db.MigrationStatus(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		above = false
		for _, s := range status {
			above = above || s.Applied && s.Version > 4
		}
		if above {
			if _, err := db.Migrate(t.Context(), migrate.Down, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := db.Migrate(t.Context(), migrate.Up, false); err != nil {
		t.Fatal(err)
	}
	claim.Queues[0].Free = 10
	again, err := store.Claim(t.Context(), claim)
	if err != nil || len(again) != 3 {
		t.Fatalf("claimed %d, %v", len(again), err)
	}
	for _, r := range again {
		if ran := r.ID == claimed[1].ID; r.StartedAt.IsZero() == ran {
			t.Errorf("%s has started at %v; ran: %v", r.ID, r.StartedAt, ran)
		}
	}
}
