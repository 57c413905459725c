package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
)

// unavailableDelay is how long a transaction stays away whose record store cannot be asked.
const unavailableDelay = 5 * time.Second

// guarded runs the transaction under the engine's guard, if there is one.
func (w *worker) guarded(ctx context.Context) end {
	guard := w.r.guard
	if guard == nil {
		return w.transact(ctx)
	}
	ticket, err := guard.Begin(ctx, w.request())
	if err != nil {
		return w.unclaimed(ctx, err)
	}
	if ticket.Replayed() {
		return end{outcome: Success}
	}
	settled := false
	defer func() {
		if !settled { // the task ended its goroutine: nobody knows what it did
			ticket.Abandon()
		}
	}()
	e := w.transact(ticket.Context())
	settled = true
	w.record(ctx, ticket, e)
	return e
}

func (w *worker) request() idempotency.Request {
	sum := sha256.Sum256(w.t.payload)
	work := w.r.workOf(w.t)
	return idempotency.Request{
		ID:          idempotency.ID{Tenant: work.TenantID, Operation: string(w.r.kind) + "/" + w.r.name, Key: w.t.id},
		Fingerprint: hex.EncodeToString(sum[:]), Work: work,
	}
}

// record writes down how the transaction ended. What cannot be written does not change the outcome: the source's own
// acknowledgement says the same.
func (w *worker) record(ctx context.Context, ticket *idempotency.Ticket, e end) {
	var err error
	switch e.outcome {
	case Success:
		err = ticket.Complete(w.r.outside, nil, false)
	case Exception:
		err = ticket.Fail(w.r.outside, e.err)
	default:
		err = ticket.Release(w.r.outside, e.err)
	}
	if err != nil {
		w.r.log.Warn("pipeline: the guard could not record how a transaction ended",
			w.r.about(ctx, w.t, observe.LogOutcome, string(e.outcome), observe.LogError, err)...)
	}
}

// unclaimed says what becomes of a transaction that the guard did not let run.
func (w *worker) unclaimed(ctx context.Context, err error) end {
	if busy, ok := errors.AsType[*idempotency.InFlightError](err); ok {
		return end{outcome: Redelivered, err: err, delay: busy.RetryAfter}
	}
	if failed, ok := errors.AsType[*idempotency.FailureError](err); ok {
		return end{outcome: Exception, err: w.failure(w.r.steps.work, 0, failed)} // handled before; only the acknowledgement was lost
	}
	switch {
	case ctx.Err() != nil:
		return unfinished(ctx)
	case errors.Is(err, idempotency.ErrUnavailable), errors.Is(err, idempotency.ErrJournal):
		return end{outcome: Redelivered, err: err, delay: unavailableDelay}
	}
	return w.except(ctx, w.failure(w.r.steps.work, 0, err))
}
