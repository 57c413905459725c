package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Idempotent is a middleware that runs handlers once per key, default the job's ID, even if a lease is lost while the effect
// happens. The record's scope is the job's tenant and type. A job whose effect has happened before completes with the
// stored output, which the worker's codec encodes in the record too.
//
// The error of a handler is final if it is marked (Unrecoverable, Business) or if the guard's classifier says so. A job with
// a final failure does not run again: if it is requeued, it is dead with reason idempotency_failed until the record is
// cleared.
//
// A handler that panics or calls runtime.Goexit leaves its outcome unknown, unless the guard is ReplaySafe: the attempt counts
// as a failure, and the next one, if there is one, makes the job dead with reason outcome_unknown. Resolve the record, then
// requeue the job.
//
// If the key is in flight elsewhere, or the record store is down, the job is rescheduled without using up an attempt. A nil
// guard panics.
func Idempotent(guard *idempotency.Guard, key func(j Job[[]byte]) string) Middleware {
	argument.Need(guard != nil, "job: Idempotent: the guard") // otherwise every job would fail until it is dead
	return func(next RawHandler) RawHandler {
		return func(ctx context.Context, j Job[[]byte]) error {
			effect := idempotency.Effect[[]byte]{Request: idempotentRequest(ctx, j, key), Codec: idempotency.Bytes{}}
			if j.codec != nil {
				effect.Codec = sealedOutput{j}
			}
			var handled error
			o := idempotency.Once(ctx, guard, effect, func(ctx context.Context) ([]byte, error) {
				if handled = next(ctx, j); isControl(handled) { // the job has not ended, or has been cancelled
					return nil, classify.After(handled, 0)
				}
				return j.output(), handled
			})
			switch {
			case o.Ran: // if that could not be recorded, the job's own settlement still says the same
				return handled
			case o.Err != nil:
				return refused(o.Err)
			case o.Value != nil:
				j.SetOutput(o.Value)
			}
			return nil
		}
	}
}

// sealedOutput keeps the output in the record as the worker's codec encodes it for the job.
type sealedOutput struct{ job Job[[]byte] }

// Encode implements idempotency.Codec.
func (s sealedOutput) Encode(output []byte) ([]byte, error) {
	if len(output) == 0 {
		return nil, nil
	}
	return s.job.codec.Encode(s.job.Queue, boundOutput(s.job.Type), output)
}

// Decode implements idempotency.Codec.
func (s sealedOutput) Decode(kept []byte) ([]byte, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	return OpenOutput(s.job.codec, s.job.Type, kept)
}

func idempotentRequest(ctx context.Context, j Job[[]byte], key func(j Job[[]byte]) string) idempotency.Request {
	r := idempotency.Request{
		Key: j.ID, Tenant: j.Meta["tenant_id"], Operation: j.Type,
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

// refused returns the result of a job whose handler the guard did not run: nil if its effect has happened and only its
// output is missing.
func refused(err error) error {
	refusal, ok := errors.AsType[*idempotency.RefusedError](err)
	result, done := errors.AsType[*idempotency.ResultError](err)
	switch {
	case errors.Is(err, ErrNoKey): // another worker can read the output
		return &snooze{delay: undecidedDelay, reason: policy.ReasonNoPayloadKey}
	case done && result.Failure.Type != idempotency.FailureResultNotEncoded: // otherwise jobs that need the output would take it for none
		return nil
	case !ok, refusal.Ended(): // the job itself has not failed
		return err
	case refusal.RetryAfter > 0:
		return &snooze{delay: min(refusal.RetryAfter, MaxDelay), reason: refusal.Reason}
	}
	return Unrecoverable(&reasonError{refusal.Reason, err})
}
