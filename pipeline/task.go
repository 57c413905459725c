package pipeline

import (
	"context"
	"encoding/json"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
)

// Codec writes values as payloads and reads them back.
type Codec[T any] = idempotency.Codec[T]

// JSON is the codec of encoding/json.
type JSON[T any] = idempotency.JSON[T]

// Task is the work that an engine does for each transaction: it turns the payload, decoded as an In, into an Out, which is
// sent on. Its functions are called concurrently, and a panic in one counts as an error. [Handle], [Into] and [Map] make a
// task from a function.
//
// In and Out are any types that encoding/json, or the codecs Input and Output, can read and write. Three types need no codec:
// []byte is the payload itself, *Transaction is the whole transaction, and an Out of []*Transaction is several transactions,
// in order. A nil result sends nothing on.
//
// A function whose input is not a *Transaction gets the transaction from [TransactionOf].
type Task[In, Out any] struct {
	// Process does the work. Business errors (classify.Business), permanent errors and payloads that cannot be decoded
	// (*[PayloadError]) are not retried; all other errors are, as far as the policy allows. A nil Process sends the
	// transaction on unchanged; In and Out must then be the same type.
	Process func(ctx context.Context, in In) (Out, error)
	// Sink receives the result of Process, as the first part of the success step: if the sink fails, only the dispatch is
	// repeated, under that step's policy. nil means no sink. A producer dispatches to its own sink before, as part of its
	// produce step.
	//
	// A value becomes the payload of a transaction with the ID, metadata and correlation of the incoming one, and with the
	// incoming one as its parent. A result that is a transaction inherits a missing correlation, parent or trace from the
	// incoming one; its ID should be the same each time, so that a sink can drop duplicates.
	Sink Sink
	// Success is the second part of the success step; nil means none.
	Success func(ctx context.Context, in In, out Out) error
	// Exception handles a transaction that could not be processed, or whose success step failed; cause is a
	// *[TransactionError]. If it returns nil, the transaction counts as handled. in is the zero In if the payload cannot be
	// decoded. nil means no handler.
	Exception func(ctx context.Context, in In, cause error) error

	Input  Codec[In]  // reads payloads, and writes a producer's values; default JSON
	Output Codec[Out] // writes results; default JSON
	// ID identifies a producer's values. With an ID that is the same each time, delays and records are stable and duplicates
	// can be detected. By default each value gets a new UUIDv7, and a *Transaction keeps its own ID.
	ID func(in In) string
}

// Raw is a task from transaction to transaction. The zero Raw sends each on as it is.
type Raw = Task[*Transaction, *Transaction]

// Handle makes a task of a function that sends nothing on.
func Handle[In any](process func(ctx context.Context, in In) error) Task[In, struct{}] {
	argument.Need(process != nil, "pipeline: Handle: the function")
	return Task[In, struct{}]{Process: func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, process(ctx, in) }}
}

// Into makes a task of a function whose results go to a sink.
func Into[In, Out any](process func(ctx context.Context, in In) (Out, error), sink Sink) Task[In, Out] {
	argument.Need(process != nil, "pipeline: Into: the function")
	argument.Need(sink != nil, "pipeline: Into: the sink")
	return Task[In, Out]{Process: process, Sink: sink}
}

// Map makes a task of a function, for a producer: its results go to the producer's sink.
func Map[In, Out any](process func(ctx context.Context, in In) (Out, error)) Task[In, Out] {
	argument.Need(process != nil, "pipeline: Map: the function")
	return Task[In, Out]{Process: process}
}

type transactionKey struct{}

// TransactionOf returns the transaction for which a task's function was called, from the function's context. It returns nil
// for any other context, and if the function's input is the transaction itself.
func TransactionOf(ctx context.Context) *Transaction {
	t, _ := ctx.Value(transactionKey{}).(*Transaction)
	return t
}

// binding adapts a task to engines, which do not know its types.
type binding[In, Out any] struct {
	Task[In, Out]
	whole bool // an input is the transaction itself
	bytes bool // an input is the payload itself
}

func bind[In, Out any](t Task[In, Out]) *binding[In, Out] {
	b := &binding[In, Out]{Task: t}
	_, b.whole = any((*Transaction)(nil)).(In)
	_, b.bytes = any([]byte(nil)).(In)
	if t.Process == nil {
		var in In
		_, same := any(&in).(*Out)
		argument.Need(same, "pipeline: the task's Process")
	}
	return b
}

// input returns the arguments of a task's function: its context and the decoded payload.
func (b *binding[In, Out]) input(ctx context.Context, t *Transaction) (context.Context, In, error) {
	if b.whole {
		return ctx, any(t).(In), nil
	}
	ctx = context.WithValue(ctx, transactionKey{}, t)
	in, err := b.decode(t)
	if err != nil {
		err = classify.Business(&PayloadError{ID: t.id, Err: err})
	}
	return ctx, in, err
}

func (b *binding[In, Out]) decode(t *Transaction) (In, error) {
	switch {
	case b.Input != nil:
		return b.Input.Decode(t.payload)
	case b.bytes:
		return any(t.payload).(In), nil
	}
	return JSON[In]{}.Decode(t.payload)
}

// process returns the result to send on: an Out, or the transaction itself if there is no Process.
func (b *binding[In, Out]) process(ctx context.Context, t *Transaction) (any, error) {
	if b.Process == nil {
		return t, nil
	}
	ctx, in, err := b.input(ctx, t)
	if err != nil {
		return nil, err
	}
	return b.Process(ctx, in)
}

// produce is process and the dispatch to a producer's sink.
func (b *binding[In, Out]) produce(sink Sink) func(ctx context.Context, t *Transaction) (any, error) {
	to := sender{sink: sink, encode: b.encode}
	return func(ctx context.Context, t *Transaction) (any, error) {
		result, err := b.process(ctx, t)
		if err != nil {
			return nil, err
		}
		return result, to.send(ctx, t, result)
	}
}

func (b *binding[In, Out]) encode(result any) ([]byte, error) {
	if b.Output != nil {
		return b.Output.Encode(result.(Out))
	}
	if payload, ok := result.([]byte); ok {
		return payload, nil
	}
	return json.Marshal(result)
}

// success returns the operation of the success step, or nil if there is nothing to do.
func (b *binding[In, Out]) success() func(ctx context.Context, t *Transaction, result any) error {
	if b.Sink == nil && b.Success == nil {
		return nil
	}
	to := sender{sink: b.Sink, encode: b.encode, chain: true}
	return func(ctx context.Context, t *Transaction, result any) error {
		if b.Sink != nil {
			if err := to.send(ctx, t, result); err != nil {
				return err
			}
		}
		if b.Success == nil {
			return nil
		}
		ctx, in, err := b.input(ctx, t)
		if err != nil {
			return err
		}
		out, _ := result.(Out)
		if b.Process == nil {
			out, _ = any(in).(Out)
		}
		return b.Success(ctx, in, out)
	}
}

// exception returns the exception handler, or nil if there is none.
func (b *binding[In, Out]) exception() func(ctx context.Context, t *Transaction, cause error) error {
	if b.Exception == nil {
		return nil
	}
	return func(ctx context.Context, t *Transaction, cause error) error {
		ctx, in, err := b.input(ctx, t)
		if err != nil {
			var zero In
			in = zero
		}
		return b.Exception(ctx, in, cause)
	}
}

// transaction makes a producer's transaction from a value. It returns nil for a nil *Transaction.
func (b *binding[In, Out]) transaction(in In) (*Transaction, error) {
	switch value := any(in).(type) {
	case *Transaction:
		return value, nil
	case []byte:
		if b.Input == nil {
			return NewTransaction(b.id(in), value), nil
		}
	}
	codec := b.Input
	if codec == nil {
		codec = JSON[In]{}
	}
	payload, err := codec.Encode(in)
	return NewTransaction(b.id(in), payload), err
}

func (b *binding[In, Out]) id(in In) string {
	if b.ID == nil {
		return ""
	}
	return b.ID(in)
}
