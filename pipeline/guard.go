package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// guarded runs the transaction under the engine's guard, if there is one. If the guard cannot record how the transaction
// ended, the outcome still counts and the delivery is acknowledged.
func (w *worker) guarded(ctx context.Context) (e end) {
	guard := w.r.guard
	if guard == nil {
		return w.transact(ctx)
	}
	w.runOnce = !guard.ReplaySafe()
	o := idempotency.Once(ctx, guard, idempotency.Effect[struct{}]{Request: w.request()}, func(ctx context.Context) (struct{}, error) {
		e = w.transact(ctx)
		return struct{}{}, w.effectError(e)
	})
	w.runOnce = false
	switch {
	case !o.Ran && o.Err != nil:
		return w.unclaimed(ctx, o.Err)
	case !o.Ran:
		return end{outcome: Success}
	case o.Unrecorded != nil:
		w.r.log.Warn("pipeline: the guard could not record how a transaction ended",
			w.r.about(ctx, w.t, observe.LogOutcome, string(e.outcome), observe.LogError, o.Unrecorded)...)
	}
	return e
}

func (w *worker) request() idempotency.Request {
	sum := sha256.Sum256(w.t.payload)
	work := w.r.workOf(w.t)
	return idempotency.Request{
		Key: w.t.id, Tenant: work.TenantID, Operation: string(w.r.kind) + "/" + w.r.name,
		Fingerprint: hex.EncodeToString(sum[:]), Work: work,
	}
}

// effectError returns the error by which the guard settles a transaction.
func (w *worker) effectError(e end) error {
	switch {
	case e.outcome == Success:
		return nil
	case e.outcome == Exception: // the exception step has handled it
		return classify.Permanent(e.err)
	case e.failure != nil: // interrupted
		return classify.After(e.failure, 0)
	case e.outcome == Redelivered, w.cause != nil: // not finished, or the exception step still has to handle it
		return classify.After(e.err, 0)
	}
	if failed, ok := errors.AsType[*retry.Error](e.err); ok && failed.Outcome.Kind == classify.NonRetryable {
		return classify.Permanent(e.err) // by the step's policy
	}
	return e.err
}

// unclaimed ends a transaction that the guard did not let run.
func (w *worker) unclaimed(ctx context.Context, err error) end {
	failure := w.failure(w.r.steps.work, 0, err)
	refusal, ok := errors.AsType[*idempotency.RefusedError](err)
	switch {
	case !ok || refusal.Ended():
		return unfinished(ctx, nil)
	case refusal.RetryAfter > 0:
		return end{outcome: Redelivered, err: err, delay: refusal.RetryAfter}
	case refusal.Reason == policy.ReasonIdempotencyFailed && w.r.handlesExceptions(): // handled before; only the acknowledgement was lost
		return end{outcome: Exception, err: failure}
	}
	return w.handleFailure(ctx, failure)
}
