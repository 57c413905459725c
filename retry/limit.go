package retry

import (
	"cmp"
	"context"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/policy"
)

// place is what an attempt holds of its key's limit.
type place struct {
	limiter *limit.Limiter // nil without a place
	result  limit.Result
	waited  time.Duration // for the place and for the rate
}

// leave gives the place back, once.
func (p *place) leave(e *Executor, took, now time.Duration) (change limit.Change) {
	if m := p.limiter; m != nil {
		p.limiter = nil
		change = m.Leave(p.result, took, now)
		e.wake(m)
	}
	return change
}

// wake resumes what waits for key in a world.
func (e *Executor) wake(key any) {
	if e.options.World != nil {
		e.options.World.Wake(key)
	}
}

// latencyOf returns what an outcome means to an adaptive limit. Failures other than timeouts are often faster than a success
// and say nothing about load.
func latencyOf(o classify.Outcome) limit.Result {
	switch {
	case o.Kind == classify.Success:
		return limit.Measured
	case o.Kind != classify.Abort && o.Category == classify.CategoryTimeout:
		return limit.TimedOut
	}
	return limit.Ignored
}

// setLimiter gives the plan the key's limiter, and updates the limiter to a changed policy. A policy that one call has edited
// can only switch the limit off.
func (e *Executor) setLimiter(p *plan, shared bool) {
	if !p.policy.Limit.Active() {
		return
	}
	if shared {
		e.updateLimiter(p.state, p.policy.Limit)
	}
	p.limiter = p.state.limiter
}

// enter takes a place under the plan's limit, then a turn in its rate, and waits for both where the policy allows it. The
// caller frees what a refused attempt holds.
func (r *run) enter(l *launch, kind budget.AttemptKind) policy.Reason {
	m := r.plan.limiter
	if m.TryEnter() {
		l.place.limiter = m
		if !m.Rated() {
			return r.passAgain(l, kind)
		}
	}
	began := r.e.elapsed()
	longest, end := r.mayWait(kind)
	var reason policy.Reason
	if l.place.limiter == nil {
		reason = r.queue(l, longest, end)
	}
	if reason == "" && m.Rated() {
		reason = r.awaitTurn(l, began+longest)
	}
	if l.place.waited > 0 {
		l.began = r.e.elapsed()
		l.place.waited = l.began - began
		if r.recorded() {
			l.started = r.rec.now(r.e)
		}
	}
	if reason != "" {
		return reason
	}
	return r.passAgain(l, kind)
}

// mayWait returns how long an attempt may wait for the limit, and the reason with which it ends after that. Hedges do not wait, because they would come too late. Stored work
// does not wait either: its store waits for it.
func (r *run) mayWait(kind budget.AttemptKind) (longest time.Duration, end policy.Reason) {
	longest = r.plan.policy.Limit.MaxWait
	if longest <= 0 || kind == budget.KindHedge || r.once != nil {
		return 0, policy.ReasonConcurrencyLimited
	}
	if left, reason := r.left(); left < longest {
		return left, reason
	}
	return longest, policy.ReasonConcurrencyLimited
}

// queue waits in line for a place. end is the reason if that takes longer than longest.
func (r *run) queue(l *launch, longest time.Duration, end policy.Reason) policy.Reason {
	m := r.plan.limiter
	if longest < minTimerWait {
		return end
	}
	w := m.Queue()
	if w == nil {
		l.place.limiter = m
		return ""
	}
	l.place.waited = 1 // enter measures it
	r.await(w.Ready(), longest, m)
	if w.Cancel() {
		return cmp.Or(r.endReason(), end)
	}
	l.place.limiter = m
	return r.endReason()
}

// awaitTurn waits for a turn in the rate, which must come before the time until.
func (r *run) awaitTurn(l *launch, until time.Duration) policy.Reason {
	m, now := r.plan.limiter, r.e.elapsed()
	turn, wait, ok := m.Turn(now, max(until-now, 0))
	for !ok && m.SharedRate() && until-now >= minTimerWait {
		l.place.waited = 1 // enter measures it
		r.await(nil, min(wait, until-now), nil)
		if reason := r.endReason(); reason != "" {
			return reason
		}
		now = r.e.elapsed()
		turn, wait, ok = m.Turn(now, max(until-now, 0))
	}
	switch {
	case !ok:
		return cmp.Or(r.endReason(), policy.ReasonRateLimited)
	case wait == 0:
		return ""
	}
	l.place.waited = 1 // enter measures it
	reason := policy.Reason("")
	if r.e.options.Wait == nil {
		r.await(nil, wait, nil)
	} else if r.substitute(wait) != nil && r.ctx.Err() == nil {
		r.cause, reason = context.Canceled, policy.ReasonCanceled
	}
	reason = cmp.Or(r.panicReason, reason, r.endReason())
	if reason != "" {
		m.GiveBack(turn)
	}
	return reason
}

// passAgain asks the breaker again: it may have opened since, during a wait or because of the attempt that gave the place back.
// A probe keeps its slot.
func (r *run) passAgain(l *launch, kind budget.AttemptKind) policy.Reason {
	if !l.hasTicket || l.ticket.Probe() {
		return ""
	}
	return r.passBreaker(l, kind)
}
