package pipeline

import (
	"context"
	"time"
)

// FetchRequest asks a source for transactions.
type FetchRequest struct {
	// Max is the highest number of deliveries that the source may return.
	Max int
	// Wait is how long the source may wait for the first transaction; 0 means not to wait. It is the policy's batch.interval.
	Wait time.Duration
	// Extra is a copy of the policy's fetch.extra.
	Extra map[string]any
}

// Source delivers transactions. The engine calls Fetch from one goroutine at a time, and concurrently the methods of the
// optional interfaces [Acker], [Nacker], [Extender], [Lagger] and [Checker]. Engines neither open nor close sources and sinks: the
// program that opened one closes it after Run has returned.
//
// A source that has delivered a transaction again refuses or ignores late calls for an earlier delivery of it.
type Source interface {
	// Fetch returns up to r.Max deliveries, or none if none are available now. The engine owns the returned slice. [ErrEnd],
	// alone or together with the last deliveries, means that there will never be more. The engine also takes deliveries that
	// come with any other error.
	Fetch(ctx context.Context, r FetchRequest) ([]Delivery, error)
}

// Acker is a source that is notified of deliveries that are done: they succeeded, or their exception was handled.
type Acker interface {
	// Ack acknowledges deliveries in the order in which they were done, and must not keep the slice. It returns an error for
	// each, in their order, or nil if all were acknowledged. The engine does not repeat the call; the source should retry
	// failures itself where it can.
	Ack(ctx context.Context, done []Delivery) []error
}

// Nacker is a source that takes deliveries back.
type Nacker interface {
	// Nack gives a delivery back. The source delivers it again, no earlier than after the delay. cause is nil if the delivery
	// was not started or not finished.
	Nack(ctx context.Context, d Delivery, delay time.Duration, cause error) error
}

// Extender is a source that takes deliveries back by itself after a time.
type Extender interface {
	// Extend extends the deadlines of deliveries, waiting ones included. It returns an error for each, in their order, or nil
	// if all were extended, and must not keep the slice. The engine does not call Nack for any of them before Extend has returned
	// or its context has ended, after half a minute.
	Extend(ctx context.Context, held []Delivery) []error
	// ExtendEvery is how often the engine has to call Extend; 0 or less for never.
	ExtendEvery() time.Duration
}

// Lagger is a source that knows its lag. The engine asks it every [LagEvery] while an observer is present.
type Lagger interface {
	// Lag returns how many transactions are ready and have not been handed to any reader of the source. It should cost little,
	// and returns an error where it cannot tell.
	Lag(ctx context.Context) (int64, error)
}

// LagEvery is how often engines ask a source for its lag.
const LagEvery = 10 * time.Second

// Checker is a source or sink that can check whether it is usable.
type Checker interface {
	Check(ctx context.Context) error
}

// Sink takes transactions. Dispatch is called concurrently. It returns nil only if the receiver has stored the transaction,
// and may be called again with the ID of a transaction that was stored before.
type Sink interface {
	Dispatch(ctx context.Context, t *Transaction) error
}

// SinkFunc adapts a function to a Sink.
type SinkFunc func(ctx context.Context, t *Transaction) error

// Dispatch calls f.
func (f SinkFunc) Dispatch(ctx context.Context, t *Transaction) error { return f(ctx, t) }
