package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/classify"
)

// Errors that sources and sinks return, and that engines report.
var (
	// ErrEnd is what a source returns when there will never be more.
	ErrEnd = errors.New("pipeline: the source has come to its end")
	// ErrTransactionTimeout is the cause of what transaction_timeout ended.
	ErrTransactionTimeout = fmt.Errorf("pipeline: transaction timeout: %w", context.DeadlineExceeded)
	// ErrShutdown is the cause of a task's context when the engine is shut down or out of time.
	ErrShutdown = errors.New("pipeline: the engine is shutting down")
)

// TransactionError is why a transaction left its normal course. errors.Is and errors.As see the cause.
type TransactionError struct {
	ID       string            // of the transaction
	Step     string            // process, produce, success or exception
	Category classify.Category // business, system or timeout
	Attempts int               // of the step
	Cause    error             // a *retry.Error where the step ran
	// Earlier is what the exception step was called for, where that failed.
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

// Unwrap returns the cause, and what came before it.
func (e *TransactionError) Unwrap() []error {
	if e.Earlier == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Earlier}
}

// FetchError is why nothing more could be fetched: the fetch step is spent. What had been fetched was finished first.
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

// Is finds context.DeadlineExceeded, also where the source returned an error of its own when its time was over.
func (e *FetchTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// ConsumerLoopTimeoutError ends a consumer whose policy's loop.timeout has passed.
type ConsumerLoopTimeoutError struct {
	Consumer string
	Timeout  time.Duration
}

// Error implements error.
func (e *ConsumerLoopTimeoutError) Error() string {
	return fmt.Sprintf("pipeline: consumer %s: loop timeout of %v", e.Consumer, e.Timeout)
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
	return fmt.Sprintf("pipeline: producer %s: loop timeout of %v", e.Producer, e.Timeout)
}

// Is finds context.DeadlineExceeded.
func (e *ProducerLoopTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// ContractError is a source or task that does not keep its contract. Nothing is lost by it.
type ContractError struct {
	Part    string // source, task or input
	Problem string
}

// Error implements error.
func (e *ContractError) Error() string { return fmt.Sprintf("pipeline: %s: %s", e.Part, e.Problem) }

// PayloadError is a payload that a codec could not read. It is a business error: repeating cannot help.
type PayloadError struct {
	ID  string // of the transaction
	Err error
}

// Error implements error.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("pipeline: transaction %s: payload: %v", e.ID, e.Err)
}

// Unwrap returns the codec's error.
func (e *PayloadError) Unwrap() error { return e.Err }
