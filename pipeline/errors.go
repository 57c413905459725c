package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/secrets"
)

// Errors that sources and sinks return, and that engines report.
var (
	// ErrEnd is returned by a source that has no further transactions and never will.
	ErrEnd = errors.New("pipeline: end of source")
	// ErrTransactionTimeout is the cause of a context ended by transaction_timeout.
	ErrTransactionTimeout = fmt.Errorf("pipeline: transaction timeout: %w", context.DeadlineExceeded)
	// ErrShutdown is the cause of a task's context when the engine shuts down or runs out of time.
	ErrShutdown = errors.New("pipeline: the engine is shutting down")
)

// TransactionError says why a transaction was not processed. errors.Is and errors.As find its cause.
type TransactionError struct {
	ID       string            // of the transaction
	Step     string            // process, produce, success or exception
	Category classify.Category // business, system or timeout
	Attempts int               // of the step
	Cause    error             // a *retry.Error where the step ran
	// Earlier is the error that the exception step was handling, if the exception step itself failed.
	Earlier *TransactionError
}

// Error implements error.
func (e *TransactionError) Error() string {
	text := fmt.Sprintf("pipeline: transaction %s: %s: %s: %v", e.ID, e.Step, e.Category, e.Cause)
	if e.Earlier != nil {
		text += fmt.Sprintf(" (while handling %s: %v)", e.Earlier.Step, e.Earlier.Cause)
	}
	return text
}

// Unwrap returns the cause and the earlier error.
func (e *TransactionError) Unwrap() []error {
	if e.Earlier == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Earlier}
}

// FetchError ends a run whose fetch step has no attempts left. The run finishes the fetched transactions first.
type FetchError struct {
	Pipeline string // the consumer's name
	Cause    error
}

// Error implements error.
func (e *FetchError) Error() string {
	return fmt.Sprintf("pipeline: %s: fetch: %v", e.Pipeline, e.Cause)
}

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Cause }

// FetchTimeoutError is a [FetchError] whose last attempt ran into its timeout; errors.As finds both.
type FetchTimeoutError struct{ FetchError }

// Error implements error.
func (e *FetchTimeoutError) Error() string {
	return fmt.Sprintf("pipeline: %s: fetch timed out: %v", e.Pipeline, e.Cause)
}

// Unwrap returns the FetchError.
func (e *FetchTimeoutError) Unwrap() error { return &e.FetchError }

// Is matches context.DeadlineExceeded, even if the source returned another error after its timeout.
func (e *FetchTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// ConsumerLoopTimeoutError ends a consumer whose policy's loop.timeout has passed.
type ConsumerLoopTimeoutError struct {
	Consumer string
	Timeout  time.Duration
}

// Error implements error.
func (e *ConsumerLoopTimeoutError) Error() string {
	return fmt.Sprintf("pipeline: consumer %s: loop timeout of %v exceeded", e.Consumer, e.Timeout)
}

// Is finds context.DeadlineExceeded.
func (e *ConsumerLoopTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// ProducerLoopTimeoutError ends a producer whose policy's loop.timeout has passed.
type ProducerLoopTimeoutError struct {
	Producer string
	Timeout  time.Duration
}

// Error implements error.
func (e *ProducerLoopTimeoutError) Error() string {
	return fmt.Sprintf("pipeline: producer %s: loop timeout of %v exceeded", e.Producer, e.Timeout)
}

// Is finds context.DeadlineExceeded.
func (e *ProducerLoopTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// ContractError reports a source or an input that breaks its contract. No transaction is lost.
type ContractError struct {
	Part    string // source or input
	Problem string
}

// Error implements error.
func (e *ContractError) Error() string { return fmt.Sprintf("pipeline: %s: %s", e.Part, e.Problem) }

// PayloadError reports a payload that a codec could not decode. Engines treat it as a business error: repeating cannot help.
type PayloadError struct {
	ID  string // of the transaction
	Err error
}

// Error implements error. It does not quote the payload.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("pipeline: transaction %s: payload: %v", e.ID, secrets.DecodeError(e.Err))
}

// Unwrap returns the codec's error.
func (e *PayloadError) Unwrap() error { return e.Err }
