package limit

import (
	"time"

	"github.com/tenetdev/tenet/policy"
)

// rate is a rate limit by the generic cell rate algorithm. It counts in whole nanoseconds; the distance between turns is
// rounded up, so the rate is never exceeded.
type rate struct {
	apart time.Duration // between two turns
	ahead time.Duration // how far turns may run ahead of the even pace
}

// setRate changes the rate. Turns that were handed out stay, but the next one is no further away than after a full burst at the new
// pace: at the old one it may have been hours.
func (l *Limiter) setRate(p policy.Rate, now time.Duration) {
	if p.Count <= 0 {
		l.rate.Store(nil)
		return
	}
	apart := (p.Per + time.Duration(p.Count) - 1) / time.Duration(p.Count)
	r := &rate{apart: apart, ahead: apart * time.Duration(max(p.Burst, 1)-1)}
	old := l.rate.Swap(r)
	if old == nil {
		l.turn.Store(int64(now))
		return
	}
	if *old == *r {
		return
	}
	latest := int64(now + r.ahead + apart)
	for next := l.turn.Load(); next > latest && !l.turn.CompareAndSwap(next, latest); {
		next = l.turn.Load()
	}
}

// Turn is an attempt's turn under the rate limit. The zero Turn is that of a limiter without one.
type Turn struct{ next, apart int64 }

// lotWait is how long an attempt waits before it asks again for a turn of a shared rate.
const lotWait = 20 * time.Millisecond

// Turn takes the next turn, unless it is further away than longest; it then takes nothing. wait is the time until the turn, or under
// a shared rate the time until it is worth asking again.
func (l *Limiter) Turn(now, longest time.Duration) (t Turn, wait time.Duration, ok bool) {
	if l.lot != nil {
		if !l.lot.Spend(1) {
			return Turn{}, lotWait, false
		}
		return Turn{}, 0, true
	}
	r := l.rate.Load()
	if r == nil {
		return Turn{}, 0, true
	}
	for {
		next := l.turn.Load()
		wait = max(time.Duration(next)-r.ahead-now, 0)
		if wait > longest {
			return Turn{}, wait, false
		}
		after := max(next, int64(now)) + int64(r.apart)
		if l.turn.CompareAndSwap(next, after) {
			return Turn{after, int64(r.apart)}, wait, true
		}
	}
}

// GiveBack returns a turn that will not be used. Only the last turn handed out can be used by another attempt; any other one
// is lost, since the turns after it are taken.
func (l *Limiter) GiveBack(t Turn) {
	if t.apart > 0 {
		l.turn.CompareAndSwap(t.next, t.next-t.apart)
	}
}

// Wait returns how long it takes until the rate has a turn, 0 if it has one now or there is no rate limit. Nothing is taken. For a
// shared rate it is an estimate.
func (l *Limiter) Wait(now time.Duration) time.Duration {
	if l.lot != nil {
		return lotWait
	}
	r := l.rate.Load()
	if r == nil {
		return 0
	}
	return max(time.Duration(l.turn.Load())-r.ahead-now, 0)
}
