package idempotency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The causes for which a guard does not run an effect; see [RefusedError]. Match them with errors.Is.
var (
	// ErrInFlight: the claim of another caller is live; see [InFlightError]. It is marked with the wait until the claim ends.
	ErrInFlight = errors.New("idempotency: the key is in flight")
	// ErrMismatch: the key was used for another request. Permanent.
	ErrMismatch = errors.New("idempotency: the key was used for another request")
	// ErrUnknown: an earlier claim ended without a record, so it is not known whether the effect happened. The effect does
	// not run again until an operator resolves the record. Permanent.
	ErrUnknown = errors.New("idempotency: the outcome of the key is unknown until an operator resolves it")
	// ErrResultTooLarge: the effect has happened, but its result is larger than the guard keeps; see [ResultError].
	ErrResultTooLarge = errors.New("idempotency: the result is larger than the guard keeps")
	// ErrUnavailable: the store did not answer, so the effect did not run; see [StoreError].
	ErrUnavailable = errors.New("idempotency: the store is unavailable")
	// ErrJournal: the journal refused an answer, so it was not given. The effect did not run.
	ErrJournal = errors.New("idempotency: the journal is unavailable")
)

// Arguments that are missing.
var (
	errNoGuard     = errors.New("idempotency: the guard is nil")
	errNoContext   = errors.New("idempotency: the context is nil")
	errNoOperation = errors.New("idempotency: the operation is nil")
)

// The types of failure that a guard itself records.
const (
	// FailureResultTooLarge: completed, but the result exceeds the guard's limit and was not kept.
	FailureResultTooLarge = "result_too_large"
	// FailureNoResult: completed without a result, for example by an operator, although one is needed. It is not stored.
	FailureNoResult = "no_result"
	// FailureResultNotEncoded: completed, but the codec could not write the result.
	FailureResultNotEncoded = "result_not_encoded"
	// FailureResultNotDecoded: completed, but the codec cannot read the result. It is not stored.
	FailureResultNotDecoded = "result_not_decoded"
)

// String returns the ID in readable form. It is not unique: parts may contain the separator.
func (id ID) String() string {
	parts := []string{id.Tenant, id.Operation, id.Key}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// KeyError is a key, or a tenant, operation or fingerprint beside it, that cannot be used. Nothing was stored. Permanent.
type KeyError struct {
	Field   string // key, tenant, operation or fingerprint; for a value that cannot be part of a key its path, such as params.items[2].id
	Problem string
}

// Error implements error.
func (e *KeyError) Error() string { return fmt.Sprintf("idempotency: %s: %s", e.Field, e.Problem) }

// InFlightError is an [ErrInFlight] with the time until the claim ends.
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

// Unwrap returns the failure.
func (e *FailureError) Unwrap() error { return &e.Failure }

// ResultError is an effect that has happened and is recorded, but whose result is missing: it was too large
// ([ErrResultTooLarge]), could not be encoded, or cannot be read. The caller that ran the effect gets the result beside this
// error; later callers get only the error, and nothing runs. Permanent.
type ResultError struct {
	ID      ID
	Failure Failure
	Err     error // the codec's error, if it could not decode the result
}

// Error implements error.
func (e *ResultError) Error() string {
	return fmt.Sprintf("idempotency: %s is done, but has no result to return: %s", e.ID, e.Failure.Message)
}

// Is matches ErrResultTooLarge if that is the reason.
func (e *ResultError) Is(target error) bool {
	return target == ErrResultTooLarge && e.Failure.Type == FailureResultTooLarge
}

// Unwrap returns the codec's error.
func (e *ResultError) Unwrap() error { return e.Err }

// RecordError is an effect that has run, but whose end could not be recorded. A result returned with it is valid. When the
// claim lapses, the record becomes unknown or another caller claims it. After a completed effect the error is permanent. Err
// is [ErrFenced] if the claim was lost, otherwise the store's last error.
type RecordError struct {
	ID  ID
	Err error
}

// Error implements error.
func (e *RecordError) Error() string {
	return fmt.Sprintf("idempotency: %s has run, but could not be recorded: %v", e.ID, e.Err)
}

// Unwrap returns the store's error.
func (e *RecordError) Unwrap() error { return e.Err }

// StoreError is a store that did not answer. The effect did not run.
type StoreError struct {
	ID  ID
	Err error
}

// Error implements error.
func (e *StoreError) Error() string { return fmt.Sprintf("%v: %s: %v", ErrUnavailable, e.ID, e.Err) }

// Is matches ErrUnavailable.
func (e *StoreError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the store's error.
func (e *StoreError) Unwrap() error { return e.Err }
