package retry

import (
	"context"
	"errors"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/policy"
)

// guarded runs a call under its guard: all its attempts are one effect. If the call succeeds but its record cannot be
// written, guarded returns the value and the error of the write.
func guarded[T any, O operation[T]](r *run, op O) (value T, action decision.Action, unrecorded error) {
	caller := r.ctx
	effect := idempotency.Effect[T]{Request: r.request()}
	if _, void := any(op).(Operation); !void {
		effect.Codec = idempotency.JSON[T]{}
	}
	decided := false
	defer func() {
		if !decided { // the guard's store or codec panicked
			r.close(policy.ReasonIdempotencyUnavailable)
		}
	}()
	o := idempotency.Once(caller, r.options.guard, effect, func(ctx context.Context) (T, error) {
		r.ctx = ctx
		value, action = loop(r, op, value, nil)
		return value, r.failure(action)
	})
	decided = true
	r.ctx = caller
	switch {
	case !o.Ran && o.Err != nil:
		r.cause = o.Err
		action = r.refused(refusalOf(o.Err))
	case !o.Ran:
		r.verdict = decision.Verdict{Action: decision.Done, Reason: policy.ReasonIdempotencyHit}
		value, action = o.Value, decision.Done
	case action == decision.Done:
		unrecorded = o.Unrecorded
	case o.Unrecorded != nil:
		r.cause = errors.Join(r.cause, o.Unrecorded)
	}
	return value, action, unrecorded
}

// request identifies the call to its guard.
func (r *run) request() idempotency.Request {
	o := r.options
	switch { // the events of the guard and of the call share an ID
	case r.recorded():
		o.id = r.rec.id
	case o.id == "":
		o.id = uuidv7.New(time.Now())
	}
	return idempotency.Request{
		Key: o.idempotencyKey, Tenant: o.tenantID, Operation: o.operation,
		Fingerprint: o.fingerprint, PolicyHash: r.plan.policy.Meta.Revision, Work: o.work(o.id),
	}
}

// failure returns the error with which the guard settles a call, nil for a success.
func (r *run) failure(action decision.Action) error {
	reason := r.verdict.Reason
	switch {
	case action == decision.Done:
		return nil
	case r.panicReason != "" && r.ran > 0: // user code panicked after the operation had run
		return idempotency.OutcomeUnknown(r.fail(reason))
	case r.outcome.Kind == classify.NonRetryable && r.last == nil: // a classifier refused the value
		return classify.Permanent(r.fail(reason))
	case r.outcome.Kind == classify.NonRetryable: // also if the journal has refused the decision
		return classify.Permanent(r.last)
	case r.last == nil: // no attempt failed
		return classify.After(r.fail(reason), 0)
	}
	return r.last
}

// refusalOf returns the reason of a guard that did not run the effect.
func refusalOf(err error) policy.Reason {
	if refused, ok := errors.AsType[*idempotency.RefusedError](err); ok {
		return refused.Reason
	}
	return policy.ReasonIdempotencyUnavailable // not reached in tests: idempotency.Once returns a RefusedError
}
