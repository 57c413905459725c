package retry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/policy"
)

// guarded runs a call under its guard. A call that succeeded, but whose record could not be written, returns its value
// and the error of the record.
func guarded[T any, O operation[T]](r *run, op O) (value T, action decision.Action, record error) {
	ticket, err := r.claim()
	if err != nil {
		r.cause = err
		return value, r.refused(reasonOf(err)), nil
	}
	_, void := any(op).(Operation) // it has no result
	if ticket.Replayed() {
		return replayed[T](r, ticket, void)
	}
	settled := false
	defer func() {
		if !settled { // the operation panicked or ended its goroutine: nobody knows what it did
			ticket.Abandon()
		}
	}()
	caller := r.ctx
	r.ctx = ticket.Context()
	value, action = loop(r, op, value, nil)
	settled = true
	ctx := context.WithoutCancel(caller)
	switch {
	case action == decision.Done:
		record = complete(ctx, ticket, op.box(value), void)
	case r.verdict.Reason == policy.ReasonNonRetryable:
		cause := r.last
		if cause == nil { // a classifier refused the value
			cause = r.fail(r.verdict.Reason)
		}
		err = ticket.Fail(ctx, cause)
	default:
		err = ticket.Release(ctx, r.last)
	}
	if err != nil {
		r.cause = errors.Join(r.cause, err)
	}
	return value, action, record
}

// claim asks the guard for the call's key.
func (r *run) claim() (*idempotency.Ticket, error) {
	o, p := r.options, r.plan
	switch { // the guard's events and the call's have one ID
	case r.rec != nil:
		o.id = r.rec.id
	case o.id == "":
		o.id = uuidv7.New(time.Now())
	}
	return o.guard.Begin(r.ctx, idempotency.Request{
		ID:          idempotency.ID{Tenant: o.tenantID, Operation: o.operation, Key: o.idempotencyKey},
		Fingerprint: o.fingerprint, PolicyHash: p.policy.Meta.Revision, Work: o.work(o.id),
	})
}

// replayed returns the stored result of a call that has succeeded before. Where one is needed and was not kept, the call
// fails: the zero value is not what the effect returned.
func replayed[T any](r *run, ticket *idempotency.Ticket, void bool) (value T, action decision.Action, record error) {
	result, present := ticket.Result()
	if !present && !void {
		missing := idempotency.Failure{Type: idempotency.FailureNoResult, Message: "it was completed without a result"}
		r.cause = classify.Permanent(&idempotency.ResultError{ID: ticket.Record().ID, Failure: missing})
		return value, r.refused(reasonOf(r.cause)), nil
	}
	r.verdict = decision.Verdict{Action: decision.Done, Reason: policy.ReasonIdempotencyHit}
	if void {
		return value, decision.Done, nil
	}
	if err := json.Unmarshal(result, &value); err != nil {
		err = fmt.Errorf("the stored result is no %T: %w", value, err)
		return value, decision.Done, &idempotency.RecordError{ID: ticket.Record().ID, Err: err}
	}
	return value, decision.Done, nil
}

// complete records a success.
func complete(ctx context.Context, ticket *idempotency.Ticket, value any, void bool) error {
	if void {
		return ticket.Complete(ctx, nil, false)
	}
	result, err := json.Marshal(value)
	if err != nil { // the effect has happened all the same
		return errors.Join(
			&idempotency.RecordError{ID: ticket.Record().ID, Err: fmt.Errorf("the result is not kept: %w", err)},
			ticket.Complete(ctx, nil, false),
		)
	}
	return ticket.Complete(ctx, result, true)
}

// reasonOf says why a guard let nothing run.
func reasonOf(err error) policy.Reason {
	var (
		failed *idempotency.FailureError
		kept   *idempotency.ResultError
		bad    *idempotency.KeyError
	)
	switch {
	case errors.Is(err, idempotency.ErrInFlight):
		return policy.ReasonIdempotencyInFlight
	case errors.Is(err, idempotency.ErrMismatch):
		return policy.ReasonIdempotencyMismatch
	case errors.Is(err, idempotency.ErrUnknown):
		return policy.ReasonOutcomeUnknown
	case errors.As(err, &failed), errors.As(err, &kept):
		return policy.ReasonIdempotencyFailed
	case errors.As(err, &bad):
		return policy.ReasonIdempotencyBadKey
	case errors.Is(err, context.Canceled):
		return policy.ReasonCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return policy.ReasonDeadlineExceeded
	}
	return policy.ReasonIdempotencyUnavailable
}
