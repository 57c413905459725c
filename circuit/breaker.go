package circuit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/striped"
	"github.com/tenetdev/tenet/policy"
)

// State is the state of a breaker.
type State int

// The states of a breaker.
const (
	Closed   State = iota // lets everything through and counts
	Open                  // refuses everything until its cooldown is over
	HalfOpen              // lets probes through
)

// String returns "closed", "open" or "half_open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Result is the result of an attempt for a breaker.
type Result int

// The results of an attempt.
const (
	Success Result = iota // it worked, or failed for a reason that says nothing against the other side
	Failure               // the other side failed or did not answer in time
	Ignored               // it was cancelled, aborted or never launched
)

// Transition is a change of state caused by a method of the breaker. The zero Transition means no change.
type Transition struct{ From, To State }

// Changed reports whether there was a change.
func (t Transition) Changed() bool { return t.From != t.To }

// Ticket represents one admitted attempt. The zero Ticket represents no attempt; Done ignores it.
type Ticket struct{ phase phase }

// Probe reports whether the attempt is a half-open breaker's probe.
func (t Ticket) Probe() bool { return t.phase.state() == HalfOpen }

// phase is a state together with a number that grows at every transition, in one word. A ticket of an earlier phase has
// another value.
type phase uint64

func (p phase) state() State       { return State(p & 3) }
func (p phase) next(s State) phase { return (p>>2+1)<<2 | phase(s) }

// Breaker is the circuit breaker of one key. Safe for concurrent use. Attempts that succeed while it is closed take no
// lock and do not contend with each other.
//
//	                 the kind's condition holds
//	      ┌────────┐ after an attempt             ┌──────┐
//	─────►│ closed ├─────────────────────────────►│ open │◄────────┐
//	      └────────┘                              └──┬───┘         │
//	          ▲                     Acquire, not of a│             │
//	          │                     hedge, once the  │             │ a probe failed, or was slow where
//	          │                     cooldown is over │             │ the kind is slow: the cooldown
//	          │                                      ▼             │ starts again
//	          │ `probes` probes succeeded     ┌───────────┐        │
//	          └───────────────────────────────┤ half open ├────────┘
//	                                          └───────────┘
//
// Update with another kind closes the breaker from any state. A ticket counts only in the phase in which it was issued:
// attempts that started before a transition do not count after it.
type Breaker struct {
	// Read by every attempt, written only under mu.
	phase  atomic.Uint64
	policy atomic.Pointer[policy.Circuit]
	streak atomic.Int64 // consecutive: failures in a row
	until  atomic.Int64 // rate and slow: end of the window's current bucket
	_      [32]byte     // up to a cache line, so that no stripe's writes disturb these reads

	good striped.Counter // rate and slow: attempts that were not bad, of all times

	mu        sync.Mutex
	window    window
	openedAt  time.Duration
	probing   int     // probes in flight
	succeeded int     // probes that succeeded in this phase
	shared    *shared // nil for a breaker of this process only
}

// New makes a closed breaker. The policy must be normalised: of a known kind, with every field of that kind set. A policy
// without a kind panics.
func New(c policy.Circuit) *Breaker {
	if c.Kind == "" {
		panic("circuit: New: the policy has no kind")
	}
	b := &Breaker{}
	b.phase.Store(uint64(phase(0).next(Closed)))
	b.install(c)
	return b
}

// Update puts another normalised policy in force. If the kind is the same, the breaker keeps its state and counts: thresholds
// apply from the next attempt on, a running cooldown takes its new length, and a new window starts with the counts of the old
// one. If the kind differs, the breaker starts over, closed.
func (b *Breaker) Update(c policy.Circuit) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := *b.policy.Load()
	if old == c {
		return Transition{}
	}
	if old.Kind != c.Kind {
		b.tell(Closed)
		t := b.enter(Closed)
		b.install(c)
		return t
	}
	if old.Window != c.Window {
		b.window.resize(c.Window)
		b.until.Store(0)
	}
	b.policy.Store(&c)
	return Transition{}
}

// install needs b.mu, except in New.
func (b *Breaker) install(c policy.Circuit) {
	b.policy.Store(&c)
	b.window.resize(c.Window)
	b.clear()
}

// clear forgets all counts. It needs b.mu, except in New.
func (b *Breaker) clear() {
	b.streak.Store(0)
	b.window.clear(b.good.Sum())
	b.until.Store(0)
}

// State returns the state that applies to an attempt at now: an open breaker whose cooldown is over counts as half open.
func (b *Breaker) State(now time.Duration) State {
	s, _ := b.Look(now)
	return s
}

// Look returns the state at now and whether Acquire would let an attempt other than a hedge through. It changes nothing.
func (b *Breaker) Look(now time.Duration) (State, bool) {
	if phase(b.phase.Load()).state() == Closed {
		return Closed, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.look(now)
	if !ok {
		b.want(s)
	}
	return s, ok
}

// look needs b.mu.
func (b *Breaker) look(now time.Duration) (State, bool) {
	c := b.policy.Load()
	switch phase(b.phase.Load()).state() {
	case Open:
		if now-b.openedAt < c.Cooldown {
			return Open, false
		}
		return HalfOpen, b.probes() > 0
	case HalfOpen:
		return HalfOpen, b.probing < b.probes()
	}
	return Closed, true
}

// Wait returns how long, counted from now, the breaker will refuse attempts: 0 if it would let one through. While all
// probes are in flight that is unknown; Wait then returns the cooldown, which follows if a probe fails.
func (b *Breaker) Wait(now time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.look(now)
	cooldown := b.policy.Load().Cooldown
	switch {
	case ok:
		return 0
	case s == HalfOpen:
		return cooldown
	}
	return cooldown - (now - b.openedAt)
}

// AcquireClosed admits an attempt if the breaker is closed, for which it needs no clock. If it returns false, Acquire
// decides.
func (b *Breaker) AcquireClosed() (Ticket, bool) {
	p := phase(b.phase.Load())
	return Ticket{p}, p.state() == Closed
}

// Acquire admits an attempt at now, or refuses it; hedge says that it is a hedge. An admitted attempt's ticket must be
// given to Done. The transition is from open to half open, or none.
func (b *Breaker) Acquire(now time.Duration, hedge bool) (Ticket, Transition, bool) {
	if t, ok := b.AcquireClosed(); ok {
		return t, Transition{}, true
	}
	return b.acquire(now, hedge)
}

func (b *Breaker) acquire(now time.Duration, hedge bool) (Ticket, Transition, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.look(now)
	if !ok {
		b.want(s)
	}
	if !ok || s == HalfOpen && hedge {
		return Ticket{}, Transition{}, false
	}
	var changed Transition
	if s == HalfOpen {
		if phase(b.phase.Load()).state() == Open {
			changed = b.enter(HalfOpen)
		}
		b.probing++
	}
	return Ticket{phase(b.phase.Load())}, changed, true
}

// Done records the result of the attempt that holds ticket t and frees the attempt's slot if it was a probe. took is how long
// the attempt ran, now when it ended. The result of an attempt that was cancelled or never launched is Ignored. The result of
// an attempt that was admitted before the last transition is dropped. A Success with a consecutive breaker needs neither took
// nor now.
func (b *Breaker) Done(t Ticket, r Result, took, now time.Duration) Transition {
	c := b.policy.Load()
	bad := isBad(c, r, took)
	if !bad && r != Ignored && b.countGood(c, t, now) {
		return Transition{}
	}
	return b.settle(t, r, bad, now)
}

// isBad reports whether the attempt is one of those that open a breaker of c.
func isBad(c *policy.Circuit, r Result, took time.Duration) bool {
	if c.Kind == policy.CircuitSlow {
		return r != Ignored && took > c.SlowAfter
	}
	return r == Failure
}

// countGood counts an attempt that was not bad without a lock, or returns false. It touches no memory that attempts on
// other processors write.
func (b *Breaker) countGood(c *policy.Circuit, t Ticket, now time.Duration) bool {
	if t.phase.state() != Closed || uint64(t.phase) != b.phase.Load() {
		return false
	}
	if c.Kind == policy.CircuitConsecutive {
		return b.streak.Load() == 0
	}
	if int64(now) >= b.until.Load() {
		return false // the window has to move on first
	}
	b.good.Add()
	return true
}

func (b *Breaker) settle(t Ticket, r Result, bad bool, now time.Duration) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	if uint64(t.phase) != b.phase.Load() {
		return Transition{}
	}
	switch t.phase.state() {
	case HalfOpen:
		return b.settleProbe(r, bad, now)
	case Closed:
		if r != Ignored && b.count(bad, now) {
			return b.open(now)
		}
	}
	return Transition{}
}

// settleProbe needs b.mu.
func (b *Breaker) settleProbe(r Result, bad bool, now time.Duration) Transition {
	b.probing--
	if bad || r == Failure {
		return b.open(now)
	}
	if r == Ignored {
		return Transition{}
	}
	b.succeeded++
	if b.shared != nil {
		b.shared.succeeded++
		b.shared.link.Wake()
	}
	if b.succeeded < b.policy.Load().Probes {
		return Transition{}
	}
	b.tell(Closed)
	return b.enter(Closed)
}

// count counts an attempt of a closed breaker and reports whether it must open. It needs b.mu.
func (b *Breaker) count(bad bool, now time.Duration) bool {
	c := b.policy.Load()
	if c.Kind == policy.CircuitConsecutive {
		if !bad {
			b.streak.Store(0)
			return false
		}
		return b.streak.Add(1) >= int64(c.Failures)
	}
	b.window.take(b.good.Sum()) // they belong to the bucket that may end now
	b.until.Store(int64(b.window.moveTo(now)))
	if !bad {
		b.good.Add()
		return false
	}
	b.window.addBad()
	rate := c.FailureRate
	if c.Kind == policy.CircuitSlow {
		rate = c.SlowRate
	}
	total := b.window.total
	return total.calls >= uint64(c.MinimumCalls) && float64(total.bad)/float64(total.calls) >= rate
}

// open needs b.mu.
func (b *Breaker) open(now time.Duration) Transition {
	b.openedAt = now
	b.tell(Open)
	return b.enter(Open)
}

// enter starts a phase, without counts and probes. It needs b.mu.
func (b *Breaker) enter(s State) Transition {
	p := phase(b.phase.Load())
	b.phase.Store(uint64(p.next(s)))
	b.probing, b.succeeded = 0, 0
	b.clear()
	return Transition{From: p.state(), To: s}
}
