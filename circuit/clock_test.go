package circuit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// late is a store of limits whose clock can be put back.
type late struct {
	mu     sync.Mutex
	states map[string]sharing.State
	back   time.Duration
}

func (s *late) Load(_ context.Context, names []string) (r sharing.Snapshot, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Now = time.Now().Add(-s.back)
	for _, name := range names {
		state := s.states[name]
		state.Name = name
		r.States = append(r.States, state)
	}
	return r, nil
}

func (s *late) Swap(_ context.Context, states []sharing.State) (stored []bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range states {
		ok := s.states[state.Name].Version == state.Version
		if ok {
			state.Version++
			s.states[state.Name] = state
		}
		stored = append(stored, ok)
	}
	return stored, nil
}

// TestB3ABreakerClosesAlthoughTheClockOfTheStoreIsPutBack puts the store's clock back by an hour while the breaker is open.
func TestB3ABreakerClosesAlthoughTheClockOfTheStoreIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &late{states: map[string]sharing.State{}}
		hub := sharing.NewHub(store)
		defer hub.Close(context.Background())
		p, err := policy.Policy{Circuit: policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 3, Cooldown: 5 * time.Second, Probes: 1, Scope: policy.ScopeShared}}.Normalize(policy.CallLimits())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		now := func() time.Duration { return time.Since(begin) }
		b := NewShared(p.Circuit, SharedOptions{Hub: hub, Name: "k", Clock: now, Changed: func(Transition) {}})
		attempt := func(r Result) {
			if ticket, _, ok := b.Acquire(now(), false); ok {
				b.Done(ticket, r, 0, now())
			}
		}
		time.Sleep(time.Second)
		for range 3 {
			attempt(Failure)
		}
		time.Sleep(time.Second)
		store.mu.Lock()
		store.back = time.Hour
		store.mu.Unlock()
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			attempt(Success)
		}
		if got := b.State(now()); got != Closed {
			t.Errorf("a minute after a cooldown of 5 s, the breaker is %v", got)
		}
	})
}
