package memory_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// late is a store of limits whose clock can be put back.
type late struct {
	sharing.Store
	back atomic.Int64 // nanoseconds
}

func (s *late) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	r, err := s.Store.Load(ctx, names)
	r.Now = r.Now.Add(-time.Duration(s.back.Load()))
	return r, err
}

// TestB3ABreakerClosesAlthoughTheClockOfTheStoreIsPutBack puts the store's clock back by an hour while the breaker is open.
func TestB3ABreakerClosesAlthoughTheClockOfTheStoreIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &late{Store: memory.Open().Limits()}
		hub := sharing.NewHub(store)
		defer hub.Close(context.Background())
		p, err := policy.Policy{Circuit: policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 3, Cooldown: 5 * time.Second, Probes: 1, Scope: policy.ScopeShared}}.Normalize(policy.CallLimits())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		now := func() time.Duration { return time.Since(begin) }
		b := circuit.NewShared(p.Circuit, circuit.SharedOptions{Hub: hub, Name: "k", Clock: now, Changed: func(circuit.Transition) {}})
		attempt := func(r circuit.Result) {
			if ticket, _, ok := b.Acquire(now(), false); ok {
				b.Done(ticket, r, 0, now())
			}
		}
		time.Sleep(time.Second)
		for range 3 {
			attempt(circuit.Failure)
		}
		time.Sleep(time.Second)
		store.back.Store(int64(time.Hour))
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			attempt(circuit.Success)
		}
		if got := b.State(now()); got != circuit.Closed {
			t.Errorf("a minute after a cooldown of 5 s, the breaker is %v", got)
		}
	})
}
