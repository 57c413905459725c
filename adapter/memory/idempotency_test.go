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
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: openKeys, Short: 100 * time.Millisecond})
}

func TestIdempotencyOfCollidingHashes(t *testing.T) {
	open := func(*testing.T) idempotency.Store { return memory.Colliding() }
	storetest.Idempotency(t, storetest.IdempotencyOptions{Open: open, Bubble: synctest.Test})
}

// Records are kept for times between one and ten seconds; those that expire first wait at most as long again.
func TestExpiredRecordsAreRemovedAfterTwiceTheirTimeAtTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.Open().Idempotency()
		const records, step = 1000, 9 * time.Millisecond
		for i := range records {
			ttl := 10*time.Second - time.Duration(i)*step // the longest first, which is the worst
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
			overdue := 0 // for as long again as they were kept, or longer
			for i := range records {
				if 2*(10*time.Second-time.Duration(i)*step) <= elapsed {
					overdue++
				}
			}
			if removed < overdue {
				t.Errorf("after %s %d are removed, %d are overdue", elapsed, removed, overdue)
			}
		}
		if removed != records {
			t.Errorf("%d of %d were removed in the end", removed, records)
		}
	})
}
