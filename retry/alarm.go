package retry

import (
	"cmp"
	"time"
)

// alarms are the times that the coordinator of a hedged group waits for, besides results. In a world they have no timers.
type alarms struct {
	hedge, end *time.Timer
	hedgeAt    time.Duration // in a world; 0 while no hedge is to come
}

func (a *alarms) setHedge(r *run, wait time.Duration) {
	switch {
	case r.e.options.World != nil:
		a.hedgeAt = r.e.elapsed() + wait
	case a.hedge == nil:
		a.hedge = time.NewTimer(wait)
	default:
		a.hedge.Reset(wait)
	}
}

// setEnd sets the end of the call, if it has an overall timeout.
func (a *alarms) setEnd(r *run) {
	if r.deadline != 0 && r.e.options.World == nil {
		a.end = time.NewTimer(r.deadline - r.e.elapsed())
	}
}

func (a *alarms) stop() {
	if a.hedge != nil {
		a.hedge.Stop()
	}
	if a.end != nil {
		a.end.Stop()
	}
}

// ring returns the channel of a timer, or nil.
func ring(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

// awaitNext waits for a result or an alarm. It returns the result; or whether a hedge is due; or neither, if the call must end.
func awaitNext[T any](r *run, a *alarms, results chan *racer[T]) (result *racer[T], due bool) {
	if r.e.options.World != nil {
		return awaitNextIn(r, a, results)
	}
	select {
	case result = <-results:
		return result, false
	case <-ring(a.hedge):
		return nil, true
	case <-r.ctx.Done():
	case <-ring(a.end):
	}
	return nil, false
}

// awaitNextIn is awaitNext in a world.
func awaitNextIn[T any](r *run, a *alarms, results chan *racer[T]) (result *racer[T], due bool) {
	w, next := r.e.options.World, cmp.Or(a.hedgeAt, noTimeout)
	if r.deadline != 0 && r.deadline < next {
		next = r.deadline
	}
	w.Await(next-w.Now(), (chan<- *racer[T])(results), func() bool { return len(results) > 0 })
	if len(results) > 0 {
		return <-results, false
	}
	if due = next == a.hedgeAt; due {
		a.hedgeAt = 0
	}
	return nil, due
}
