package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/sharing"
)

// LimitsOptions says how the suite opens a store of shared limits.
type LimitsOptions struct {
	// Open returns an empty store and closes it in the test's cleanup. Required. Unless Bubble or Restart is set, cases run in
	// parallel, so Open and Second must be safe for concurrent use.
	Open func(t *testing.T) sharing.Store
	// Second opens another handle on the data of a store that Open returned, as another process would, and closes it in the
	// test's cleanup. Nil for stores that one process keeps for itself.
	Second func(t *testing.T, first sharing.Store) sharing.Store
	// Bubble is set for stores that take their time from package time and open no sockets: the suite runs in virtual time.
	Bubble bool
	// Restart stops the store of Open, runs f, and starts it again. Nil if the suite is to let a store in front of it fail instead.
	Restart func(t *testing.T, f func())
}

// Limits checks that a store keeps the contract of sharing.Store, and that budgets, breakers and limits share through it.
func Limits(t *testing.T, o LimitsOptions) {
	runLimits(t, o, storeCases(), budgetCases(), circuitCases(), sharedPlaceCases(), budgetOutages(), circuitOutages(), placeOutages())
}

// LimitsInOutages runs the cases in which the store is away. It is for stores whose servers a test can stop: set Restart.
func LimitsInOutages(t *testing.T, o LimitsOptions) {
	runLimits(t, o, budgetOutages(), circuitOutages(), placeOutages())
}

func runLimits(t *testing.T, o LimitsOptions, groups ...[]limitsCase) {
	for _, c := range slices.Concat(groups...) {
		t.Run(c.name, func(t *testing.T) {
			if o.Bubble {
				synctest.Test(t, func(t *testing.T) { c.run(openLimits(t, o)) })
				return
			}
			if o.Restart == nil {
				t.Parallel()
			}
			c.run(openLimits(t, o))
		})
	}
}

// limitsCase is one behaviour.
type limitsCase struct {
	name string
	run  func(s *limits)
}

// limits is a store of limits under test. second is another handle on the same data, or the same handle.
type limits struct {
	suite
	sharing.Store

	second  sharing.Store
	options LimitsOptions
	away    atomic.Bool
	slow    atomic.Bool // the store was away for a process
	dead    [maxProcesses]atomic.Bool
}

const maxProcesses = 10

func openLimits(t *testing.T, o LimitsOptions) *limits {
	s := &limits{suite: suite{T: t, ctx: t.Context()}, Store: o.Open(t), options: o}
	s.second = s.Store
	if o.Second != nil {
		s.second = o.Second(t, s.Store)
	}
	return s
}

// handle returns the two handles in turn.
func (s *limits) handle(i int) sharing.Store { return []sharing.Store{s.Store, s.second}[i%2] }

// hub connects one simulated process with the store, through the handle that is its turn. The test's cleanup closes it.
func (s *limits) hub(process int) *sharing.Hub {
	s.Helper()
	h := sharing.NewHub(&switched{s.handle(process), &s.away, &s.dead[process]})
	h.Watch(func(status sharing.Status) { s.slow.Store(s.slow.Load() || status.Away) })
	s.Cleanup(func() {
		s.away.Store(false)
		if err := h.Close(context.Background()); err != nil && !s.dead[process].Load() {
			s.Error(err)
		}
	})
	return h
}

// abandon makes a process's exchanges end, as if it had died.
func (s *limits) abandon(process int) { s.dead[process].Store(true) }

// outage runs f while the store does not answer.
func (s *limits) outage(f func()) {
	s.Helper()
	if s.options.Restart != nil {
		s.options.Restart(s.T, f)
		return
	}
	s.away.Store(true)
	f()
	s.away.Store(false)
}

// until waits until ok, for at most 15 seconds.
func (s *limits) until(what string, ok func() bool) {
	s.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 15*time.Second {
			s.Fatalf("waited 15 s for %s", what)
		}
	}
}

// switched is a store that can be away.
type switched struct {
	sharing.Store
	away, dead *atomic.Bool
}

var errSwitchedOff = errors.New("storetest: the store is switched off")

func (s *switched) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	if s.away.Load() || s.dead.Load() {
		return sharing.Snapshot{}, errSwitchedOff
	}
	return s.Store.Load(ctx, names)
}

func (s *switched) Swap(ctx context.Context, states []sharing.State) ([]bool, error) {
	if s.away.Load() || s.dead.Load() {
		return nil, errSwitchedOff
	}
	return s.Store.Swap(ctx, states)
}
