package limit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// shelf is a store of limits in memory that can be away. Package memory cannot be used, because it imports this one.
type shelf struct {
	mu     sync.Mutex
	states map[string]sharing.State
	away   atomic.Bool
}

var errAway = errors.New("away")

func (s *shelf) Load(_ context.Context, names []string) (sharing.Snapshot, error) {
	if s.away.Load() {
		return sharing.Snapshot{}, errAway
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := sharing.Snapshot{Now: time.Now()}
	for _, name := range names {
		state := s.states[name]
		state.Name = name
		r.States = append(r.States, state)
	}
	return r, nil
}

func (s *shelf) Swap(_ context.Context, states []sharing.State) (stored []bool, err error) {
	if s.away.Load() {
		return nil, errAway
	}
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

// sharedLimiters makes one limiter for each of n processes.
func sharedLimiters(t *testing.T, n, concurrency int) (list []*Limiter, store *shelf) {
	store = &shelf{states: map[string]sharing.State{}}
	for range n {
		hub := sharing.NewHub(store)
		t.Cleanup(func() {
			store.away.Store(false)
			if err := hub.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		list = append(list, NewShared(hub, "k", policy.Limit{Concurrency: concurrency}))
	}
	time.Sleep(time.Second)
	return list, store
}

// fill takes all places that a limiter has.
func fill(l *Limiter) (n int) {
	for l.TryEnter() {
		n++
	}
	return n
}

func TestB1IdleProcessesHoldEqualShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ processes, concurrency, each int }{{1, 40, 36}, {1, 1, 1}, {3, 40, 12}, {4, 10, 2}, {4, 8, 2}} {
			list, _ := sharedLimiters(t, c.processes, c.concurrency)
			for i, l := range list {
				if l.Limit() != c.each {
					t.Errorf("process %d of %d holds %d places of %d, want %d", i, c.processes, l.Limit(), c.concurrency, c.each)
				}
			}
		}
	})
}

func TestB1AProcessThatJoinsGetsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, store := sharedLimiters(t, 1, 40)
		time.Sleep(100 * time.Millisecond) // no exchange of the other process is due now
		hub := sharing.NewHub(store)
		defer hub.Close(context.Background())
		joined := NewShared(hub, "k", policy.Limit{Concurrency: 40})
		time.Sleep(20 * time.Millisecond) // the hub may have looked for members before there was one, and pauses after that
		if joined.Limit() != 4 {
			t.Errorf("after its first exchange it holds %d places, want the 4 that are kept free", joined.Limit())
		}
		time.Sleep(600 * time.Millisecond)
		if joined.Limit() != 18 || list[0].Limit() != 18 {
			t.Errorf("later the processes hold %d and %d places, want 18 each", list[0].Limit(), joined.Limit())
		}
	})
}

// TestB2AnOutageLeavesAnEqualShare begins the outage while another process uses all places but the one that each keeps.
func TestB2AnOutageLeavesAnEqualShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, store := sharedLimiters(t, 2, 40)
		for range 300 {
			fill(list[0])
			time.Sleep(10 * time.Millisecond)
		}
		if list[0].Inside() < 39 || list[1].Limit() > 1 {
			t.Fatalf("one process uses %d places, the other one has %d", list[0].Inside(), list[1].Limit())
		}
		store.away.Store(true)
		time.Sleep(time.Second)
		if got := fill(list[1]); got != 20 {
			t.Errorf("during the outage the other process has %d places, want its equal share, 20", got)
		}
	})
}
