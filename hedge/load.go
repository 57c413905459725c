package hedge

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/internal/striped"
)

// Load keeps a key's hedges below a share of its calls (max_extra_load). Unused hedges are saved up to the share of 1,000
// calls, at least one hedge: a key that was fast for a day must not spend a day's hedges when its server becomes slow. The
// zero value is ready for use and allocates its memory, 2 KiB, at the first call. Load is safe for concurrent use and must
// not be copied.
type Load struct {
	calls atomic.Pointer[striped.Counter]

	mu     sync.Mutex
	seen   uint64 // calls that were credited
	credit uint64 // in units
}

const (
	unit       = 1_000_000_000 // 1 hedge
	savedCalls = 1000
	// manyCalls keeps a credit below 2⁶⁴ units.
	manyCalls = 1_000_000_000
)

// Call counts a call.
func (l *Load) Call() { l.counter().Add() }

// TryHedge returns true, and counts a hedge, if with it there are at most fraction · calls hedges. A fraction of 0 or
// less, or NaN, means no limit, and hedges under it are not counted. The bound is exact under concurrency: it is kept in
// billionths of a hedge, to which fraction is rounded down. Fractions above 10 count as 10.
func (l *Load) TryHedge(fraction float64) bool {
	if !(fraction > 0) {
		return true
	}
	calls := l.counter().Sum()
	perCall := units(fraction)
	l.mu.Lock()
	defer l.mu.Unlock()
	if calls > l.seen { // a sum may be read before another caller's and used after it
		l.credit += min(calls-l.seen, manyCalls) * perCall
		l.seen = calls
	}
	l.credit = min(l.credit, max(savedCalls*perCall, unit))
	if l.credit < unit {
		return false
	}
	l.credit -= unit
	return true
}

func (l *Load) counter() *striped.Counter {
	c := l.calls.Load()
	if c == nil {
		l.calls.CompareAndSwap(nil, &striped.Counter{})
		c = l.calls.Load()
	}
	return c
}

// units converts a fraction to units per call, rounding down. Rounding to the nearest first keeps decimal numbers what
// they look like: 0.29·10⁹ is 289,999,999.99… in float64.
func units(fraction float64) uint64 {
	fraction = min(fraction, 10)
	nearest := math.Round(fraction * unit)
	if nearest/unit > fraction {
		nearest--
	}
	return uint64(nearest)
}
