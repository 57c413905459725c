package limit

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/policy"
)

const (
	tolerance     = 1.5 // of latency over that without load; GradientLimit allows 1 to 2
	steepest      = 0.5 // a window at most halves the limit, as in GradientLimit
	minSamples    = 20  // of a window: a mean of fewer attempts varies by more than a fifth where latencies vary by their mean
	windowLength  = 500 * time.Millisecond
	timedOut      = 10 // one in so many attempts is overload, whatever the latency of the others
	probeInterval = 20 // windows; a probe costs up to a quarter of the throughput while 20 attempts run
	mostConfirmed = 3  // a latency that is found again and again is probed after 40, 80, at last 160 windows
	nearly        = 10 // latencies that differ by less than one part in so many are the same
)

// window is the window in progress.
type window struct {
	count, sum atomic.Int64  // of attempts, and of the latencies of those that did not time out, in nanoseconds
	late       atomic.Int64  // attempts that timed out
	peak       atomic.Uint32 // the most attempts that were inside, as far as attempts that ended have seen
	start      atomic.Int64
	probing    atomic.Bool // only attempts that began in the window count
}

// adaptive estimates how many attempts the backend runs at once without queueing. Limiter.mu guards the fields that are not atomic.
type adaptive struct {
	window
	level
	low, high int
}

// level is what an adaptive limit has learnt.
type level struct {
	Unloaded  time.Duration // the latency without load; 0 until the first window has ended
	Windows   int           // since the last probe
	Before    int           // the limit before the probe in progress, 0 without one
	Confirmed int           // how often in a row Unloaded was found again, by a probe or while little was inside
}

// sample is what a window measured.
type sample struct {
	Mean time.Duration // of the attempts that did not time out
	Peak int           // the most attempts inside
	Late bool          // so many attempts timed out that this is overload
}

func (a *adaptive) reset(now time.Duration) {
	a.level = level{}
	a.restart(now)
}

// bound takes the bounds of a policy, and returns the limit: that which was learnt within them, or the initial one.
func (a *adaptive) bound(p policy.Limit, learnt int) int {
	a.low, a.high = max(p.Adaptive.Min, 1), max(p.Concurrency, 1)
	learnt = cmp.Or(learnt, p.Adaptive.Initial)
	return a.clamp(learnt)
}

func (a *adaptive) clamp(limit int) int { return min(max(limit, a.low), a.high) }

func (a *adaptive) restart(now time.Duration) {
	a.count.Store(0)
	a.sum.Store(0)
	a.late.Store(0)
	a.peak.Store(0)
	a.start.Store(int64(now))
	a.probing.Store(a.Before > 0)
}

// add adds an attempt to the window, and reports whether the window is complete.
func (a *adaptive) add(result Result, took, now time.Duration, inside uint32) bool {
	start := time.Duration(a.start.Load())
	if a.probing.Load() && now-took < start {
		return false
	}
	if inside > a.peak.Load() {
		a.peak.Store(inside)
	}
	if result == TimedOut {
		a.late.Add(1)
	} else {
		a.sum.Add(int64(took))
	}
	return a.complete(a.count.Add(1), now)
}

// complete reports whether the window may end. A probe ends as soon as it has its samples, because it costs throughput.
func (a *adaptive) complete(count int64, now time.Duration) bool {
	return count >= minSamples && (a.probing.Load() || now-time.Duration(a.start.Load()) >= windowLength)
}

// end ends a complete window and returns the next limit. It returns false if another attempt has ended the window.
func (a *adaptive) end(limit int, now time.Duration) (next int, ended bool) {
	count := a.count.Load()
	if !a.complete(count, now) {
		return limit, false
	}
	late := a.late.Load()
	s := sample{Peak: int(a.peak.Load()), Late: late*timedOut >= count}
	if late < count {
		s.Mean = time.Duration(a.sum.Load() / (count - late))
	}
	a.level, next = a.after(limit, s)
	a.restart(now)
	return a.clamp(next), true
}

// after returns the state and the limit after a window. It is a pure function; the result has yet to be clamped.
func (v level) after(limit int, s sample) (level, int) {
	if s.Late {
		if v.Before > 0 {
			limit = v.Before
		}
		return level{Unloaded: v.Unloaded, Windows: v.Windows, Confirmed: v.Confirmed}, int(float64(limit) * steepest)
	}
	mean := max(s.Mean, 1)
	if v.Before > 0 { // the end of a probe
		again := level{Unloaded: mean}
		switch {
		case mean < v.Unloaded-v.Unloaded/nearly: // there was a queue before, and perhaps a shorter one is left
			again.Windows = probeInterval - 1
		case mean <= v.Unloaded+v.Unloaded/nearly:
			again.Confirmed = min(v.Confirmed+1, mostConfirmed)
		}
		return again, v.Before
	}
	used := 2*s.Peak >= limit
	known := v.Unloaded
	if known == 0 || mean < known {
		v.Unloaded = mean
	}
	v.Windows++
	gradient := max(steepest, min(1, tolerance*float64(v.Unloaded)/float64(mean)))
	switch {
	case gradient == steepest: // overload, or a slower backend
		v.Confirmed = 0
	case !used && known > 0 && mean <= known+known/nearly:
		v.Windows, v.Confirmed = 0, min(v.Confirmed+1, mostConfirmed)
	}
	next := int(math.Round(float64(limit)*gradient + math.Sqrt(float64(limit))))
	if next > limit && !used {
		next = limit
	}
	if v.Windows >= probeInterval<<v.Confirmed && used && next > 1 {
		v.Before, v.Windows = next, 0
		next = int(math.Ceil((float64(next) - math.Sqrt(float64(next))) / 2))
	}
	return v, next
}
