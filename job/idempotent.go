package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// unavailableDelay is how long a job waits whose idempotency store cannot be asked.
const unavailableDelay = 5 * time.Second

// Idempotent makes handlers run their effect once per key, default the job's ID, also where a lease was lost while the
// effect happened. The record's scope is the job's tenant and type. The output of a job whose effect has happened before
// is the stored one.
//
// A job whose key is in flight elsewhere, or whose record store cannot be asked, is put back without using up an attempt.
// One whose outcome is unknown is dead with reason outcome_unknown: resolve the record, then requeue the job.
// One whose handler has called its failure final (Unrecoverable, Business) is dead with reason idempotency_failed when it is
// requeued: clear the record first. A nil guard panics.
func Idempotent(guard *idempotency.Guard, key func(j Job[[]byte]) string) Middleware {
	argument.Need(guard != nil, "job: Idempotent: the guard") // else every job that comes in would fail until it is dead
	return func(next RawHandler) RawHandler {
		return func(ctx context.Context, j Job[[]byte]) error {
			ticket, err := guard.Begin(ctx, idempotentRequest(ctx, j, key))
			if isDone(err) {
				return nil
			}
			if err != nil {
				return unclaimed(err)
			}
			if ticket.Replayed() {
				if output, present := ticket.Result(); present {
					j.SetOutput(output)
				}
				return nil
			}
			return runOnce(ticket, next, j)
		}
	}
}

func idempotentRequest(ctx context.Context, j Job[[]byte], key func(j Job[[]byte]) string) idempotency.Request {
	r := idempotency.Request{
		ID:   idempotency.ID{Tenant: j.Meta["tenant_id"], Operation: j.Type, Key: j.ID},
		Work: workOf(j.ID, policy.JobKey(j.Queue, j.Type), j.Type, j.Meta),
	}
	if a, ok := retry.AttemptFromContext(ctx); ok {
		r.Work.Category = a.Category
	}
	if key != nil {
		r.Key = key(j)
		sum := sha256.Sum256(j.Payload)
		r.Fingerprint = hex.EncodeToString(sum[:])
	}
	return r
}

// runOnce runs the effect and records how it ended. What cannot be recorded does not change the result: the job's own
// settlement says the same.
func runOnce(ticket *idempotency.Ticket, next RawHandler, j Job[[]byte]) (err error) {
	ctx := ticket.Context()
	returned := false
	defer func() {
		if !returned { // a panic counts as a failure that may be retried, like any other of a handler
			_ = ticket.Release(context.WithoutCancel(ctx), errors.New("panic"))
		}
	}()
	err = next(ctx, j)
	returned = true
	settle := context.WithoutCancel(ctx)
	mark, _ := classify.MarkOf(err)
	switch {
	case err == nil:
		output := j.output()
		_ = ticket.Complete(settle, output, output != nil)
	case mark == classify.MarkPermanent || mark == classify.MarkBusiness:
		_ = ticket.Fail(settle, err)
	default:
		_ = ticket.Release(settle, err)
	}
	return err
}

// unclaimed says what becomes of a job whose effect the guard did not let run.
func unclaimed(err error) error {
	if busy, ok := errors.AsType[*idempotency.InFlightError](err); ok {
		return &snooze{delay: min(busy.RetryAfter, MaxDelay), reason: policy.ReasonIdempotencyInFlight}
	}
	if errors.Is(err, idempotency.ErrUnavailable) || errors.Is(err, idempotency.ErrJournal) {
		return &snooze{delay: unavailableDelay, reason: policy.ReasonIdempotencyUnavailable}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err // the attempt had ended before the guard was asked: nothing is wrong with the job
	}
	reason := policy.ReasonIdempotencyFailed
	switch {
	case errors.Is(err, idempotency.ErrUnknown):
		reason = policy.ReasonOutcomeUnknown
	case errors.Is(err, idempotency.ErrMismatch):
		reason = policy.ReasonIdempotencyMismatch
	case isKeyError(err):
		reason = policy.ReasonIdempotencyBadKey
	}
	return Unrecoverable(&reasonError{reason, err})
}

// isDone reports whether the effect has happened before, and only its output is missing.
func isDone(err error) bool {
	_, ok := errors.AsType[*idempotency.ResultError](err)
	return ok
}

func isKeyError(err error) bool {
	_, ok := errors.AsType[*idempotency.KeyError](err)
	return ok
}
