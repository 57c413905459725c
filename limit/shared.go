package limit

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

const (
	placeLease = 10 * time.Second // how long the places of a process that has died are not given to others
	placeTurn  = time.Second      // how long a process keeps its places while another has none, if there are fewer places than processes
	spare      = 10               // one place in so many stays free while nobody needs it, for a process that joins
)

// shared connects a limiter with the places that processes share. Limiter.mu guards it, except link.
//
// The limiter's limit is what this process holds of the total. It asks for what its attempts need, more when an attempt was refused or
// waits, and at least for an equal share. While another process needs more than it has, this one asks for no share, and gives half of its
// unused places back at each exchange; where the other has less than an equal share, this one keeps to its own. Where there are more
// processes than places, they take turns.
type shared struct {
	link    *sharing.Link
	total   int  // places of all processes
	refused bool // an attempt found no place since the last exchange
	leaving bool
	users   int // processes that use the limit, this one included

	granted int // in the exchange in progress
}

// placeState is the state of a shared concurrency limit in the store.
type placeState struct {
	Holders map[string]holder `json:"holders"` // by process
}

// holder is a process's lease of places.
type holder struct {
	Places int   `json:"places"`
	Wants  int   `json:"wants"`
	Until  int64 `json:"until"` // nanoseconds since 1970 by the store's clock
	Since  int64 `json:"since"` // of its first place, or of having none
}

// NewShared makes the limiter of a normalised policy without an adaptive limit, whose places and turns are shared with the other
// processes of the hub's store that use the same name. It starts with one place and one lot of turns in advance.
func NewShared(h *sharing.Hub, name string, p policy.Limit) *Limiter {
	l := &Limiter{}
	l.limit.Store(unlimited)
	if p.Rate.Count > 0 {
		l.lot = sharing.NewLot(h, "rate/"+name, rateTerms(p.Rate))
	}
	if p.Concurrency > 0 {
		l.limit.Store(1)
		l.shared = &shared{link: h.Link("limit/" + name), total: p.Concurrency, users: 1}
		l.shared.link.Join(member{l})
	}
	return l
}

// rateTerms returns the terms of the pool of a rate's turns.
func rateTerms(r policy.Rate) sharing.Terms {
	return sharing.Terms{Capacity: float64(max(r.Burst, 1)), Refill: float64(r.Count) / r.Per.Seconds()}
}

// UpdateShared applies a changed policy to a shared limiter. It returns false, and changes nothing, if the limiter lacks a part that
// the policy needs, or has one that it does not.
func (l *Limiter) UpdateShared(p policy.Limit) bool {
	if (l.shared != nil) != (p.Concurrency > 0) || (l.lot != nil) != (p.Rate.Count > 0) {
		return false
	}
	if l.lot != nil {
		l.lot.SetTerms(rateTerms(p.Rate))
	}
	if l.shared != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.shared.total = p.Concurrency
		if int(l.limit.Load()) > p.Concurrency {
			l.setLimit(p.Concurrency)
		}
	}
	return true
}

// Shared reports whether the limiter shares something.
func (l *Limiter) Shared() bool { return l.shared != nil || l.lot != nil }

// SharedRate reports whether turns come in lots: an attempt without a turn then has to ask again, since nobody knows when the next
// lot comes.
func (l *Limiter) SharedRate() bool { return l.lot != nil }

// LeaveShared gives back what the process holds of a shared limit, in the background. The limiter then bounds this process only.
func (l *Limiter) LeaveShared() {
	if l.lot != nil {
		l.lot.Leave()
	}
	if l.shared != nil {
		l.shared.link.Leave()
	}
}

// want notes that an attempt found no place. The caller does not hold mu.
func (l *Limiter) want() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wantLocked()
}

// wantLocked is want for a caller that holds mu.
func (l *Limiter) wantLocked() {
	if s := l.shared; s != nil && !s.refused {
		s.refused = true
		s.link.Wake()
	}
}

// member is a limiter's part in the exchanges of places.
type member struct{ *Limiter }

// Due reports that the process follows the limit, of which it holds a share that others may need.
func (m member) Due() bool { return true }

// Change takes or gives back places. It takes them into use in Settle, and puts those that it gives back out of use at once.
func (m member) Change(now time.Time, data []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, id, at := m.shared, m.shared.link.ID(), now.UnixNano()
	var r placeState
	if data == nil || json.Unmarshal(data, &r) != nil || r.Holders == nil {
		r = placeState{Holders: map[string]holder{}}
	}
	before := maps.Clone(r.Holders)
	mine := r.Holders[id]
	maps.DeleteFunc(r.Holders, func(process string, h holder) bool { return process == id || h.Until <= at })
	longest := at + int64(placeLease) // further away only if the store's clock was put back
	mine.Until, mine.Since = min(mine.Until, longest), min(mine.Since, at)
	for process, h := range r.Holders {
		h.Until = min(h.Until, longest)
		r.Holders[process] = h
	}
	s.users = len(r.Holders) + 1
	fair := max(s.total/s.users, 1)
	others, ahead, lacking, starving, waiting := 0, 0, false, false, false
	for _, h := range r.Holders {
		others += h.Places
		lacking = lacking || h.Places < h.Wants
		starving = starving || h.Places < min(h.Wants, fair)
		if h.Places == 0 && h.Wants > 0 {
			waiting = true
			if h.Since < mine.Since || mine.Until == 0 {
				ahead++
			}
		}
	}
	wants := m.wants()
	s.granted = wants
	if !lacking && !s.leaving {
		s.granted = max(wants, (s.total-s.total/spare)/s.users, 1)
	}
	if starving {
		s.granted = min(s.granted, fair)
	}
	free := s.total - others
	if waiting && s.total < s.users { // they take turns
		switch {
		case mine.Places == 0:
			free -= ahead
		case at-mine.Since >= int64(placeTurn):
			free = 0
		}
	}
	s.granted = max(min(s.granted, free), 0)
	if s.granted < int(m.limit.Load()) {
		m.setLimit(s.granted)
	}
	held := max(s.granted, m.Inside()) // attempts that run on keep their places
	if held > 0 || !s.leaving {
		next := holder{Places: held, Wants: wants, Until: at + int64(placeLease), Since: min(mine.Since, at)}
		if mine.Until == 0 || (held > 0) != (mine.Places > 0) {
			next.Since = at
		}
		if next.Places == mine.Places && next.Wants == mine.Wants && mine.Until-at > int64(placeLease/2) {
			next.Until = mine.Until
		}
		r.Holders[id] = next
	}
	if maps.Equal(before, r.Holders) {
		return nil
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		panic("limit: encode shared places: " + err.Error()) // they are numbers and strings
	}
	return encoded
}

// wants returns how many places the process needs. The caller holds mu.
func (m member) wants() int {
	s, limit, used := m.shared, int(m.limit.Load()), m.Inside()+m.InLine()
	if s.leaving {
		return 0
	}
	wants := max(used, (limit+used)/2)
	if s.refused {
		wants = max(used+1, 2*limit)
	}
	if s.total >= 2*s.users { // enough for each process to keep one for its next attempt
		wants = max(wants, 1)
	}
	return min(wants, s.total)
}

// Settle takes the places into use that were granted. While the store is away, the process goes on with what it holds, and at least
// with an equal share.
func (m member) Settle(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared
	switch {
	case err == nil && s.leaving:
		m.setLimit(s.total)
	case err == nil:
		s.refused = false
		m.setLimit(s.granted)
	default:
		m.setLimit(max(int(m.limit.Load()), s.total/s.users, 1))
	}
}

// Leave makes the next exchange the last.
func (m member) Leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared.leaving = true
}
