package retry

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// This file shows the path of a call from top to bottom:
//
//	begin ─► ready ─► admit ─► the operation ─► judge, conclude ─► settle ─► end
//	                    ▲                                            │
//	                    └──────────────── wait ◄─── retry ───────────┘
//
// The longer stages have their own files: admission.go asks the breaker and the budget, limit.go the limit, judge.go classifies a result,
// record.go records everything, and group.go runs an attempt with hedges.

// do runs a call and writes its timeline into t, unless t is nil.
//
// The first attempt of a plain call runs before the call's run is set up. Most calls succeed at that attempt, and the run
// would add a third to their time; see docs/adr/0013-first-attempt-without-a-run.md. A failure is judged on the common path.
func do[T any, O operation[T]](ctx context.Context, options *callOptions, op O, t *observe.Timeline) (value T, err error) {
	p := options.plan
	fallback := fallbackOf[T](options)
	var first *attemptCtx
	if p.plain && t == nil && options == &p.bare && ctx.Err() == nil && ctx.Value(observe.CaptureKey{}) == nil {
		first = &attemptCtx{}
		first.parent, first.options, first.number = ctx, options, 1
		if value, err = plainAttempt(first, op); err == nil {
			return value, nil
		}
	}
	var r run // not a literal, which would be built elsewhere and copied
	r.e, r.ctx, r.plan, r.options = p.executor, ctx, p, options
	r.begin(t != nil)
	if first != nil {
		r.root, r.launch.ctx, r.launch.number, r.launches, r.ran = first, first, 1, 1, 1
	}
	var action decision.Action
	if options.guard == nil {
		value, action = loop(&r, op, value, err)
		err = nil
	} else {
		value, action, err = guarded(&r, op)
	}
	if action != decision.Done && fallback != nil {
		value, action = fallBack(&r, fallback, value)
	}
	if action != decision.Done {
		err = r.fail(r.verdict.Reason)
	}
	if r.recorded() {
		failure := err
		if r.fellBack != "" {
			failure = r.fail(r.verdict.Reason)
		}
		r.rec.finish(&r, r.verdict.Reason, failure, t)
	}
	return value, err
}

// plainAttempt runs the first attempt of a plain call. It does not judge an error.
func plainAttempt[T any, O operation[T]](c *attemptCtx, op O) (value T, err error) {
	returned := false
	defer func() {
		if !returned { // op panicked or ended its goroutine
			c.close(canceled)
		}
	}()
	if value, err = op.do(c); err == nil {
		c.finish()
	}
	returned = true
	return value, err
}

// begin prepares a call: it applies the options that change the policy and sets up the deadline and the recorder.
func (r *run) begin(timeline bool) {
	o := r.options
	if o.edit != nil || o.category != "" && r.plan.policy.Category == "" {
		r.plan = r.e.edited(r.plan, o)
		o.plan = r.plan
	}
	r.seed = o.seed
	if overall := r.plan.policy.Retry.OverallTimeout; overall > 0 && overall < noTimeout {
		r.deadline = r.e.elapsed() + overall
		if r.once != nil {
			r.deadline -= r.once.age
		}
	}
	r.record(timeline)
}

// loop makes attempts until one decides the call, and waits between them. An attempt runs on the caller's goroutine, a hedged
// group on its own goroutines. r.verdict holds the last decision. If an attempt is refused, loop returns the value of the
// attempt before it. If the first attempt has run already, value and err are its results.
func loop[T any, O operation[T]](r *run, op O, value T, err error) (_ T, action decision.Action) {
	defer r.unwind()
	l := &r.launch
	refusal := policy.Reason("")
	if l.ctx == nil {
		refusal = r.ready()
	}
	for refusal == "" {
		if r.hedged() {
			value, action = group(r, op, value)
		} else {
			if l.ctx == nil {
				if refusal = r.admit(l, budget.KindRetry); refusal != "" {
					break
				}
				value, err = op.do(l.ctx)
			}
			j := &succeeded // the usual case
			if err != nil || r.plan.classifier != nil {
				j = &judgement{}
				r.judge(l, op.box(value), err, j)
			}
			r.conclude(l, j, err)
			action = r.settle(j, nil, l.number)
		}
		if action != decision.Retry || r.once != nil {
			r.returned = true
			return value, action
		}
		refusal = r.wait(r.verdict.Delay)
		r.retry++
		*l = launch{}
	}
	action = r.refused(refusal)
	r.returned = true
	return value, action
}

// ready returns "" if the first attempt may be made, else the reason against it.
func (r *run) ready() policy.Reason {
	if r.plan.refusal.reason != "" {
		r.cause = r.plan.refusal.cause
		return r.plan.refusal.reason
	}
	return r.endReason()
}

// settle decides what follows the outcome of an attempt or group. A retry that the breaker, the budget or the journal refuses
// becomes a stop before the wait.
func (r *run) settle(j *judgement, ended []int, deciding int) decision.Action {
	r.ended++
	if r.once != nil {
		r.once.outcome = j.outcome
	}
	r.verdict = decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}
	watched := r.watched()
	if j.outcome.Kind == classify.Success && !watched {
		return decision.Done
	}
	b := basis{state: r.state(), group: ended, attempt: deciding}
	if j.outcome.Kind != classify.Success {
		r.verdict = r.next(&b.state, j.outcome)
	}
	if watched {
		r.rec.decided(r, j, &b)
	}
	return r.verdict.Action
}

// state returns the state for a decision. Only decisions about retries need more of it.
func (r *run) state() decision.State {
	return decision.State{Surface: r.plan.surface, Attempt: r.ended, MaxAttempts: r.options.limit, Left: decision.Unbounded}
}

// next decides what follows an outcome other than success, and completes the state that the decision was made from.
func (r *run) next(s *decision.State, o classify.Outcome) decision.Verdict {
	if r.panicReason != "" {
		return stop(r.panicReason)
	}
	retry := &r.plan.policy.Retry
	if o.Kind == classify.Retryable {
		s.Left, s.LeftReason = r.left()
		if decision.Draws(retry.Jitter) {
			s.Seed = r.seedOf()
		}
		if r.once != nil && r.once.nextDelay != nil && s.MayRetry(retry) {
			s.External, s.Delay = true, r.once.nextDelay(r.ended)
		}
	}
	v := decision.Next(retry, *s, o)
	if v.Action == decision.Retry && r.once == nil {
		v = r.permit(v)
	}
	if v.Action == decision.Stop && r.cause == nil {
		r.cause = causeOf(v.Reason)
	}
	return v
}

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

// refused stops a call whose next attempt is refused.
func (r *run) refused(reason policy.Reason) decision.Action {
	r.verdict = stop(reason)
	if r.cause == nil {
		r.cause = causeOf(reason)
	}
	j := notJudged(reason)
	if r.once != nil {
		r.once.outcome = j.outcome
	}
	if r.watched() {
		r.rec.decided(r, &j, &basis{state: r.state(), attempt: r.launches})
	}
	return r.verdict.Action
}

// unwind cleans up after an operation or user code that panicked or ended its goroutine.
func (r *run) unwind() {
	if r.returned {
		return
	}
	switch l := &r.launch; {
	case l.ctx == nil:
		r.free(l, circuit.Ignored)
	case !l.settled:
		r.abort(l)
	}
	r.dropGrant()
	r.close(policy.ReasonPanicInOperation)
}

// close closes the record of a call that panicked.
func (r *run) close(reason policy.Reason) {
	if r.recorded() {
		r.rec.finish(r, reason, r.fail(reason), nil)
	}
}

// abort ends an attempt that did not return, and releases what it held.
func (r *run) abort(l *launch) {
	l.settled = true
	r.free(l, circuit.Failure)
	l.ctx.close(canceled)
	if r.recorded() {
		j := notJudged(policy.ReasonPanicInOperation)
		r.rec.ended(r, l, &j, nil)
	}
}
