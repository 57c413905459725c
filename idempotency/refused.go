package idempotency

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// RefusedError is the error of a guard that did not let an effect run. It is the one mapping from what a guard found to what
// follows; calls, jobs, pipelines and HTTP servers all act on it:
//
//	the guard found                    Reason                   RetryAfter        Status
//	a live claim of another caller     idempotency_in_flight    the claim's rest  409
//	another fingerprint                idempotency_mismatch     0                 422
//	an unknown outcome                 outcome_unknown          0                 409
//	a stored failure, no result        idempotency_failed       0                 409
//	a bad key                          idempotency_bad_key      0                 400
//	a store or journal that is down    idempotency_unavailable  5s                503
//	the caller's context has ended     canceled,
//	                                   deadline_exceeded        0                 503
//
// errors.Is and errors.As find what the guard found: [ErrInFlight], [ErrMismatch], [ErrUnknown], *[FailureError],
// *[ResultError], *[KeyError], *[StoreError], [ErrJournal], or the cause of the context's end.
type RefusedError struct {
	Reason     policy.Reason
	RetryAfter time.Duration // when asking again may help; 0 if it cannot
	Err        error
}

// unavailableDelay is how long callers stay away while the store or the journal is down.
const unavailableDelay = 5 * time.Second

// refuse makes the refusal for a reason. Only a claim in flight has a wait of its own.
func refuse(reason policy.Reason, err error) *RefusedError {
	e := &RefusedError{Reason: reason, Err: err}
	if reason == policy.ReasonIdempotencyUnavailable {
		e.RetryAfter = unavailableDelay
	}
	return e
}

// unanswered is the reason where store or journal gave no answer: the caller's own end, if that has come.
func unanswered(ctx context.Context) policy.Reason {
	switch ctx.Err() {
	case nil:
		return policy.ReasonIdempotencyUnavailable
	case context.DeadlineExceeded:
		return policy.ReasonDeadlineExceeded
	}
	return policy.ReasonCanceled
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns what the guard found.
func (e *RefusedError) Unwrap() error { return e.Err }

// Is makes the end of the caller's context visible whatever its cause was.
func (e *RefusedError) Is(target error) bool {
	return target == context.Canceled && e.Reason == policy.ReasonCanceled ||
		target == context.DeadlineExceeded && e.Reason == policy.ReasonDeadlineExceeded
}

// Ended reports whether the effect did not run because the caller's context had ended: the guard found nothing wrong.
func (e *RefusedError) Ended() bool {
	return e.Reason == policy.ReasonCanceled || e.Reason == policy.ReasonDeadlineExceeded
}

// Status is the status code with which an HTTP server refuses the request.
func (e *RefusedError) Status() int {
	switch e.Reason {
	case policy.ReasonIdempotencyBadKey:
		return 400 // Bad Request
	case policy.ReasonIdempotencyMismatch:
		return 422 // Unprocessable Content
	case policy.ReasonIdempotencyInFlight, policy.ReasonIdempotencyFailed, policy.ReasonOutcomeUnknown:
		return 409 // Conflict
	}
	return 503 // Service Unavailable
}
