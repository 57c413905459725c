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
	p := e.planFor(ctx, key)
	_, _, err := do[struct{}](ctx, e, p, p.collect(options), op, false)
	return err
}

// DoValue is [Executor.Do] for an operation with a result. On failure it returns what the last attempt returned.
func DoValue[T any](ctx context.Context, e *Executor, key policy.Key, op OperationValue[T], options ...CallOption) (T, error) {
	p := e.planFor(ctx, key)
	value, _, err := do[T](ctx, e, p, p.collect(options), op, false)
	return value, err
}

// DoWithTimeline is [Executor.Do] with the call's timeline.
func (e *Executor) DoWithTimeline(ctx context.Context, key policy.Key, op Operation, options ...CallOption) (observe.Timeline, error) {
	p := e.planFor(ctx, key)
	_, rec, err := do[struct{}](ctx, e, p, p.collect(options), op, true)
	return rec.timeline, err
}

// DoValueWithTimeline is [DoValue] with the call's timeline.
func DoValueWithTimeline[T any](ctx context.Context, e *Executor, key policy.Key, op OperationValue[T], options ...CallOption) (T, observe.Timeline, error) {
	p := e.planFor(ctx, key)
	value, rec, err := do[T](ctx, e, p, p.collect(options), op, true)
	return value, rec.timeline, err
}

func do[T any, O operation[T]](ctx context.Context, e *Executor, p *plan, options *callOptions, op O, timeline bool) (T, *recorder, error) {
	r := run{e: e, ctx: ctx, plan: p, options: options}
	r.begin(timeline)
	var value T
	var action decision.Action
	var err error
	if r.options.guard == nil {
		value, action = loop(&r, op)
	} else {
		value, action, err = guarded(&r, op)
	}
	if action != decision.Done {
		err = r.fail(r.verdict.Reason)
	}
	if r.rec != nil {
		r.rec.finish(&r, r.verdict.Reason, err)
	}
	return value, r.rec, err
}

// loop is the whole of a call: attempts, and the waits between them. What was decided last is in r.verdict.
func loop[T any, O operation[T]](r *run, op O) (value T, action decision.Action) {
	if reason := r.ready(); reason != "" {
		return value, r.refused(reason)
	}
	for {
		if r.plan.trigger != nil {
			value, action = group(r, op, value)
		} else {
			value, action = attempt(r, op, value)
		}
		if action != decision.Retry {
			return value, action
		}
		if reason := r.wait(r.verdict.Delay); reason != "" {
			return value, r.refused(reason)
		}
		r.retry++
	}
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
