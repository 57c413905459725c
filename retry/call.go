package retry

import (
	"context"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// A call reads from top to bottom in this file, whether it succeeds or fails and whether or not it is observed:
//
//	begin ─► ready ─► admit ─► the operation ─► judge, conclude ─► settle ─► end
//	                    ▲                                            │
//	                    └──────────────── wait ◄─── retry ───────────┘
//
// The other files hold what the stages use: admission.go the breaker and the budget, limit.go the limit, context.go the context of an
// attempt, wait.go the waits, end.go refusals, failures and panics, record.go records, and group.go hedges.

// do runs a call and writes its timeline into t, unless t is nil.
//
// The first attempt of a plain call runs before the call's run is set up. Most calls succeed at that attempt, and the run
// would add a third to their time; see docs/adr/0013-first-attempt-without-a-run.md. A failure is judged on the common path.
func do[T any, O operation[T]](ctx context.Context, options *callOptions, op O, t *observe.Timeline) (value T, err error) {
	p := options.plan
	var first *attemptCtx
	if p.plain && t == nil && options == &p.bare && ctx.Err() == nil && observe.CaptureOf(ctx) == nil {
		first = &attemptCtx{}
		first.parent, first.options, first.number = ctx, options, 1
		if value, err = plainAttempt(first, op); err == nil {
			return value, nil
		}
	}
	var fallback fallback[T]
	if options.fallback != nil {
		fallback = fallbackOf[T](options)
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
		value, action = fallBack(ctx, &r, fallback, value)
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
	defer func() {
		if !r.returned {
			r.unwind()
		}
	}()
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
			if r.judges(err) {
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

// admit admits an attempt and makes its context. If the attempt is denied, admit records that and returns the reason.
func (r *run) admit(l *launch, kind budget.AttemptKind) policy.Reason {
	r.launches++
	l.number = r.launches
	if r.plan.timed {
		l.began = r.e.elapsed()
	}
	if r.recorded() {
		l.started = r.rec.start(r.e, l.number)
	}
	if !r.plan.gated {
		l.grant.given, l.grant.reason = true, r.plan.budget.reason
	} else if reason := r.ask(l, kind); reason != "" {
		if r.recorded() {
			r.rec.denied(r, l, reason)
		}
		return reason
	}
	l.ctx = r.context(l)
	r.ran++
	return ""
}

// ask asks the breaker, the budget and the limit, in this order: only the limit may wait, so it comes last.
func (r *run) ask(l *launch, kind budget.AttemptKind) policy.Reason {
	reason := r.askFirst(l, kind)
	if reason != "" || r.plan.limiter == nil {
		return reason
	}
	if reason = r.enter(l, kind); reason != "" {
		r.free(l, circuit.Ignored)
	}
	return reason
}

// askFirst asks the breaker, then the budget.
func (r *run) askFirst(l *launch, kind budget.AttemptKind) policy.Reason {
	p := r.plan
	if p.breaker != nil {
		if reason := r.passBreaker(l, kind); reason != "" {
			r.dropGrant()
			return reason
		}
	}
	g := &p.budget
	if kind == budget.KindHedge {
		g = &p.hedge.budget
	}
	if kind == budget.KindRetry && r.retry > 0 && !g.atLaunch && r.once == nil {
		l.grant, r.nextGrant = r.nextGrant, grant{} // the budget was asked when the retry was decided
		return ""
	}
	if g.budget == nil && !g.refused {
		l.grant.given, l.grant.reason = true, g.reason
		return ""
	}
	l.grant = r.askBudget(g, kind, r.launches-1)
	if l.grant.given {
		return ""
	}
	r.free(l, circuit.Ignored)
	return l.grant.reason
}

// judges reports whether an attempt's result needs a judgement. A nil error is a success, unless a classifier may see it otherwise,
// which it may not for a step.
func (r *run) judges(err error) bool {
	return err != nil || r.plan.classifier != nil && r.options.step == ""
}

// judge classifies an attempt's result into j.
func (r *run) judge(l *launch, value any, err error, j *judgement) {
	f := &j.facts
	f.Failed = err != nil
	if r.plan.classifier != nil {
		o := r.classify(value, err)
		f.Classified = &o
	}
	if err != nil || f.Classified.Kind != classify.Success {
		f.Ended = r.endReason()
		f.TimedOut = r.plan.policy.Retry.TimeoutPerAttempt > 0 && l.ctx.timedOut()
	}
	if err != nil {
		r.examine(err, f)
	}
	j.outcome, j.rule = decision.Judge(&r.plan.policy.Retry, f)
	if r.panicReason != "" && j.outcome.Kind != classify.Success {
		*j = notJudged(r.panicReason)
	}
}

// examine finds the marks and classes of an error, for which matchers of classes and methods of the error may run.
func (r *run) examine(err error, f *decision.Facts) {
	if r.e.options.RecoverPanics {
		defer r.guard("classifier", policy.ReasonPanicInClassifier, nil)
	}
	f.Mark, f.Pushback = classify.MarkOf(err)
	if r.plan.byClass || r.recorded() {
		f.Classes = r.e.vocabulary.Load().families.Of(err)
	}
}

// classify asks the policy's classifier.
func (r *run) classify(value any, err error) (o classify.Outcome) {
	if r.e.options.RecoverPanics {
		defer r.guard("classifier", policy.ReasonPanicInClassifier, func() {
			o = classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonPanicInClassifier}
		})
	}
	return known(r.plan.classifier.Classify(value, err))
}

// conclude ends an attempt that was judged: it releases what the attempt held and records it.
func (r *run) conclude(l *launch, j *judgement, err error) {
	if r.plan.hedge.digest != nil && j.outcome.Kind == classify.Success {
		r.plan.hedge.digest.Add(r.e.elapsed() - l.began)
	}
	l.settled = true
	if l.watch != nil || l.hasTicket || l.place.limiter != nil || l.grant.release != nil {
		l.place.result = latencyOf(j.outcome)
		r.free(l, resultOf(j.outcome))
	}
	l.ctx.finish()
	if j.outcome.Kind != classify.Success {
		r.last = err
	}
	if r.recorded() {
		r.rec.ended(r, l, j, err)
	}
}

// settle decides what follows the outcome of an attempt or group. A retry that the breaker, the budget or the journal refuses
// becomes a stop before the wait.
func (r *run) settle(j *judgement, ended []int, deciding int) decision.Action {
	r.ended++
	r.outcome = j.outcome
	r.verdict = decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}
	watched := r.watched()
	if j.outcome.Kind == classify.Success && !watched {
		return decision.Done
	}
	b := basis{state: r.state(), group: ended, attempt: deciding}
	if j.outcome.Kind != classify.Success {
		r.verdict = r.next(&b.state, &j.outcome)
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
func (r *run) next(s *decision.State, o *classify.Outcome) decision.Verdict {
	if r.panicReason != "" {
		return stop(r.panicReason)
	}
	retry := &r.plan.policy.Retry
	if o.Kind == classify.NonRetryable {
		r.cause = nil // the end of the work, which another attempt of the group met, is not why it fails
	}
	if o.Kind == classify.Retryable {
		s.Left, s.LeftReason = r.left()
		if decision.Draws(retry.Jitter) {
			s.Seed = r.seedOf()
		}
		if r.once != nil && r.once.nextDelay != nil && s.MayRetry(retry) {
			s.External, s.Delay = true, r.once.nextDelay(r.ended)
		}
	}
	v := decision.Next(retry, s, o)
	if v.Action == decision.Retry && r.once == nil {
		v = r.permit(v)
	}
	if v.Action == decision.Stop && r.cause == nil {
		r.cause = causeOf(v.Reason)
	}
	return v
}

// permit asks the breaker and the budget to allow a retry, before the wait for it.
func (r *run) permit(v decision.Verdict) decision.Verdict {
	p := r.plan
	if !p.gated {
		return v
	}
	var state circuit.State
	if p.breaker != nil {
		var ok bool
		if state, ok = p.breaker.Look(r.e.elapsed()); !ok {
			r.refuse(policy.ReasonCircuitOpen, state, grant{})
			return stop(policy.ReasonCircuitOpen)
		}
	}
	if p.budget.atLaunch {
		return v
	}
	r.nextGrant = r.askBudget(&p.budget, budget.KindRetry, r.launches)
	if r.nextGrant.given {
		return v
	}
	r.refuse(r.nextGrant.reason, state, r.nextGrant)
	return stop(r.nextGrant.reason)
}
