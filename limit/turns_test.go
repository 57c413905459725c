package limit

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// TestB1AllExecutorsOfAProcessTakePart shares a rate among more executors of one process than an exchange has tries, ten, all of which
// always have attempts.
func TestB1AllExecutorsOfAProcessTakePart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := sharing.NewHub(&shelf{states: map[string]sharing.State{}})
		defer hub.Close(context.Background())
		var list [12]*Limiter
		for i := range list {
			list[i] = NewShared(hub, "k", policy.Limit{Rate: policy.Rate{Count: 1000, Per: time.Second, Burst: 100}})
		}
		var turns [12]int
		for range 200 {
			time.Sleep(20 * time.Millisecond)
			for i, l := range list {
				for range 20 {
					if _, _, ok := l.Turn(0, 0); ok {
						turns[i]++
					}
				}
			}
		}
		for i, n := range turns {
			if n < 100 {
				t.Errorf("executor %d had %d turns in 4 s, an equal share is %d", i, n, 4*1000/len(list))
			}
		}
	})
}

// late is a store whose clock can be put back.
type late struct {
	shelf
	back time.Duration
}

func (s *late) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	r, err := s.shelf.Load(ctx, names)
	r.Now = r.Now.Add(-s.back)
	return r, err
}

// TestB1PlacesOfADeadProcessComeBackAlthoughTheClockIsPutBack kills a process that holds all places but one.
func TestB1PlacesOfADeadProcessComeBackAlthoughTheClockIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &late{shelf: shelf{states: map[string]sharing.State{}}}
		dead := sharing.NewHub(&store.shelf)
		l := NewShared(dead, "k", policy.Limit{Concurrency: 10})
		time.Sleep(time.Second)
		fill(l)
		time.Sleep(time.Second)
		fill(l)
		time.Sleep(time.Second)
		// The process dies: nobody gives its places back. Its hub is closed with a store that is away.
		store.away.Store(true)
		_ = dead.Close(context.Background())
		store.away.Store(false)
		store.back = time.Hour
		hub := sharing.NewHub(store)
		defer hub.Close(context.Background())
		next := NewShared(hub, "k", policy.Limit{Concurrency: 10})
		for range 300 {
			fill(next)
			time.Sleep(100 * time.Millisecond)
		}
		if got := next.Inside(); got < 9 {
			t.Errorf("30 s later, the other process has %d places of 10", got)
		}
	})
}

// TestB1MoreProcessesThanPlacesTakeTurns has four attempts of each process try all the time.
func TestB1MoreProcessesThanPlacesTakeTurns(t *testing.T) {
	const span = 6 * time.Second
	for _, c := range []struct{ processes, concurrency int }{{3, 1}, {5, 2}, {8, 4}} {
		synctest.Test(t, func(t *testing.T) {
			list, _ := sharedLimiters(t, c.processes, c.concurrency)
			attempts := make([]atomic.Int64, c.processes)
			var mu sync.Mutex
			inside, most := 0, 0
			count := func(change int) {
				mu.Lock()
				defer mu.Unlock()
				inside += change
				most = max(most, inside)
			}
			var all sync.WaitGroup
			for n := range 4 * c.processes {
				i, l := n/4, list[n/4]
				all.Go(func() {
					for begin := time.Now(); time.Since(begin) < span; time.Sleep(10 * time.Millisecond) {
						if l.TryEnter() {
							attempts[i].Add(1)
							count(1)
							time.Sleep(50 * time.Millisecond)
							count(-1)
							l.Leave(Ignored, 0, 0)
						}
					}
				})
			}
			all.Wait()
			for i := range attempts {
				if n := attempts[i].Load(); n < int64(span/(600*time.Millisecond)) {
					t.Errorf("process %d of %d made %d attempts in %s with %d places", i, c.processes, n, span, c.concurrency)
				}
			}
			if most > c.concurrency {
				t.Errorf("%d attempts at a time, want at most %d", most, c.concurrency)
			}
		})
	}
}

// TestB1ACloseGivesBackTheTokensOfAllExecutors closes a hub with more members of one pool than an exchange has tries.
func TestB1ACloseGivesBackTheTokensOfAllExecutors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{states: map[string]sharing.State{}}
		hub := sharing.NewHub(store)
		terms := sharing.Terms{Capacity: 400, Earn: 0.001}
		var list []*sharing.Lot
		for range 30 {
			list = append(list, sharing.NewLot(hub, "k", terms))
		}
		time.Sleep(5 * time.Second)
		for _, l := range list {
			for range 5 {
				if !l.Spend(1) {
					t.Fatal("refused")
				}
				time.Sleep(300 * time.Millisecond)
			}
		}
		for _, l := range list { // so that each holds what it needs
			l.Spend(1)
		}
		time.Sleep(300 * time.Millisecond)
		if err := hub.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		var pool struct{ Tokens int64 }
		if err := json.Unmarshal(store.states["k"].Data, &pool); err != nil {
			t.Fatal(err)
		}
		if left, want := pool.Tokens/sharing.Token, int64(400-30*6); left != want {
			t.Errorf("the pool holds %d tokens after all were given back, want %d", left, want)
		}
	})
}

// TestB4ARelaxedRateIsFollowedSoon: what a burst at a slow pace has used up does not count at the new one.
func TestB4ARelaxedRateIsFollowedSoon(t *testing.T) {
	l := New(policy.Limit{Rate: policy.Rate{Count: 10, Per: time.Minute, Burst: 600}}, 0)
	for range 600 {
		if _, _, ok := l.Turn(0, 0); !ok {
			t.Fatal("the burst is refused")
		}
	}
	l.Update(policy.Limit{Rate: policy.Rate{Count: 100, Per: time.Second, Burst: 10}}, time.Second)
	if _, wait, ok := l.Turn(time.Second, time.Second); !ok || wait != 10*time.Millisecond {
		t.Errorf("right after the change: %v, wait %v", ok, wait)
	}
}
