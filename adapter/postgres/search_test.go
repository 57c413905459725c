package postgres_test

import (
	"sync"
	"testing"
)

// TestS8ConcurrentCallsOfSetIndexMakeOneIndex: one of them builds it, and the others wait.
func TestS8ConcurrentCallsOfSetIndexMakeOneIndex(t *testing.T) {
	db, schema := open(t)
	second := openAt(t, url, schema)
	list := inserts(2000)
	for i := range list {
		list[i].Meta = map[string]string{"tenant": "a"}
	}
	if _, err := db.Jobs().Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
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
