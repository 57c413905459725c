package retry_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/sharing"
)

// flaky is a store of limits that can be away, or hang.
type flaky struct {
	sharing.Store
	away  atomic.Bool
	hangs atomic.Bool
	trips atomic.Int64
}

func (s *flaky) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	s.trips.Add(1)
	if s.away.Load() {
		return sharing.Snapshot{}, errDown
	}
	if s.hangs.Load() {
		<-ctx.Done()
		return sharing.Snapshot{}, ctx.Err()
	}
	return s.Store.Load(ctx, names)
}

// sharingProcesses makes executors that share through one store, each with a hub of its own.
func sharingProcesses(t *testing.T, n int, document string) (list []*retry.Executor, store *flaky, events *log) {
	t.Helper()
	parsed, err := policyfile.Parse("policies.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, events = &flaky{Store: memory.Open().Limits()}, &log{}
	for range n {
		hub := sharing.NewHub(store)
		t.Cleanup(func() {
			store.away.Store(false)
			if err := hub.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		list = append(list, retry.NewExecutor(retry.ExecutorOptions{Provider: parsed.Set, Sharing: hub, Observer: events}))
	}
	return list, store, events
}

// TestB1TenProcessesInATotalOutage: all calls of ten processes fail for six seconds of virtual time; the store is away for one of
// them. Their extra attempts stay within ratio · calls + burst + n · lot.
func TestB1TenProcessesInATotalOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, ratio, burst = 10, 0.2, 100
		list, store, _ := sharingProcesses(t, processes, `{version: 1, budgets: {api: {kind: retry_ratio, ratio: 0.2, burst: 100, scope: shared}},
			policies: {user-service.GetUser: {retry: {max_attempts: 4, backoff: 20ms, budget: {name: api}}}}}`)
		var calls, attempts atomic.Int64
		var all sync.WaitGroup
		begin, outage := time.Now(), 6*time.Second
		for i, e := range list {
			for range 5 {
				all.Go(func() {
					for time.Since(begin) < outage {
						calls.Add(1)
						err := e.Do(bg, key, func(context.Context) error { attempts.Add(1); return errDown })
						if !errors.Is(err, errDown) {
							t.Error(err)
						}
						time.Sleep(time.Duration(10+i) * time.Millisecond)
					}
				})
			}
		}
		time.Sleep(outage / 3)
		store.away.Store(true)
		time.Sleep(outage / 6)
		store.away.Store(false)
		all.Wait()
		extra := float64(attempts.Load() - calls.Load())
		earned := ratio * float64(calls.Load())
		lot := sharing.Terms{Capacity: burst, Earn: ratio}.Lot()
		if bound := earned + burst + processes*lot; extra > bound || extra < 0.95*earned {
			t.Errorf("%v extra attempts of %d calls; want between %v and %v", extra, calls.Load(), 0.95*earned, bound)
		}
	})
}

func TestB2DecisionsWithoutTheStoreSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, store, events := sharingProcesses(t, 1, `{version: 1, budgets: {api: {kind: retry_ratio, burst: 100, scope: shared}},
			policies: {user-service.GetUser: {retry: {max_attempts: 2, backoff: 1ms, budget: {name: api}}}}}`)
		do := func() observe.Timeline {
			timeline, _ := list[0].DoWithTimeline(bg, key, func(context.Context) error { return errDown })
			time.Sleep(time.Second)
			return timeline
		}
		do()
		store.away.Store(true)
		do()
		away := do()
		if len(away.Attempts) != 2 || away.Attempts[1].Outcome.Attributes[observe.AttrLimitStore] != "away" {
			t.Errorf("the retry's record while the store was away: %+v", away.Attempts)
		}
		store.away.Store(false)
		time.Sleep(5 * time.Second)
		do()
		if back := do(); back.Attempts[1].Outcome.Attributes[observe.AttrLimitStore] != "" {
			t.Errorf("a record after the outage: %+v", back.Attempts[1])
		}
		var reasons []string
		for _, e := range events.events {
			if e.Type == observe.Reported {
				reasons = append(reasons, string(e.Report.Reason))
			}
		}
		if got := strings.Join(reasons, " "); got != "limit_store_away limit_store_back" {
			t.Errorf("reports: %s", got)
		}
	})
}

func TestB3AnOpeningOfAnotherProcessIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, _, events := sharingProcesses(t, 2, `{version: 1, policies: {user-service.GetUser: {retry: {max_attempts: 1},
			circuit: {kind: consecutive, failures: 3, cooldown: 10s, scope: shared}}}}`)
		for _, e := range list {
			_ = e.Do(bg, key, func(context.Context) error { return nil })
		}
		time.Sleep(time.Second)
		for range 3 {
			_ = list[0].Do(bg, key, func(context.Context) error { return errDown })
		}
		time.Sleep(time.Second)
		if err := list[1].Do(bg, key, func(context.Context) error { return nil }); !errors.Is(err, retry.ErrCircuitOpen) {
			t.Errorf("a call of the other process a second later: %v", err)
		}
		opened := 0
		for _, e := range events.events {
			if e.Type == observe.CircuitChanged && e.Circuit.To == "open" {
				opened++
			}
		}
		if opened != 2 {
			t.Errorf("%d openings were observed, want one in each process", opened)
		}
	})
}

func TestB1AConcurrencyLimitIsSharedByCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, _, _ := sharingProcesses(t, 3, `{version: 1, policies: {user-service.GetUser: {retry: {max_attempts: 1},
			limit: {concurrency: 4, rate: {count: 100, per: 1s, burst: 20}, max_wait: 10s, scope: shared}}}}`)
		for _, e := range list {
			_ = e.Do(bg, key, func(context.Context) error { return nil })
		}
		time.Sleep(time.Second)
		var running, most, done atomic.Int64
		var all sync.WaitGroup
		for _, e := range list {
			for range 10 {
				all.Go(func() {
					err := e.Do(bg, key, func(context.Context) error {
						n := running.Add(1)
						for now := most.Load(); n > now && !most.CompareAndSwap(now, n); now = most.Load() {
						}
						time.Sleep(200 * time.Millisecond)
						running.Add(-1)
						return nil
					})
					if err == nil {
						done.Add(1)
					}
				})
			}
		}
		all.Wait()
		if most.Load() > 4 || done.Load() != 30 {
			t.Errorf("%d calls ran at a time and %d of 30 were made, want all, at most 4 at a time", most.Load(), done.Load())
		}
	})
}

func TestWhatIsSharedWithoutAHubIsReported(t *testing.T) {
	parsed, err := policyfile.Parse("policies.yaml", []byte(`{version: 1, budgets: {api: {kind: retry_ratio, scope: shared}}, policies: {
		user-service.GetUser: {retry: {max_attempts: 2, backoff: 1ms, budget: {name: api}}, circuit: {kind: rate, scope: shared}}}}`), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := &log{}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: parsed.Set, Observer: events})
	timeline, err := e.DoWithTimeline(bg, key, func(context.Context) error { return errDown })
	if got := timeline.Attributes.Get(observe.AttrNotShared); got != "budget api,circuit" || len(timeline.Attempts) != 2 {
		t.Errorf("not_shared = %q, %d attempts, %v", got, len(timeline.Attempts), err)
	}
	if n := events.reports(policy.ReasonNotShared); n != 1 {
		t.Errorf("%d reports of not_shared, want 1", n)
	}
}

func TestB1NoCallMakesARoundTripOrAllocatesMore(t *testing.T) {
	allocations := func(scope string) float64 {
		list, store, _ := sharingProcesses(t, 1, `{version: 1, budgets: {api: {kind: retry_ratio, burst: 1000, scope: `+scope+`}},
			policies: {user-service.GetUser: {retry: {max_attempts: 2, backoff: 1ms, budget: {name: api}}}}}`)
		e := list[0]
		op := func(context.Context) error { return nil }
		_ = e.Do(bg, key, op)
		time.Sleep(300 * time.Millisecond)
		before, begin := store.trips.Load(), time.Now()
		n := testing.AllocsPerRun(1000, func() { _ = e.Do(bg, key, op) })
		if trips, most := store.trips.Load()-before, int64(3+time.Since(begin)/(100*time.Millisecond)); trips > most {
			t.Errorf("%d round trips in %v", trips, time.Since(begin))
		}
		return n
	}
	local, shared := allocations("process"), allocations("shared")
	if shared > local {
		t.Errorf("%v allocations per call with a shared budget, %v with a local one", shared, local)
	}
}
