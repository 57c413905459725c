package retry

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// endReason returns why the work must stop, or "" while the caller's context and the overall timeout allow it to continue.
func (r *run) endReason() policy.Reason {
	if err := r.ctx.Err(); err != nil {
		r.cause = context.Cause(r.ctx)
		if err == context.DeadlineExceeded {
			return policy.ReasonDeadlineExceeded
		}
		return policy.ReasonCanceled
	}
	if r.deadline != 0 && r.e.elapsed() >= r.deadline {
		r.cause = ErrOverallTimeout
		return policy.ReasonOverallTimeout
	}
	return ""
}

// stop returns the verdict of work that ends for a reason from outside the operation.
func stop(reason policy.Reason) decision.Verdict {
	return decision.Verdict{Action: decision.Stop, Reason: reason}
}

// refused stops a call whose next attempt is refused.
func (r *run) refused(reason policy.Reason) decision.Action {
	r.verdict = stop(reason)
	if r.cause == nil {
		r.cause = causeOf(reason)
	}
	j := notJudged(reason)
	if r.once != nil {
		r.outcome = j.outcome
	}
	if r.watched() {
		r.rec.decided(r, &j, &basis{state: r.state(), attempt: r.launches})
	}
	return r.verdict.Action
}

// fail makes the error of a call that did not succeed.
func (r *run) fail(reason policy.Reason) error {
	p, attempts, outcome := r.plan, r.ran, r.outcome
	if outcome.Kind == classify.Success { // no attempt was judged
		outcome = notJudged(reason).outcome
	}
	if r.once != nil {
		attempts += r.once.before
	}
	var wait time.Duration
	switch reason {
	case policy.ReasonCircuitOpen, policy.ReasonBudgetDenied, policy.ReasonConcurrencyLimited, policy.ReasonRateLimited:
		wait = r.refusedFor()
	}
	return &Error{
		RetryAfter: wait,
		Key:        p.key, Category: p.policy.Category.Code(), Operation: r.options.operation, PolicyID: p.policy.ID,
		Attempts: attempts, Reason: reason, Outcome: outcome, Last: r.last, Cause: r.cause,
	}
}

// causeOf returns the cause of an error whose reason does not come from the operation.
func causeOf(reason policy.Reason) error {
	switch reason {
	case policy.ReasonOverallTimeout:
		return ErrOverallTimeout
	case policy.ReasonDeadlineExceeded:
		return context.DeadlineExceeded
	case policy.ReasonCircuitOpen:
		return ErrCircuitOpen
	case policy.ReasonConcurrencyLimited, policy.ReasonRateLimited:
		return ErrLimited
	case policy.ReasonBudgetDenied, policy.ReasonBudgetNotFound:
		return ErrBudgetDenied
	}
	return nil
}

// unwind cleans up after an operation or user code that panicked or ended its goroutine.
func (r *run) unwind() {
	switch l := &r.launch; {
	case l.ctx == nil:
		r.free(l, circuit.Ignored)
	case !l.settled:
		r.abort(l)
	}
	r.dropGrant()
	r.close(policy.ReasonPanicInOperation)
}

// close closes the record of a call that panicked; only the first call counts.
func (r *run) close(reason policy.Reason) {
	if r.recorded() && !r.rec.closed {
		r.rec.closed = true
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
