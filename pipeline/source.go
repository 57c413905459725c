package pipeline

import (
	"context"
	"time"
)

// FetchRequest asks a source for transactions.
type FetchRequest struct {
	// Max is how many are wanted; a source that returns more breaks its contract.
	Max int
	// Wait is how long the source may wait for the first one before it returns none; 0 asks it not to wait. It is the
	// policy's batch.interval.
	Wait time.Duration
	// Extra are the policy's values for the source, a copy of its own.
	Extra map[string]any
}

// Source hands out transactions. The engine calls Fetch from one goroutine at a time; the optional methods come from others
// meanwhile.
//
// A source that can does more: [Acker], [Nacker], [Extender], [Checker]. Engines neither open nor close sources and sinks:
// whoever opened one closes it, after Run has returned.
type Source interface {
	// Fetch returns up to r.Max deliveries, none where there are none for now. The slice is the engine's from then on.
	// [ErrEnd], alone or together with the last deliveries, says that there will never be more. Deliveries that come with
	// any other error are taken too.
	Fetch(ctx context.Context, r FetchRequest) ([]Delivery, error)
}

// Acker is a source that is told what is done: deliveries that succeeded, or whose exception was handled.
type Acker interface {
	// Ack takes several at once, in the order in which they were done, and must not keep the slice. The errors are in the
	// order of the deliveries; nil means that all were taken. The engine does not repeat it: a source that can should.
	Ack(ctx context.Context, done []Delivery) []error
}

// Nacker is a source that takes deliveries back.
type Nacker interface {
	// Nack gives a delivery back, to be handed out again after a delay at the earliest. cause is nil where the delivery was
	// never tried or not finished.
	Nack(ctx context.Context, d Delivery, delay time.Duration, cause error) error
}

// Extender is a source that takes deliveries back by itself after a time.
type Extender interface {
	// Extend keeps deliveries for longer. The engine calls it well before their deadlines, also for those that wait. The
	// errors are in the order of the deliveries; nil means that all were extended. It must not keep the slice.
	Extend(ctx context.Context, held []Delivery) []error
	// ExtendEvery is how often that has to happen; 0 or less for never.
	ExtendEvery() time.Duration
}

// Checker is a source or sink that can tell whether it is usable.
type Checker interface {
	Check(ctx context.Context) error
}

// Sink takes transactions. Dispatch is called concurrently. It returns nil only when the transaction is safe with the other
// side; it may be called again with a transaction that it has taken already, with the same ID.
type Sink interface {
	Dispatch(ctx context.Context, t *Transaction) error
}

// SinkFunc adapts a function to a Sink.
type SinkFunc func(ctx context.Context, t *Transaction) error

// Dispatch calls f.
func (f SinkFunc) Dispatch(ctx context.Context, t *Transaction) error { return f(ctx, t) }
