package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// TestJ8AnExtensionIsRepeatedAfterADeadlock: the leases of an extension may be in any order.
func TestJ8AnExtensionIsRepeatedAfterADeadlock(t *testing.T) {
	db, schema := open(t)
	store := db.Jobs()
	list := inserts(2)
	enqueue(t, store, list...)
	records, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 2}}, Types: []string{"t"}, Lease: time.Minute})
	if err != nil || len(records) != 2 {
		t.Fatalf("%d claimed, %v", len(records), err)
	}
	tx, err := pools[url].Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	lock := `SELECT FROM ` + pgx.Identifier{schema, "running"}.Sanitize() + ` WHERE id = $1 FOR UPDATE`
	if _, err := tx.Exec(t.Context(), lock, records[0].ID); err != nil {
		t.Fatal(err)
	}
	extended := make(chan []error)
	go func() {
		extended <- store.Extend(t.Context(), []job.Ref{records[1].Ref(), records[0].Ref()}, time.Hour)
	}()
	time.Sleep(300 * time.Millisecond) // the extension waits first, so the server makes it fail
	if _, err := tx.Exec(t.Context(), lock, records[1].ID); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if errs := <-extended; errs != nil {
		t.Error(errs)
	}
}
