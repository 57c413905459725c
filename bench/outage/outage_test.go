package outage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestR8RetryRatioHoldsInEveryCell(t *testing.T) {
	g := Run()
	if want := len(loads) * len(failures) * len(backoffs); len(g.Rows) != want {
		t.Fatalf("%d rows, want %d", len(g.Rows), want)
	}
	for _, row := range g.Rows {
		mine := row.Outcomes[Tenet]
		if !row.InBound() {
			t.Errorf("%+v: %+v exceeds the bound", row.Cell, mine)
		}
		if extra := float64(mine.Attempts - mine.Calls); extra > Ratio*float64(mine.Calls)+Burst {
			t.Errorf("%+v: %v extra attempts of %d calls", row.Cell, extra, mine.Calls)
		}
		if row.Comparable() && !row.KeepsUp() {
			t.Errorf("%+v: success %v, failsafe-go %v", row.Cell, mine.Success(), row.Outcomes[Failsafe].Success())
		}
	}
}

// TestOutagesReachTheWorstCase: the grid proves nothing if its faults do not happen or if no budget could break the bound.
func TestOutagesReachTheWorstCase(t *testing.T) {
	const unbounded, inFlight = 0, 2
	dead := Cell{Load: 100, Failure: 1, Backoff: 5 * time.Second}
	if o := simulate(dead, unbounded); o.PerCall() != MaxAttempts || o.Succeeded != 0 || o.Excess <= Burst {
		t.Errorf("without a budget: %+v", o)
	}
	if o := simulate(dead, inFlight); o.PerCall() < 2.9 {
		t.Errorf("a share of the calls in flight is a weak bound while calls wait: %+v", o)
	}
	healthy := simulate(Cell{Load: 100, Backoff: 5 * time.Second}, unbounded)
	if healthy.Attempts != healthy.Calls || healthy.Succeeded != healthy.Calls || healthy.Calls < 5500 || healthy.Calls > 6500 {
		t.Errorf("healthy: %+v", healthy)
	}
}

func TestFailuresHappenAtTheirRate(t *testing.T) {
	o := simulate(Cell{Load: 1000, Failure: 0.1, Backoff: time.Millisecond}, 0)
	if perCall := o.PerCall(); perCall < 1.105 || perCall > 1.115 { // 1 + 0.1 + 0.01
		t.Errorf("%v attempts per call", perCall)
	}
}

func TestRunsAreDeterministic(t *testing.T) {
	cell := Cell{Load: 100, Failure: 0.5, Backoff: 10 * time.Millisecond}
	for i := range budgets(func() time.Duration { return 0 }) {
		if diff := cmp.Diff(simulate(cell, i), simulate(cell, i)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFinagleForgets(t *testing.T) {
	var now time.Duration
	b := finagle(func() time.Duration { return now })
	spend := func() (n int) {
		for b.Allow(now, 1) {
			n++
		}
		return n
	}
	if n := spend(); n != 100 { // the reserve of 10 s
		t.Errorf("%d retries at first, want 100", n)
	}
	for range 50 {
		b.Start()
	}
	if n := spend(); n != 10 {
		t.Errorf("%d retries after 50 calls, want 10", n)
	}
	now = 9 * time.Second
	if n := spend(); n != 0 {
		t.Errorf("%d retries within the same 10 s, want 0", n)
	}
	now = 10 * time.Second
	if n := spend(); n != 100 {
		t.Errorf("%d retries after 10 s, want 100", n)
	}
}

func TestGRPCThrottlesAtHalf(t *testing.T) {
	b := grpc()
	for range 4 {
		b.Ended(0, false)
	}
	if !b.Allow(0, 1) {
		t.Error("refused with 6 tokens of 10")
	}
	b.Ended(0, false)
	if b.Allow(0, 1) {
		t.Error("allowed with 5 tokens of 10")
	}
	for range 2 {
		b.Ended(0, true)
	}
	if !b.Allow(0, 1) {
		t.Error("refused with 5.2 tokens of 10")
	}
}
