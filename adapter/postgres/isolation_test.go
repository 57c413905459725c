package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
)

// openStrict opens a schema over connections whose default isolation is stricter than PostgreSQL's own.
func openStrict(t *testing.T, schema string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url+"&default_transaction_isolation=serializable", postgres.Options{Schema: schema, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestJ9SerializationFailuresAreRepeated covers enqueues of one unique key.
func TestJ9SerializationFailuresAreRepeated(t *testing.T) {
	_, schema := open(t)
	var calls sync.WaitGroup
	for range 4 {
		db := openStrict(t, schema)
		calls.Go(func() {
			for range 25 {
				one := insert()
				one.UniqueKey = "k"
				if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{one}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
}

// TestI8SerializationFailuresAreRepeated covers claims of one key.
func TestI8SerializationFailuresAreRepeated(t *testing.T) {
	_, schema := open(t)
	var calls sync.WaitGroup
	var runs atomic.Int64
	for caller := range 4 {
		store := openStrict(t, schema).Idempotency()
		calls.Go(func() {
			for i := range 25 {
				id := idempotency.ID{Operation: "op", Key: fmt.Sprint(i)}
				begun, err := store.Begin(t.Context(), idempotency.BeginRequest{ID: id, Fingerprint: "f", Owner: fmt.Sprint(caller), Lease: time.Minute})
				if err != nil {
					t.Error(err)
					continue
				}
				if begun.Verdict != idempotency.Run {
					continue
				}
				runs.Add(1)
				settlement := idempotency.Settlement{State: idempotency.Completed, TTL: time.Minute}
				if err := store.Settle(t.Context(), begun.Record.Claim(), settlement); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if runs.Load() != 25 {
		t.Errorf("%d effects for 25 keys", runs.Load())
	}
}
