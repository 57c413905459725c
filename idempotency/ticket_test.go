package idempotency_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

func TestI5AContextThatAnEffectKeepsStaysEnded(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		var kept []context.Context
		for i := range 100 {
			got, err := b.Do(b.Context(), requestOf(strconv.Itoa(i)), func(ctx context.Context) ([]byte, error) {
				if ctx.Err() != nil {
					b.Fatalf("effect %d begins with an ended context", i)
				}
				for j, earlier := range kept {
					if earlier.Err() == nil {
						b.Fatalf("the context of effect %d is live again in effect %d", j, i)
					}
				}
				kept = append(kept, ctx)
				return b.effect("r")(ctx)
			})
			b.gets("r")(got, err)
		}
	})
}

// TestI5ALateRenewalTouchesNoOtherClaim: half of the effects end exactly when their first renewal is due, and others
// follow at once.
func TestI5ALateRenewalTouchesNoOtherClaim(t *testing.T) {
	const lease, callers = 30 * time.Second, 200
	virtual(t, idempotency.GuardOptions{Lease: lease}, func(b *bench) {
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				for j, lasts := range []time.Duration{lease / 3, lease/3 - 1, 0, lease / 3} {
					key := strconv.Itoa(i) + "-" + strconv.Itoa(j)
					got, err := b.Do(b.Context(), requestOf(key), func(context.Context) ([]byte, error) {
						b.effects.Add(1)
						time.Sleep(lasts) // not a channel: many of those at once crash the race detector, go.dev/issue/78156
						return []byte("late"), nil
					})
					if err != nil || string(got) != "late" {
						b.Errorf("%s: %q, %v", key, got, err)
					}
				}
			})
		}
		group.Wait()
		b.ran(4 * callers)
		if n := b.store.count("renew"); n > 2*callers {
			b.Errorf("%d renewals of %d claims that lasted until one was due", n, 2*callers)
		}
	})
}

func TestI5ATicketReturnsCopiesOfItsRecord(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		ticket, err := b.Begin(b.Context(), requestOf("k"))
		if err != nil {
			b.Fatal(err)
		}
		begun := ticket.Record()
		err = b.store.Settle(b.Context(), begun.Claim(), idempotency.Settlement{ // as an operator may
			State: idempotency.Completed, HasResult: true, Result: []byte("r"), Failure: &idempotency.Failure{Type: "late"}, TTL: time.Hour,
		})
		if err != nil {
			b.Fatal(err)
		}
		ticket.Abandon()
		ticket, err = b.Begin(b.Context(), requestOf("k"))
		if err != nil || !ticket.Replayed() {
			b.Fatal(ticket, err)
		}
		changed := ticket.Record()
		changed.Failure.Type, changed.Result[0] = "changed", 'x'
		if got := ticket.Record(); got.Failure.Type != "late" || string(got.Result) != "r" {
			b.Errorf("%+v", got)
		}
	})
}
