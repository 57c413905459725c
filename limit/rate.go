package limit

import (
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// rate is a rate limit by the generic cell rate algorithm. It counts in whole nanoseconds; the distance between turns is
// rounded up, so the rate is never exceeded.
type rate struct {
	limits atomic.Pointer[rateLimits] // nil without a rate limit
	next   atomic.Int64               // the even pace's time for the next turn
}

type rateLimits struct {
	apart time.Duration // between two turns
	ahead time.Duration // how far turns may run ahead of the even pace
}

// update changes the limits. Turns that were handed out stay, but the next one is no further away than after a full burst at the new
// pace: at the old one it may have been hours.
func (r *rate) update(p policy.Rate, now time.Duration) {
	if p.Count <= 0 {
		r.limits.Store(nil)
		return
	}
	apart := (p.Per + time.Duration(p.Count) - 1) / time.Duration(p.Count)
	limits := &rateLimits{apart: apart, ahead: apart * time.Duration(max(p.Burst, 1)-1)}
	old := r.limits.Swap(limits)
	if old == nil {
		r.next.Store(int64(now))
		return
	}
	if *old == *limits {
		return
	}
	latest := int64(now + limits.ahead + apart)
	for next := r.next.Load(); next > latest && !r.next.CompareAndSwap(next, latest); {
		next = r.next.Load()
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
	limits := l.rate.limits.Load()
	if limits == nil {
		return Turn{}, 0, true
	}
	for {
		next := l.rate.next.Load()
		wait = max(time.Duration(next)-limits.ahead-now, 0)
		if wait > longest {
			return Turn{}, wait, false
		}
		after := max(next, int64(now)) + int64(limits.apart)
		if l.rate.next.CompareAndSwap(next, after) {
			return Turn{after, int64(limits.apart)}, wait, true
		}
	}
}

// GiveBack returns a turn that will not be used. Only the last turn handed out can be used by another attempt; any other one
// is lost, since the turns after it are taken.
func (l *Limiter) GiveBack(t Turn) {
	if t.apart > 0 {
		l.rate.next.CompareAndSwap(t.next, t.next-t.apart)
	}
}

// Wait returns how long it takes until the rate has a turn, 0 if it has one now or there is no rate limit. Nothing is taken. For a
// shared rate it is an estimate.
func (l *Limiter) Wait(now time.Duration) time.Duration {
	if l.lot != nil {
		return lotWait
	}
	limits := l.rate.limits.Load()
	if limits == nil {
		return 0
	}
	return max(time.Duration(l.rate.next.Load())-limits.ahead-now, 0)
}
