package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
)

// TestJ8MigrationGivesStoredJobsTheirTypes checks that jobs stored by a release without types in its narrow tables are
// claimed by type, and count as started only if an attempt ran.
func TestJ8MigrationGivesStoredJobsTheirTypes(t *testing.T) {
	ctx := context.Background()
	db, _ := openNew(t, url)
	store := db.Jobs()
	list := inserts(5) // refused, failed, running, scheduled, ready
	list[3].RunAt = time.Now().Add(time.Hour)
	for i := range list {
		list[i].Type = "a"
	}
	foreign := insert()
	foreign.Type = "b"
	enqueue(t, store, append(list[:4:4], foreign)...)
	claim := job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 3}}, Types: []string{"a"}, Lease: time.Hour}
	claimed, err := store.Claim(ctx, claim)
	if err != nil || len(claimed) != 3 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	if errs := store.Settle(ctx, []job.Settlement{{Ref: claimed[0].Ref(), Kind: job.KindRefuse}, {Ref: claimed[1].Ref(), Kind: job.KindRetry}}); errs != nil {
		t.Fatal(errs)
	}
	enqueue(t, store, list[4:]...)
	downTo(t, db, 4)
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	if errs := store.Settle(ctx, []job.Settlement{{Ref: claimed[2].Ref(), Kind: job.KindRelease, NotRun: true}}); errs != nil {
		t.Fatal(errs)
	}
	if got, err := store.Change(ctx, job.ActionRetry, job.Filter{IDs: []string{list[3].ID}}, 1); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	claim.Queues[0].Free = 10
	again, err := store.Claim(ctx, claim)
	if err != nil || len(again) != len(list) {
		t.Fatalf("claimed %d of %d, %v", len(again), len(list), err)
	}
	for _, r := range again {
		if ran := r.ID == claimed[1].ID; r.StartedAt.IsZero() == ran {
			t.Errorf("%s has started at %v; ran: %v", r.ID, r.StartedAt, ran)
		}
	}
}

// downTo takes a schema down to a version.
func downTo(t *testing.T, db *postgres.DB, version int) {
	t.Helper()
	for {
		status, err := db.MigrationStatus(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		above := false
		for _, s := range status {
			above = above || s.Applied && s.Version > version
		}
		if !above {
			return
		}
		if _, err := db.Migrate(t.Context(), postgres.Down, false); err != nil {
			t.Fatal(err)
		}
	}
}
