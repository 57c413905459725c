package idempotency

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What a guard says when it does not run the effect. Match with errors.Is.
var (
	// ErrInFlight: somebody else's claim is live; see [InFlightError]. It is marked with the wait until the claim ends.
	ErrInFlight = errors.New("idempotency: the key is in flight")
	// ErrMismatch: the key was used for another request. Permanent.
	ErrMismatch = errors.New("idempotency: the key was used for another request")
	// ErrUnknown: an earlier claim ended without a record, so that nobody knows whether the effect happened. It is not run
	// again until an operator has resolved the record. Permanent.
	ErrUnknown = errors.New("idempotency: the outcome of the key is unknown until an operator resolves it")
	// ErrResultTooLarge: the effect has happened, but its result is larger than the guard keeps; see [ResultError].
	ErrResultTooLarge = errors.New("idempotency: the result is larger than the guard keeps")
	// ErrUnavailable: the store could not be asked, so the effect did not run; see [StoreError].
	ErrUnavailable = errors.New("idempotency: the store is unavailable")
	// ErrJournal: the journal refused an answer, so it was not given. The effect did not run.
	ErrJournal = errors.New("idempotency: the journal is unavailable")
)

// Arguments that are missing.
var (
	errNoGuard     = errors.New("idempotency: the guard is nil")
	errNoContext   = errors.New("idempotency: the context is nil")
	errNoOperation = errors.New("idempotency: the operation is nil")
	errNoCodec     = errors.New("idempotency: the codec is nil")
)

// The types of failure that a guard records of itself.
const (
	// FailureResultTooLarge: completed, but the result is over the guard's limit and was not kept.
	FailureResultTooLarge = "result_too_large"
	// FailureNoResult: completed without a result, for example by an operator, where one is needed. It is not stored.
	FailureNoResult = "no_result"
	// FailureResultNotEncoded: completed, but the codec could not write the result.
	FailureResultNotEncoded = "result_not_encoded"
)

// String is the ID for people. It is no key: parts may hold the separator.
func (id ID) String() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{id.Tenant, id.Operation, id.Key} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

// KeyError tells what is wrong with a key, or with the tenant, operation or fingerprint beside it. Nothing was stored. Permanent.
type KeyError struct {
	Field   string // key, tenant, operation or fingerprint; for a value that cannot be part of a key its path, such as params.items[2].id
	Problem string
}

// Error implements error.
func (e *KeyError) Error() string { return fmt.Sprintf("idempotency: %s: %s", e.Field, e.Problem) }

// InFlightError is an [ErrInFlight] with its wait.
type InFlightError struct {
	ID         ID
	RetryAfter time.Duration // how long the live claim lasts at most
}

// Error implements error.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("%v: %s: try again after %s", ErrInFlight, e.ID, e.RetryAfter)
}

// Is matches ErrInFlight.
func (e *InFlightError) Is(target error) bool { return target == ErrInFlight }

// FailureError is the stored failure of an effect that ended for good earlier. Permanent.
type FailureError struct {
	ID      ID
	Failure Failure
}

// Error implements error.
func (e *FailureError) Error() string {
	return fmt.Sprintf("idempotency: %s has failed for good: %s", e.ID, e.Failure.Message)
}

// Unwrap gives the failure.
func (e *FailureError) Unwrap() error { return &e.Failure }

// ResultError tells that the effect has happened and is recorded, but without its result: it was too large
// ([ErrResultTooLarge]) or could not be encoded. The one who ran the effect gets the result beside this error; those who
// come later get none, and nothing runs. Permanent.
type ResultError struct {
	ID      ID
	Failure Failure
}

// Error implements error.
func (e *ResultError) Error() string {
	return fmt.Sprintf("idempotency: %s is done, but its result was not kept: %s", e.ID, e.Failure.Message)
}

// Is matches ErrResultTooLarge where that is the reason.
func (e *ResultError) Is(target error) bool {
	return target == ErrResultTooLarge && e.Failure.Type == FailureResultTooLarge
}

// RecordError tells that the effect has run, and that how it ended could not be recorded. A result beside it is good. The
// record becomes unknown, or another caller's, when the claim lapses. After a completed effect it is permanent. Err is [ErrFenced] where the claim had been lost, else
// the store's last error.
type RecordError struct {
	ID  ID
	Err error
}

// Error implements error.
func (e *RecordError) Error() string {
	return fmt.Sprintf("idempotency: %s has run, but could not be recorded: %v", e.ID, e.Err)
}

// Unwrap gives the store's error.
func (e *RecordError) Unwrap() error { return e.Err }

// StoreError tells that the store could not be asked. The effect did not run.
type StoreError struct {
	ID  ID
	Err error
}

// Error implements error.
func (e *StoreError) Error() string { return fmt.Sprintf("%v: %s: %v", ErrUnavailable, e.ID, e.Err) }

// Is matches ErrUnavailable.
func (e *StoreError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap gives the store's error.
func (e *StoreError) Unwrap() error { return e.Err }
