package pipeline

import (
	"context"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
)

// Codec writes values as payloads and reads them back.
type Codec[T any] = idempotency.Codec[T]

// JSON is the codec of encoding/json.
type JSON[T any] = idempotency.JSON[T]

// Item is a transaction with its payload as a value.
type Item[T any] struct {
	*Transaction
	Value T
}

// Typed is a task whose payloads are values of type T and whose results are values of type R. A payload that cannot be
// decoded is a business error with a [*PayloadError].
type Typed[T, R any] struct {
	Codec   Codec[T] // default JSON
	Process func(ctx context.Context, item Item[T]) (R, error)
	// Success is optional.
	Success func(ctx context.Context, item Item[T], result R) error
	// Exception is optional. The value is the zero T where the payload could not be decoded.
	Exception func(ctx context.Context, item Item[T], cause error) error
	// Result, if set, writes results as payloads: the task's result is then []byte, which [Into] and producers dispatch.
	Result Codec[R]
}

// Task returns t as a Task. Handlers decode the payload again. A nil Process panics.
func (t Typed[T, R]) Task() Task {
	argument.Need(t.Process != nil, "pipeline: Typed.Task: Process")
	if t.Codec == nil {
		t.Codec = JSON[T]{}
	}
	f := Funcs{Process: t.process}
	if t.Success != nil {
		f.Success = t.success
	}
	if t.Exception != nil {
		f.Exception = t.exception
	}
	return f.Task()
}

func (t Typed[T, R]) process(ctx context.Context, x *Transaction) (any, error) {
	item, err := t.decode(x)
	if err != nil {
		return nil, err
	}
	result, err := t.Process(ctx, item)
	if err != nil || t.Result == nil {
		return result, err
	}
	payload, err := t.Result.Encode(result)
	return payload, classify.Permanent(err)
}

func (t Typed[T, R]) success(ctx context.Context, x *Transaction, result any) error {
	item, err := t.decode(x)
	if err != nil {
		return err
	}
	if payload, ok := result.([]byte); ok && t.Result != nil {
		if result, err = t.Result.Decode(payload); err != nil {
			return classify.Permanent(err)
		}
	}
	value, _ := result.(R)
	return t.Success(ctx, item, value)
}

func (t Typed[T, R]) exception(ctx context.Context, x *Transaction, cause error) error {
	item, err := t.decode(x)
	if err != nil {
		item = Item[T]{Transaction: x}
	}
	return t.Exception(ctx, item, cause)
}

func (t Typed[T, R]) decode(x *Transaction) (Item[T], error) {
	value, err := t.Codec.Decode(x.payload)
	if err != nil {
		return Item[T]{Transaction: x}, classify.Business(&PayloadError{ID: x.id, Err: err})
	}
	return Item[T]{Transaction: x, Value: value}, nil
}
