package memory_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/storetest"
)

func openKeys(*testing.T) idempotency.Store { return memory.Open().Idempotency() }

func TestIdempotency(t *testing.T) {
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: openKeys, Bubble: synctest.Test})
}

func TestIdempotencyInRealTime(t *testing.T) {
	t.Parallel()
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: openKeys, Short: 300 * time.Millisecond})
}

func TestIdempotencyOfCollidingHashes(t *testing.T) {
	open := func(*testing.T) idempotency.Store { return memory.Colliding() }
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: open, Bubble: synctest.Test})
}

// TestExpiredRecordsAreRemovedWithinTwiceTheirTTL stores records for one to ten seconds each: an expired record is
// removed before it has been kept for twice its time.
func TestExpiredRecordsAreRemovedWithinTwiceTheirTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.Open().Idempotency()
		const records, step = 1000, 9 * time.Millisecond
		for i := range records {
			ttl := 10*time.Second - time.Duration(i)*step // the longest first, which is the worst case
			b, err := store.Begin(ctx, idempotency.BeginRequest{ID: idempotency.ID{Key: strconv.Itoa(i)}, Owner: "o", Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Settle(ctx, b.Record.Claim(), idempotency.Settlement{State: idempotency.Completed, TTL: ttl}); err != nil {
				t.Fatal(err)
			}
		}
		removed := 0
		for elapsed := time.Second; elapsed <= 10*time.Second; elapsed += time.Second {
			time.Sleep(time.Second)
			n, err := store.Expire(ctx, records)
			if err != nil {
				t.Fatal(err)
			}
			removed += n
			overdue := 0 // expired for at least their whole time to live
			for i := range records {
				if 2*(10*time.Second-time.Duration(i)*step) <= elapsed {
					overdue++
				}
			}
			if removed < overdue {
				t.Errorf("after %s %d records are removed, %d are overdue", elapsed, removed, overdue)
			}
		}
		if removed != records {
			t.Errorf("%d of %d were removed in the end", removed, records)
		}
	})
}
