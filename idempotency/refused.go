package idempotency

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// RefusedError is the error of a guard that did not let an effect run. It maps the guard's finding to a reason, a delay and
// an HTTP status, on which calls, jobs, pipelines and HTTP servers act:
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
// It wraps the guard's finding: [ErrInFlight], [ErrMismatch], [ErrUnknown], *[FailureError], *[ResultError], *[KeyError],
// *[StoreError], [ErrJournal], or the cause of the context's end.
type RefusedError struct {
	Reason     policy.Reason
	RetryAfter time.Duration // when to ask again; 0 if that cannot help
	Err        error
}

// unavailableDelay is how long callers wait before they ask again while the store or the journal is down.
const unavailableDelay = 5 * time.Second

// refuse makes the refusal for a reason. Only a claim in flight has a specific delay.
func refuse(reason policy.Reason, err error) *RefusedError {
	e := &RefusedError{Reason: reason, Err: err}
	if reason == policy.ReasonIdempotencyUnavailable {
		e.RetryAfter = unavailableDelay
	}
	return e
}

// unanswered returns the reason when the store or the journal did not answer: the end of the caller's context if it has
// ended, otherwise idempotency_unavailable.
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

// Unwrap returns the guard's finding.
func (e *RefusedError) Unwrap() error { return e.Err }

// Is matches context.Canceled and context.DeadlineExceeded by the reason, also if the context ended with another cause.
func (e *RefusedError) Is(target error) bool {
	return target == context.Canceled && e.Reason == policy.ReasonCanceled ||
		target == context.DeadlineExceeded && e.Reason == policy.ReasonDeadlineExceeded
}

// Ended reports whether the effect did not run because the caller's context had ended, and not by a finding of the guard.
func (e *RefusedError) Ended() bool {
	return e.Reason == policy.ReasonCanceled || e.Reason == policy.ReasonDeadlineExceeded
}

// Status returns the status code with which an HTTP server refuses the request.
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
