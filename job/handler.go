package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/policy"
)

// Job is a job as its handler sees it.
type Job[T any] struct {
	ID       string
	Type     string
	Queue    string
	Payload  T
	Attempt  int // the attempt that runs, from 1
	Priority int
	Meta     map[string]string
	record   *Record
	ctx      context.Context // of the attempt
	flows    FlowStore       // of the worker, if it keeps flows
	codec    Codec           // of the worker, if it has one
}

// Context returns the context of the job's own attempt, which a handler of batches needs to tell its jobs apart: it ends at the
// job's timeout, when an operator cancels the job, when its lease is lost and when the worker shuts down. Outside a worker, as
// in tests of a handler, it is context.Background().
func (j Job[T]) Context() context.Context {
	if j.ctx == nil {
		return context.Background()
	}
	return j.ctx
}

// SetOutput sets the output that the worker stores with the job when it completes this attempt. A completion in the
// handler's own transaction does not store it. Outside a worker, as in tests of a handler, SetOutput does nothing.
func (j Job[T]) SetOutput(output []byte) {
	if j.record != nil {
		j.record.Output = output
	}
}

// Lease returns the lease with which the handler can complete the job in its own transaction, through a store's CompleteTx.
// It is valid until the worker loses the job. Outside a worker, as in tests of a handler, it is the zero Lease.
func (j Job[T]) Lease() Lease {
	if j.record == nil {
		return Lease{}
	}
	return Lease{ref: j.record.Ref()}
}

// output is the output that the running attempt has set.
func (j Job[T]) output() []byte {
	if j.record == nil {
		return nil
	}
	return j.record.Output
}

// RawHandler handles jobs of one type without decoding their payload.
type RawHandler func(ctx context.Context, j Job[[]byte]) error

// Middleware wraps every handler of a worker.
type Middleware func(next RawHandler) RawHandler

// Handle registers a handler with a payload of type T, decoded from JSON; a payload of type []byte is passed unchanged. A
// payload that cannot be decoded makes the job dead at once, with the reason invalid_payload: repeating cannot help.
// Registering a type twice panics, and so does a nil handler. [Definition.Handle] does the same without the name.
func Handle[T any](w *Worker, jobType string, handler func(ctx context.Context, j Job[T]) error) {
	argument.Need(w != nil, "job: Handle: the worker")
	if handler == nil {
		w.HandleRaw(jobType, nil) // which panics
	}
	w.HandleRaw(jobType, func(ctx context.Context, raw Job[[]byte]) error {
		j := Job[T]{
			ID: raw.ID, Type: raw.Type, Queue: raw.Queue, Attempt: raw.Attempt, Priority: raw.Priority, Meta: raw.Meta, record: raw.record, ctx: ctx, flows: raw.flows, codec: raw.codec,
		}
		if p, ok := any(&j.Payload).(*[]byte); ok {
			*p = raw.Payload
		} else if err := json.Unmarshal(raw.Payload, &j.Payload); err != nil {
			return Unrecoverable(&reasonError{policy.ReasonInvalidPayload, fmt.Errorf("job: payload does not fit the handler: %w", secrets.DecodeError(err))})
		}
		return handler(ctx, j)
	})
}

// reasonError is a failure that carries its reason.
type reasonError struct {
	reason policy.Reason
	err    error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

// Unrecoverable marks err so that the job is dead at once, even if attempts are left. Unrecoverable(nil) is nil.
func Unrecoverable(err error) error { return classify.Unrecoverable(err) }

// Snooze returns an error with which a handler asks to run the job again after d, without using up an attempt: at once, if d is not
// above 0. Each time is a row of the job's history, which has the text of an error that wraps Snooze's.
func Snooze(d time.Duration) error {
	return &snooze{delay: min(max(d, 0), MaxDelay), reason: policy.ReasonSnoozed}
}

// Cancel returns an error with which a handler ends the job as cancelled.
func Cancel(reason string) error { return &cancellation{reason} }

type snooze struct {
	delay  time.Duration
	reason policy.Reason
}

func (s *snooze) Error() string { return "job: snoozed for " + s.delay.String() }

type cancellation struct{ reason string }

func (c *cancellation) Error() string { return "job: cancelled: " + c.reason }

// RetryPolicy decides about retries in code. Policies in documents are preferable: they can be changed by operators and
// replayed from the audit log. Implementations are safe for concurrent use.
type RetryPolicy interface {
	// NextDelay is the wait after the given number of failed attempts, 1 after the first.
	NextDelay(failed int) time.Duration
	// MaxAttempts is the highest number of attempts. With 0 or less only the job's own maximum counts.
	MaxAttempts() int
}
