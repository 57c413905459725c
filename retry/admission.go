package retry

import (
	"maps"
	"runtime/debug"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// grant is a budget's answer.
type grant struct {
	given   bool
	reason  policy.Reason
	own     policy.Reason // the budget's own reason, if it is not the reason in records
	detail  string
	release func()
}

// annotate adds to an attempt's outcome the budget's own reason and detail, the wait for the limit, and whether the attempt was
// admitted without the store of shared limits.
func (l *launch) annotate(o *classify.Outcome, away bool) {
	g := &l.grant
	if g.own == "" && g.detail == "" && l.place.waited == 0 && !away {
		return
	}
	attributes := maps.Clone(o.Attributes) // classifiers may share theirs
	if attributes == nil {
		attributes = make(map[string]string, 2)
	}
	if l.place.waited > 0 {
		attributes[observe.AttrLimitWait] = l.place.waited.String()
	}
	if away {
		attributes[observe.AttrLimitStore] = "away"
	}
	if g.own != "" {
		attributes[observe.AttrBudgetReason] = string(g.own)
	}
	addDetail(attributes, g.detail)
	o.Attributes = attributes
}

// addDetail adds a detail behind those that the attributes have.
func addDetail(attributes map[string]string, detail string) {
	switch before := attributes[observe.AttrDetail]; {
	case detail == "":
	case before == "":
		attributes[observe.AttrDetail] = detail
	default:
		attributes[observe.AttrDetail] = before + "; " + detail
	}
}

// passBreaker takes a ticket from the plan's breaker, or returns the reason why there is none. A closed breaker gives one without
// reading the clock.
func (r *run) passBreaker(l *launch, kind budget.AttemptKind) policy.Reason {
	b := r.plan.breaker
	if l.ticket, l.hasTicket = b.AcquireClosed(); l.hasTicket {
		return ""
	}
	if !r.plan.timed {
		l.began = r.e.elapsed()
	}
	var change circuit.Transition
	l.ticket, change, l.hasTicket = b.Acquire(l.began, kind == budget.KindHedge)
	if r.recorded() {
		l.circuit = b.State(l.began)
		r.rec.circuit(r, change)
	}
	switch {
	case l.hasTicket:
		return ""
	case kind == budget.KindHedge && l.circuit == circuit.HalfOpen:
		return policy.ReasonHalfOpen
	}
	return policy.ReasonCircuitOpen
}

// askBudget asks a budget to allow an attempt. index is the attempt's place in the launch order, from 0.
func (r *run) askBudget(g *gate, kind budget.AttemptKind, index int) (answer grant) {
	if g.budget == nil {
		return grant{given: !g.refused, reason: g.reason}
	}
	if r.e.options.RecoverPanics {
		defer r.guard("budget", policy.ReasonPanicInBudget, func() { answer = grant{reason: policy.ReasonPanicInBudget} })
	}
	d := g.budget.AllowAttempt(r.ctx, r.plan.key, index, kind, g.ref)
	answer = grant{given: d.Allowed, reason: policy.ReasonBudgetDenied, detail: d.Detail}
	if d.Allowed {
		answer.reason, answer.release = policy.ReasonAllowed, d.Release
	}
	if d.Reason != answer.reason {
		answer.own = d.Reason
	}
	return answer
}

// earn tells the hedges' own budget of the call.
func (r *run) earn() {
	if r.e.options.RecoverPanics {
		defer r.guard("budget", policy.ReasonPanicInBudget, nil)
	}
	r.plan.hedge.earner.Earn()
}

// guard is deferred around user code under RecoverPanics. It turns a panic into an abort of the call.
func (r *run) guard(part string, reason policy.Reason, then func()) {
	v := recover()
	if v == nil {
		return
	}
	r.panicReason = reason
	r.cause = &PanicError{Part: part, Value: v, Stack: debug.Stack()}
	if then != nil {
		then()
	}
}

// context makes the context of an admitted attempt.
func (r *run) context(l *launch) *attemptCtx {
	var c *attemptCtx
	if r.recorded() && r.root == nil {
		c = &r.rec.call.first
		c.recorded = true
	} else {
		c = &attemptCtx{}
	}
	c.parent, c.options, c.root, c.number, c.retry, c.hedge = r.ctx, r.options, r.root, int32(l.number), int32(r.retry), int16(l.hedge)
	if r.root == nil {
		r.root = c
	}
	if timeout := r.plan.policy.Retry.TimeoutPerAttempt; timeout > 0 && timeout < noTimeout {
		c.deadline = r.e.elapsed() + timeout
	}
	if r.deadline != 0 && (c.deadline == 0 || r.deadline < c.deadline) {
		c.deadline, c.overall = r.deadline, true
	}
	if r.recorded() && r.e.options.Observer != nil {
		c.parent = r.rec.begin(r, l, c.deadline)
	}
	return c
}

// free releases what an attempt holds, each part once.
func (r *run) free(l *launch, result circuit.Result) {
	if l.watch != nil {
		l.watch.Stop()
	}
	var took, now time.Duration
	if result != circuit.Ignored && (l.hasTicket || l.place.limiter != nil && l.place.limiter.Timed()) {
		now = r.e.elapsed()
		if l.began != 0 { // 0 if the plan is not timed, although the breaker may have become one of kind slow since
			took = now - l.began
		}
	}
	// The breaker learns of a failure before whoever waits for the place asks it again. Both changes are recorded in
	// this order, and after the release, because an observer may panic.
	var circuitChange circuit.Transition
	if l.hasTicket {
		l.hasTicket = false
		circuitChange = r.plan.breaker.Done(l.ticket, result, took, now)
	}
	if l.place.limiter != nil {
		change := l.place.leave(r.e, took, now)
		if r.recorded() {
			defer r.rec.limit(r, change)
		}
	}
	if r.recorded() {
		defer r.rec.circuit(r, circuitChange)
	}
	r.release(&l.grant)
}

// dropGrant releases the grant of a retry that is not launched.
func (r *run) dropGrant() { r.release(&r.nextGrant) }

// release releases a grant once.
func (r *run) release(g *grant) {
	release := g.release
	if release == nil {
		return
	}
	g.release = nil
	if r.e.options.RecoverPanics {
		defer r.guard("budget", policy.ReasonPanicInBudget, nil)
	}
	release()
}

// refuse records a retry that was denied when it was decided.
func (r *run) refuse(reason policy.Reason, state circuit.State, g grant) {
	r.launches++
	if !r.recorded() {
		return
	}
	l := launch{number: r.launches, grant: g, circuit: state, started: r.rec.now(r.e)}
	waited := r.backoff
	r.retry, r.backoff = r.retry+1, 0 // the call has not waited for it
	r.rec.denied(r, &l, reason)
	r.retry, r.backoff = r.retry-1, waited
}
