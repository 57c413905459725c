package circuit

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

const (
	probeLease = 5 * time.Second        // of a probe: after that, it belongs to a process that died, or had no attempt for it
	waitTime   = 30 * time.Second       // how long a process without a probe counts as waiting for one
	leaseAhead = 300 * time.Millisecond // before the end of the cooldown, probes are handed out
)

// shared connects a breaker with the state that processes share. Breaker.mu guards it, except link, clock and changed.
//
// Each process counts in its own window. A breaker that opens or closes tells the store, unless another process was first; then it
// follows that one. Openings and closings are numbered, so that each process sees which it has not followed yet.
type shared struct {
	link    *sharing.Link
	clock   func() time.Duration
	changed func(Transition)

	news      bool  // this breaker opened or closed, and the store does not know yet
	phase     int64 // of the store, that this breaker has followed
	permits   int   // probes that this process may have in flight
	wants     bool  // an attempt was refused that could be a probe, or could be one after the cooldown
	waits     bool  // the store knows that this process waits for a probe
	succeeded int   // probes whose success the store does not know yet
	away      bool  // the store is
	leaving   bool

	next record // of the exchange in progress
	told told
}

// told is what an exchange in progress tells the store.
type told struct {
	phase     uint64 // of this breaker
	succeeded int
	now       time.Time
}

// record is the state of a shared breaker in the store. Times are nanoseconds since 1970 by the store's clock.
type record struct {
	Phase     int64            `json:"phase"` // grows when the breaker opens or closes
	Open      bool             `json:"open"`
	At        int64            `json:"at,omitempty"`        // of the opening
	Succeeded int              `json:"succeeded,omitempty"` // probes
	Probes    map[string]hold  `json:"probes,omitempty"`    // by process
	Waiting   map[string]int64 `json:"waiting,omitempty"`   // processes that were refused a probe, until a time
}

// hold is a process's lease of some probes.
type hold struct {
	Count int   `json:"count"`
	Until int64 `json:"until"`
}

// clone returns a copy that shares nothing with r.
func (r record) clone() record {
	r.Probes, r.Waiting = maps.Clone(r.Probes), maps.Clone(r.Waiting)
	return r
}

// cut brings times that are further ahead than they can be, because the store's clock was put back, to where they are at most.
func (r *record) cut(at int64) {
	r.At = min(r.At, at)
	for process, p := range r.Probes {
		p.Until = min(p.Until, at+int64(probeLease))
		r.Probes[process] = p
	}
	for process, until := range r.Waiting {
		r.Waiting[process] = min(until, at+int64(waitTime))
	}
}

// same reports whether two states are equal.
func (r record) same(o record) bool {
	return r.Phase == o.Phase && r.Open == o.Open && r.At == o.At && r.Succeeded == o.Succeeded &&
		maps.Equal(r.Probes, o.Probes) && maps.Equal(r.Waiting, o.Waiting)
}

// SharedOptions connects a breaker with others. All fields are required.
type SharedOptions struct {
	Hub     *sharing.Hub
	Name    string               // the same in all processes
	Clock   func() time.Duration // the clock of the breaker's other methods
	Changed func(Transition)     // called for changes that other processes caused, on the hub's goroutine
}

// NewShared makes a closed breaker that shares its openings, closings and probes with the other processes of the hub's store that use
// the same name.
func NewShared(c policy.Circuit, o SharedOptions) *Breaker {
	b := New(c)
	b.shared = &shared{link: o.Hub.Link("circuit/" + o.Name), clock: o.Clock, changed: o.Changed}
	b.shared.link.Join(member{b})
	return b
}

// Shared reports whether the breaker is shared.
func (b *Breaker) Shared() bool { return b.shared != nil }

// Leave gives back the probes of a shared breaker, in the background, and ends its part in the exchanges.
func (b *Breaker) Leave() {
	if b.shared != nil {
		b.shared.link.Leave()
	}
}

// probes returns how many probes this process may have in flight. It needs b.mu.
func (b *Breaker) probes() int {
	c, s := b.policy.Load(), b.shared
	if s == nil || s.away {
		return c.Probes
	}
	return min(s.permits, c.Probes)
}

// want notes that an attempt was refused in a state. It needs b.mu.
func (b *Breaker) want(state State) {
	s := b.shared
	if s == nil || s.wants || b.probing > 0 {
		return
	}
	s.wants = true
	if state == HalfOpen && !s.waits {
		s.link.Wake()
	}
}

// tell notes that this breaker has opened or closed by itself. It needs b.mu.
func (b *Breaker) tell(state State) {
	s := b.shared
	if s == nil || state == HalfOpen {
		return
	}
	s.news, s.succeeded, s.permits = true, 0, 0
	s.link.Wake()
}

// member is a breaker's part in the exchanges.
type member struct{ *Breaker }

// Due returns true: the breaker follows the openings of other processes.
func (member) Due() bool { return true }

// Change tells the store of this breaker's opening, closing and probes, and asks for probes.
func (b member) Change(now time.Time, data []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shared
	local := phase(b.phase.Load()).state()
	var r record
	if data == nil || json.Unmarshal(data, &r) != nil {
		r = record{Phase: s.phase} // the store is new, or has lost its data
		s.news = s.news || local != Closed
	}
	before := r.clone()
	r.cut(now.UnixNano())
	s.told = told{phase: b.phase.Load(), succeeded: s.succeeded, now: now}
	if r.Phase == s.phase && !s.leaving {
		b.report(&r, local, now)
	}
	b.lease(&r, now)
	s.next = r
	if r.same(before) {
		return nil
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		panic("circuit: encode a shared breaker: " + err.Error()) // it holds only numbers and strings
	}
	return encoded
}

// report writes into r what this breaker has seen since it last followed the store.
func (b member) report(r *record, local State, now time.Time) {
	s := b.shared
	switch {
	case s.news && local == Closed && r.Open:
		*r = record{Phase: r.Phase + 1}
	case s.news && local != Closed:
		since := s.clock() - b.openedAt
		*r = record{Phase: r.Phase + 1, Open: true, At: now.Add(-since).UnixNano()}
	case r.Open && s.succeeded > 0:
		if r.Succeeded += s.succeeded; r.Succeeded >= b.policy.Load().Probes {
			*r = record{Phase: r.Phase + 1}
		}
	}
}

// lease takes, renews or gives back this process's probes.
func (b member) lease(r *record, now time.Time) {
	s, c, id, at := b.shared, b.policy.Load(), b.shared.link.ID(), now.UnixNano()
	others := 0
	for process, p := range r.Probes {
		if process != id && p.Until <= at {
			delete(r.Probes, process)
		} else if process != id {
			others += p.Count
		}
	}
	waiting := r.Waiting[id]
	maps.DeleteFunc(r.Waiting, func(process string, until int64) bool { return until <= at || process == id })
	if s.wants && waiting-at < int64(waitTime/2) {
		waiting = at + int64(waitTime)
	}
	mine, inFlight, wanted := r.Probes[id], 0, 0
	if phase(b.phase.Load()).state() == HalfOpen {
		inFlight = b.probing
	}
	switch {
	case s.leaving || !r.Open || at < r.At+int64(c.Cooldown-leaseAhead):
	case waiting > at, mine.Until > at, mine.Count > 0 && len(r.Waiting) == 0: // an unused lease stays while nobody else waits
		wanted = c.Probes
	default:
		wanted = inFlight
	}
	granted := min(wanted, max(c.Probes-others, 0))
	switch {
	case granted == 0 && wanted > 0:
		put(&r.Waiting, id, waiting)
		delete(r.Probes, id)
	case granted == 0:
		delete(r.Probes, id)
	case granted != mine.Count || mine.Until <= at || inFlight > 0 && mine.Until-at < int64(probeLease/2):
		put(&r.Probes, id, hold{Count: granted, Until: at + int64(probeLease)})
	}
}

func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// Settle follows the state in the store.
func (b member) Settle(err error) {
	b.mu.Lock()
	s := b.shared
	if err != nil {
		s.away = true // this process goes on with its own breaker
		b.mu.Unlock()
		return
	}
	id := s.link.ID()
	s.away, s.permits, s.wants, s.waits = false, s.next.Probes[id].Count, false, s.next.Waiting[id] > 0
	s.succeeded -= min(s.told.succeeded, s.succeeded)
	var t Transition
	if b.phase.Load() == s.told.phase { // otherwise it has moved on during the exchange, and the next one follows
		own := s.news && s.next.Phase == s.phase+1 && s.next.Open == (phase(s.told.phase).state() != Closed)
		if s.next.Phase != s.phase && !own {
			t = b.follow()
		}
		s.news, s.phase = false, s.next.Phase
	}
	b.mu.Unlock()
	if t.Changed() {
		s.changed(t)
	}
}

// follow opens or closes the breaker as another process has done. It needs b.mu.
func (b member) follow() (t Transition) {
	s := b.shared
	if s.next.Open {
		b.openedAt = s.clock() - s.told.now.Sub(time.Unix(0, s.next.At))
		if phase(b.phase.Load()).state() != Open {
			t = b.enter(Open)
		}
	} else if phase(b.phase.Load()).state() != Closed {
		t = b.enter(Closed)
	}
	return t
}

// Leave makes the next exchange the last.
func (b member) Leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shared.leaving = true
}
