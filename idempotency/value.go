package idempotency

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Codec encodes results of a type as bytes and decodes them. Implementations are safe for concurrent use.
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

// Bytes is the codec that keeps bytes as they are. Nil means an effect without a result; empty bytes are a result.
type Bytes struct{}

// Encode implements Codec.
func (Bytes) Encode(b []byte) ([]byte, error) { return b, nil }

// Decode implements Codec. It returns the record's own bytes, which are a copy of the store's.
func (Bytes) Decode(b []byte) ([]byte, error) {
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// Do is [Once] for an effect whose result is bytes. Nil and empty results are different.
//
// If op did not run, the error is a *[RefusedError]. If op ran and failed, it is op's error, joined with a *[RecordError] if
// the failure could not be recorded. If op succeeded, it is nil or, together with the result, a *[ResultError] or
// *[RecordError].
func (g *Guard) Do(ctx context.Context, r Request, op func(context.Context) ([]byte, error)) ([]byte, error) {
	return once(ctx, g, &Effect[[]byte]{Request: r, Codec: Bytes{}}, op).Result()
}

// DoValue is [Guard.Do] for results of any type, kept as JSON.
func DoValue[T any](ctx context.Context, g *Guard, r Request, op func(context.Context) (T, error)) (T, error) {
	return once(ctx, g, &Effect[T]{Request: r, Codec: JSON[T]{}}, op).Result()
}

// encode encodes a result, and reports whether there is one.
func encode[T any](codec Codec[T], value T) (raw []byte, present bool, err error) {
	if codec == nil {
		return nil, false, nil
	}
	raw, err = codec.Encode(value)
	return raw, raw != nil || !optional(codec), err
}

// decode decodes the result of a completed record. It fails if a result is needed and was not kept, because the zero value
// would be wrong.
func decode[T any](codec Codec[T], r *Record) (value T, err error) {
	switch {
	case codec == nil:
		return value, nil
	case !r.HasResult && r.Failure == nil && optional(codec):
		return value, nil
	}
	if refusal := r.withoutResult(); refusal != nil {
		return value, refusal
	}
	if value, err = codec.Decode(r.Result); err != nil {
		f := Failure{FailureResultNotDecoded, fmt.Sprintf("what was kept cannot be read as %T: %v", value, err)}
		var zero T
		return zero, refuse(policy.ReasonIdempotencyFailed, classify.Permanent(&ResultError{ID: r.ID, Failure: f, Err: err}))
	}
	return value, nil
}

// optional reports whether results of a codec may be absent.
func optional[T any](codec Codec[T]) bool {
	_, ok := any(codec).(Bytes)
	return ok
}

// withoutResult returns the error of a completed record without a result, or nil.
func (r *Record) withoutResult() error {
	if r.HasResult {
		return nil
	}
	f := Failure{FailureNoResult, "it was completed without one"}
	if r.Failure != nil {
		f = *r.Failure
	}
	return refuse(policy.ReasonIdempotencyFailed, classify.Permanent(&ResultError{ID: r.ID, Failure: f}))
}
