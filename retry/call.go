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

// Do runs op under the policy of key until it succeeds or the policy says stop. Every failure is an [*Error].
//
// A context that is done before the first attempt means that op is not called. An unhedged attempt runs on the calling
// goroutine, and a panic of op reaches the caller as itself.
func (e *Executor) Do(ctx context.Context, key policy.Key, op Operation, options ...CallOption) error {
	need(op != nil, "the operation")
	p := e.planFor(ctx, key)
	_, err := do[struct{}](ctx, e, p, p.collect(options), op, nil)
	return err
}

// DoValue is [Executor.Do] for an operation with a result. On failure it returns what the last attempt returned.
func DoValue[T any](ctx context.Context, e *Executor, key policy.Key, op OperationValue[T], options ...CallOption) (T, error) {
	need(op != nil, "the operation")
	p := e.planFor(ctx, key)
	return do[T](ctx, e, p, p.collect(options), op, nil)
}

// DoWithTimeline is [Executor.Do] with the call's timeline.
func (e *Executor) DoWithTimeline(ctx context.Context, key policy.Key, op Operation, options ...CallOption) (t observe.Timeline, err error) {
	need(op != nil, "the operation")
	p := e.planFor(ctx, key)
	_, err = do[struct{}](ctx, e, p, p.collect(options), op, &t)
	return t, err
}

// DoValueWithTimeline is [DoValue] with the call's timeline.
func DoValueWithTimeline[T any](ctx context.Context, e *Executor, key policy.Key, op OperationValue[T], options ...CallOption) (value T, t observe.Timeline, err error) {
	need(op != nil, "the operation")
	p := e.planFor(ctx, key)
	value, err = do[T](ctx, e, p, p.collect(options), op, &t)
	return value, t, err
}

// need panics where an argument is missing.
func need(given bool, argument string) {
	if !given {
		panic("retry: " + argument + " is nil")
	}
}

// do runs a call, and writes its timeline into t, if that is not nil.
func do[T any, O operation[T]](ctx context.Context, e *Executor, p *plan, options *callOptions, op O, t *observe.Timeline) (T, error) {
	if p.light && options == &p.bare && ctx.Err() == nil && ctx.Value(observe.CaptureKey{}) == nil {
		return light(ctx, e, options, op, t)
	}
	r := run{e: e, ctx: ctx, plan: p, options: options}
	r.begin(t != nil)
	var value T
	var action decision.Action
	var err error
	if r.options.guard == nil {
		value, action = loop(&r, op)
	} else {
		value, action, err = guarded(&r, op)
	}
	return value, r.end(action, err, t)
}

// end makes the error of a call that did not succeed, and closes its record.
func (r *run) end(action decision.Action, err error, t *observe.Timeline) error {
	if action != decision.Done {
		err = r.fail(r.verdict.Reason)
	}
	if r.rec != nil {
		r.rec.finish(r, r.verdict.Reason, err)
	}
	if t != nil {
		*t = r.rec.timeline
	}
	return err
}

// light is a call whose attempts have nothing beside them. It sets out without a run, which only a failure needs.
func light[T any, O operation[T]](ctx context.Context, e *Executor, options *callOptions, op O, t *observe.Timeline) (T, error) {
	var c *attemptCtx
	if t == nil {
		c = &attemptCtx{}
	} else {
		o := &opening{}
		o.open(ctx, e, t, options)
		c, ctx = &o.first, o
	}
	c.parent, c.options, c.number = ctx, options, 1
	value, err := alone(c, op)
	if err == nil {
		if t != nil {
			e.alone(t, options.plan.budget.reason)
		}
		return value, nil
	}
	r := run{e: e, ctx: ctx, plan: options.plan, options: options, root: c, launches: 1, ran: 1, plain: t == nil}
	l := launch{ctx: c, number: 1}
	if t != nil {
		r.rec = &recorder{timeline: *t}
		l.started, l.grant.reason = t.Start, r.plan.budget.reason
	}
	value, action := repeat(&r, op, value, r.failed(&l, err))
	return value, r.end(action, nil, t)
}

// failed is the end of an attempt that set out without a run, and failed.
func (r *run) failed(l *launch, err error) decision.Action {
	defer r.unwind(l)
	var j judgement
	r.conclude(l, err, nil, &j)
	action := r.settle(&j, nil, l.number)
	l.over = true
	return action
}

// alone runs the operation once. A success is the end of the attempt; an error is not yet judged.
func alone[T any, O operation[T]](c *attemptCtx, op O) (value T, err error) {
	returned := false
	defer func() {
		if !returned { // it panicked or ended its goroutine
			c.close(canceled)
		}
	}()
	if value, err = op.do(c); err == nil {
		c.finish()
	}
	returned = true
	return value, err
}

// loop is the whole of a call: attempts, and the waits between them. What was decided last is in r.verdict.
func loop[T any, O operation[T]](r *run, op O) (value T, action decision.Action) {
	if reason := r.ready(); reason != "" {
		return value, r.refused(reason)
	}
	value, action = turn(r, op, value)
	return repeat(r, op, value, action)
}

// repeat goes on as long as retries are decided.
func repeat[T any, O operation[T]](r *run, op O, value T, action decision.Action) (T, decision.Action) {
	for action == decision.Retry {
		if reason := r.wait(r.verdict.Delay); reason != "" {
			return value, r.refused(reason)
		}
		r.retry++
		value, action = turn(r, op, value)
	}
	return value, action
}

// turn is an attempt, or a group of hedged ones.
func turn[T any, O operation[T]](r *run, op O, last T) (T, decision.Action) {
	if r.plan.trigger != nil && r.options.hedgeable() {
		return group(r, op, last)
	}
	return attempt(r, op, last)
}

// attempt runs the operation once, on the caller's goroutine. Where that is refused, the value is still that of the last
// attempt.
func attempt[T any, O operation[T]](r *run, op O, last T) (value T, action decision.Action) {
	var l launch
	defer r.unwind(&l)
	c, denied := r.admit(&l, budget.KindRetry)
	if denied != "" {
		action = r.refused(denied)
		l.over = true
		return last, action
	}
	l.ctx = c
	value, err := op.do(c)
	if err == nil && r.plain {
		r.succeed(&l)
		l.over = true
		return value, decision.Done
	}
	var classified *classify.Outcome
	if r.plan.classifier != nil {
		o := r.classify(op.box(value), err)
		classified = &o
	}
	var j judgement
	r.conclude(&l, err, classified, &j)
	action = r.settle(&j, nil, l.number)
	l.over = true
	return value, action
}

// succeed is what conclude and settle come to for a success that nobody classifies, records or counts further: nothing is
// asked and nothing is told.
func (r *run) succeed(l *launch) {
	l.settled = true
	if l.ticked || l.grant.release != nil {
		r.free(l, circuit.Success)
	}
	l.ctx.finish()
	r.ended++
}

// refused stops a call whose next attempt is not made.
func (r *run) refused(reason policy.Reason) decision.Action {
	r.verdict = stop(reason)
	if r.cause == nil {
		r.cause = causeOf(reason)
	}
	j := notJudged(reason)
	if r.once != nil {
		r.once.outcome = j.outcome
	}
	if r.rec != nil {
		s := decision.State{Surface: r.plan.surface, Attempt: r.ended, MaxAttempts: r.options.limit, Left: decision.Unbounded}
		r.verdict = r.rec.decided(r, &j, s, r.verdict, nil, r.launches)
	}
	return r.verdict.Action
}

// unwind cleans up when an operation or user code panics, or ends its goroutine.
func (r *run) unwind(l *launch) {
	switch {
	case l.over:
		return
	case l.ctx == nil:
		r.free(l, circuit.Ignored)
	case !l.settled:
		r.abort(l)
	}
	r.finishPanicked()
}

// abort gives back what an attempt holds that did not return.
func (r *run) abort(l *launch) {
	l.settled = true
	r.free(l, circuit.Failure)
	l.ctx.close(canceled)
	if r.rec != nil {
		j := notJudged(policy.ReasonPanicInOperation)
		r.rec.ended(r, l, &j, nil)
	}
}

// finishPanicked gives back what was granted to the next retry of a call that does not return, and closes its record.
func (r *run) finishPanicked() {
	r.dropGrant()
	if r.rec != nil {
		r.rec.finish(r, policy.ReasonPanicInOperation, r.fail(policy.ReasonPanicInOperation))
	}
}
