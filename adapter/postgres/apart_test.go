package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
)

// TestJ9AKeyInAnOpenTransactionHoldsBackOnlyItsOwnCalls: concurrent calls are stored together.
func TestJ9AKeyInAnOpenTransactionHoldsBackOnlyItsOwnCalls(t *testing.T) {
	_, schema := open(t)
	db, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema, MaxConns: 2}) // fewer connections than calls that wait
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store := db.Jobs()
	tx, err := pools[url].Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rollback := sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	defer rollback()
	request := job.Request{Type: "t", Queue: "q", UniqueKey: "held"}
	if _, err := store.EnqueueTx(t.Context(), tx, request); err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			held := insert()
			held.UniqueKey = "held"
			if receipts, err := store.Enqueue(t.Context(), []job.Insert{held}); err != nil || len(receipts) != 1 {
				t.Errorf("%+v, %v", receipts, err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, key := range []string{"", "other"} {
		one := insert()
		one.UniqueKey = key
		if _, err := store.Enqueue(ctx, []job.Insert{one}); err != nil {
			t.Errorf("key %q: %v", key, err)
		}
	}
	rollback()
	waiting.Wait()
}
