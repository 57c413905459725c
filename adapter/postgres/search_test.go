package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestS8ConcurrentCallsOfSetIndexMakeOneIndex: one of them builds it, and the others wait.
func TestS8ConcurrentCallsOfSetIndexMakeOneIndex(t *testing.T) {
	db, schema := open(t)
	second := openAt(t, url, schema)
	list := inserts(2000)
	for i := range list {
		list[i].Meta = map[string]string{"tenant": "a"}
	}
	enqueue(t, db.Jobs(), list...)
	for range 3 {
		var calls sync.WaitGroup
		for i := range 6 {
			store := db.Jobs()
			if i%2 == 0 {
				store = second.Jobs()
			}
			calls.Go(func() {
				if err := store.SetIndex(t.Context(), "meta.tenant", true); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if fields, err := db.Jobs().Indexes(t.Context()); err != nil || len(fields) != 1 {
			t.Fatalf("%q, %v", fields, err)
		}
		if err := db.Jobs().SetIndex(t.Context(), "meta.tenant", false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestS8AnIndexReadsAPayloadOnce: in large ones, finding the field is most of what the index costs an insert.
func TestS8AnIndexReadsAPayloadOnce(t *testing.T) {
	db, schema := open(t)
	for _, field := range []string{"payload.n", "meta.tenant"} {
		if err := db.Jobs().SetIndex(t.Context(), field, true); err != nil {
			t.Fatal(err)
		}
	}
	tx := begin(t)
	if _, err := tx.Exec(t.Context(), `SET LOCAL track_functions = 'pl'`); err != nil {
		t.Fatal(err)
	}
	request := job.Request{Type: "t", Payload: map[string]int{"n": 1}, Meta: map[string]string{"tenant": "acme"}}
	if _, err := db.Jobs().EnqueueTx(t.Context(), tx, request, request); err != nil {
		t.Fatal(err)
	}
	for _, function := range []string{"payload_field", "meta_field"} {
		var calls int
		const text = `SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE schemaname = $1 AND funcname = $2`
		if err := tx.QueryRow(t.Context(), text, schema, function).Scan(&calls); err != nil || calls != 2 {
			t.Errorf("%d calls of %s for 2 jobs, %v", calls, function, err)
		}
	}
}

// TestS8ACallThatWaitsForAnotherDoesNotHoldItUp: an index that is built waits for the transactions of statements that run just then, which
// here are nearly all of the time those of a call that asks for its turn.
func TestS8ACallThatWaitsForAnotherDoesNotHoldItUp(t *testing.T) {
	_, schema := open(t)
	if _, err := pools[url].Exec(t.Context(), `CREATE SCHEMA IF NOT EXISTS slow; CREATE OR REPLACE FUNCTION slow.pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql
AS $$SELECT pg_catalog.pg_try_advisory_xact_lock($1) FROM (SELECT pg_sleep(0.2)) s$$`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	for range 3 {
		store := openAt(t, url+"&options=-csearch_path%3Dslow,pg_catalog,public", schema).Jobs()
		calls.Go(func() {
			if err := store.SetIndex(ctx, "meta.tenant", true); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}
