package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// Result is the result of an attempt for an adaptive limit.
type Result int

// The results of an attempt.
const (
	Ignored  Result = iota // it failed early, was cancelled or was never launched
	Measured               // it succeeded: its latency says how busy the other side is
	TimedOut               // it took too long for its latency to be known
)

// Change is a change of an adaptive limit. The zero Change means none.
type Change struct{ From, To int }

// Changed reports whether there was a change.
func (c Change) Changed() bool { return c.From != c.To }

// Limiter is the limit of one key. Safe for concurrent use. While there are places, an attempt takes and returns one
// without a lock.
//
//	        TryEnter, or Queue with a free place
//	outside ────────────────────────────────────► inside ──Leave──► outside
//	   │                                            ▲
//	   └──Queue──► in line ──first in line, a place─┘
//	                  └──Cancel──► outside
type Limiter struct {
	// What each attempt writes has a cache line of its own.
	state places       // while anybody is in line, attempts enter only under mu
	turn  atomic.Int64 // the next one at the rate's even pace
	_     [48]byte

	limit       atomic.Uint32 // of places; written under mu
	measured    atomic.Bool   // the limit is adaptive
	rate        atomic.Pointer[rate]
	lot         *sharing.Lot // of the turns of a shared rate; nil for a rate of this process
	first, last *Waiter
	shared      *shared // nil unless the places are shared
	_           [16]byte

	adaptive adaptive
	mu       sync.Mutex // guards the line, and the adaptive limit's windows
	_        [24]byte
}

// unlimited is the number of places without a concurrency limit.
const unlimited = math.MaxInt32

// places counts the attempts inside in its low half and those in line in its high half.
type places struct{ word atomic.Uint64 }

const oneInLine = 1 << 32

func inside(word uint64) uint32 { return uint32(word) }       // the low half
func inLine(word uint64) uint32 { return uint32(word >> 32) } // the high half

// New makes the limiter of a normalised policy.
func New(p policy.Limit, now time.Duration) *Limiter {
	l := &Limiter{}
	l.Update(p, now)
	return l
}

// Update applies a changed policy. Attempts that are inside stay there, also if the limit is now lower. An adaptive limit
// keeps what it has learnt, within the new bounds.
func (l *Limiter) Update(p policy.Limit, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setRate(p.Rate, now)
	switch {
	case p.Adaptive.Enabled:
		learnt := 0
		if l.measured.Load() {
			learnt = int(l.limit.Load())
		} else {
			l.adaptive.reset(now)
		}
		l.setLimit(l.adaptive.bound(p, learnt))
	case p.Concurrency > 0:
		l.setLimit(p.Concurrency)
	default:
		l.setLimit(unlimited)
	}
	l.measured.Store(p.Adaptive.Enabled)
}

// Timed reports whether the limiter needs to know how long attempts take.
func (l *Limiter) Timed() bool { return l.measured.Load() }

// Rated reports whether there is a rate limit.
func (l *Limiter) Rated() bool { return l.lot != nil || l.rate.Load() != nil }

// Limit returns how many attempts may be inside; a very high number if there is no bound.
func (l *Limiter) Limit() int { return int(l.limit.Load()) }

// Inside returns how many attempts hold a place.
func (l *Limiter) Inside() int { return int(inside(l.state.word.Load())) }

// InLine returns how many attempts wait for a place.
func (l *Limiter) InLine() int { return int(inLine(l.state.word.Load())) }

// TryEnter takes a place if one is free and nobody waits for it.
func (l *Limiter) TryEnter() bool {
	for {
		word := l.state.word.Load()
		if inLine(word) > 0 || inside(word) >= l.limit.Load() {
			break
		}
		if !l.state.word.CompareAndSwap(word, word+1) {
			continue
		}
		if inside(word) < l.limit.Load() {
			return true
		}
		l.free() // the limit was lowered in between, perhaps by a caller that did not see this attempt inside
		break
	}
	if l.shared != nil {
		l.want()
	}
	return false
}

// Waiter is a position in the line.
type Waiter struct {
	limiter    *Limiter
	prev, next *Waiter
	ready      chan struct{}
	left       bool // the line: it has a place, or was cancelled; guarded by the limiter's mu
}

// Ready is closed when the waiter has a place.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Cancel leaves the line. It returns false if the waiter has a place already, which the caller must then use or give back.
func (w *Waiter) Cancel() bool {
	w.limiter.mu.Lock()
	defer w.limiter.mu.Unlock()
	if w.left {
		return false
	}
	w.limiter.remove(w)
	return true
}

// Queue takes a place if one is free and nobody waits for it, and returns nil; otherwise it returns a position at the end of
// the line.
func (l *Limiter) Queue() *Waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		word := l.state.word.Load()
		if inLine(word) == 0 && inside(word) < l.limit.Load() {
			if l.state.word.CompareAndSwap(word, word+1) {
				return nil
			}
		} else if l.state.word.CompareAndSwap(word, word+oneInLine) {
			break
		}
	}
	l.wantLocked()
	w := &Waiter{limiter: l, prev: l.last, ready: make(chan struct{})}
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return w
}

// remove takes a waiter out of the line. The caller holds mu.
func (l *Limiter) remove(w *Waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.left = nil, nil, true
	l.state.word.Add(^uint64(oneInLine - 1)) // − oneInLine
}

// Leave gives a place back, to the first in line if somebody waits. took is how long the attempt ran; it and now are needed
// only if Timed.
func (l *Limiter) Leave(result Result, took, now time.Duration) (change Change) {
	if l.measured.Load() {
		change = l.measure(result, took, now)
	}
	l.free()
	return change
}

// free frees a place, which goes to the first in line if there is one.
func (l *Limiter) free() {
	if word := l.state.word.Add(^uint64(0)); inLine(word) > 0 { // − 1
		l.mu.Lock()
		defer l.mu.Unlock()
		l.handOver()
	}
}

// handOver gives free places to those who are first in line. The caller holds mu.
func (l *Limiter) handOver() {
	for word := l.state.word.Load(); inLine(word) > 0 && inside(word) < l.limit.Load(); word = l.state.word.Load() {
		w := l.first
		l.state.word.Add(1) // before the line is shorter, so that nobody overtakes
		l.remove(w)
		close(w.ready)
	}
}

// setLimit changes the number of places. The caller holds mu.
func (l *Limiter) setLimit(n int) {
	lowest := 1
	if l.shared != nil {
		lowest = 0 // other processes may hold all places
	}
	l.limit.Store(uint32(min(max(n, lowest), unlimited)))
	l.handOver()
}

// measure adds an attempt to the window of an adaptive limit, and ends the window if it is complete.
func (l *Limiter) measure(result Result, took, now time.Duration) Change {
	if result == Ignored || took <= 0 || !l.adaptive.add(result, took, now, inside(l.state.word.Load())) {
		return Change{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.limit.Load()
	to, ended := l.adaptive.end(int(from), now)
	if !ended {
		return Change{} // another attempt has ended the window
	}
	l.setLimit(to)
	return Change{From: int(from), To: to}
}
