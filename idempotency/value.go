package idempotency

import (
	"context"
	"encoding/json"

	"github.com/tenetdev/tenet/classify"
)

// Codec writes results of a type as bytes and reads them back. Implementations are safe for concurrent use.
type Codec[T any] interface {
	Encode(T) ([]byte, error)
	Decode([]byte) (T, error)
}

// JSON is the codec of encoding/json.
type JSON[T any] struct{}

// Encode implements Codec.
func (JSON[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

// Decode implements Codec.
func (JSON[T]) Decode(b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
}

// DoValue is [Guard.Do] for results of any type, kept as JSON.
func DoValue[T any](ctx context.Context, g *Guard, key, fingerprint string, op func(context.Context) (T, error)) (T, error) {
	return RunValue(ctx, g, Request{ID: ID{Key: key}, Fingerprint: fingerprint}, JSON[T]{}, op)
}

// RunValue is [Guard.Run] for results of any type, kept as the codec writes them. A result that the codec cannot write, or
// one that an operator did not give, is a *[ResultError]; one that it cannot read is the codec's error.
func RunValue[T any](ctx context.Context, g *Guard, r Request, codec Codec[T], op func(context.Context) (T, error)) (T, error) {
	if codec == nil {
		var zero T
		return zero, errNoCodec
	}
	return run(ctx, g, r, presentCodec[T]{codec}, op)
}

// resultCodec is a codec that knows of results that are absent.
type resultCodec[T any] interface {
	encode(T) (raw []byte, present bool, err error)
	decode(Record) (T, error) // by value: a pointer would put every answer of a store on the heap
}

type bytesCodec struct{}

func (bytesCodec) encode(b []byte) ([]byte, bool, error) { return b, b != nil, nil }

// decode hands out the record's own bytes, which are a copy of the store's.
func (bytesCodec) decode(r Record) ([]byte, error) {
	if !r.HasResult {
		return nil, nil
	}
	if r.Result == nil {
		return []byte{}, nil
	}
	return r.Result, nil
}

type presentCodec[T any] struct{ codec Codec[T] }

func (c presentCodec[T]) encode(v T) ([]byte, bool, error) {
	raw, err := c.codec.Encode(v)
	return raw, true, err
}

func (c presentCodec[T]) decode(r Record) (T, error) {
	if !r.HasResult {
		var zero T
		return zero, classify.Permanent(&ResultError{r.ID, Failure{FailureNoResult, "it was completed without a result"}})
	}
	return c.codec.Decode(r.Result)
}

// run is the guard: begin, run the effect, settle.
func run[T any, C resultCodec[T]](ctx context.Context, g *Guard, r Request, codec C, op func(context.Context) (T, error)) (T, error) {
	var zero T
	if op == nil { // before a claim is left behind
		return zero, errNoOperation
	}
	begun, end, err := g.begin(ctx, &r)
	if err != nil {
		return zero, err
	}
	if begun.Verdict == Replay {
		return codec.decode(begun.Record)
	}
	t := g.ticket(ctx, &r, &begun, end)
	value, raw, present, opErr, encodeErr := effect(t, codec, op)
	switch {
	case opErr != nil:
		return value, t.ended(ctx, opErr)
	case encodeErr != nil:
		return value, t.completeWithout(ctx, Failure{FailureResultNotEncoded, clean(encodeErr.Error())})
	}
	err = t.Complete(ctx, raw, present)
	t.recycle()
	return value, err
}

// effect runs the effect and encodes its result. A panic of either leaves nobody knowing how far it came.
func effect[T any, C resultCodec[T]](t *Ticket, codec C, op func(context.Context) (T, error)) (value T, raw []byte, present bool, err, encodeErr error) {
	returned := false
	defer func() {
		if !returned {
			t.broken(t.ctx)
		}
	}()
	if value, err = op(t.ctx); err == nil {
		raw, present, encodeErr = codec.encode(value)
	}
	returned = true
	return value, raw, present, err, encodeErr
}
