package retry

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/policy"
)

// minTimerWait is the shortest wait for which a timer is set; setting a timer takes longer than any shorter wait.
const minTimerWait = time.Microsecond

// wait waits before the next attempt. It returns the reason why that attempt will not be made, or "".
func (r *run) wait(d time.Duration) policy.Reason {
	r.backoff = d
	switch {
	case r.e.options.Wait != nil:
		if r.substitute(d) != nil && r.ctx.Err() == nil {
			r.dropGrant()
			r.cause = context.Canceled
			return policy.ReasonCanceled
		}
	case d >= minTimerWait:
		r.await(nil, d, nil)
	}
	reason := r.panicReason
	if reason == "" {
		reason = r.endReason()
	}
	if reason != "" {
		r.dropGrant()
	}
	return reason
}

// await waits for d, until ready is closed or the caller's context ends. A world is woken with the key at.
func (r *run) await(ready <-chan struct{}, d time.Duration, at any) {
	if w := r.e.options.World; w != nil {
		awaitIn(w, ready, d, at)
		return
	}
	if r.timer == nil {
		r.timer = time.NewTimer(d)
	} else {
		r.timer.Reset(d)
	}
	select {
	case <-r.timer.C:
		return
	case <-ready:
	case <-r.ctx.Done():
	}
	r.timer.Stop()
}

// awaitIn waits in a world.
func awaitIn(w virtual.World, ready <-chan struct{}, d time.Duration, at any) {
	if ready == nil {
		w.Await(d, nil, nil)
		return
	}
	w.Await(d, at, func() bool {
		select {
		case <-ready:
			return true
		default:
			return false
		}
	})
}

// substitute calls the Wait that replaces the timer.
func (r *run) substitute(d time.Duration) error {
	if r.e.options.RecoverPanics {
		defer r.guard("wait", policy.ReasonPanicInWait, nil)
	}
	return r.e.options.Wait(r.ctx, d)
}
