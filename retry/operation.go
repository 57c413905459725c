package retry

import "context"

// Operation is work without a result. It is called once per attempt and should obey its context.
type Operation func(ctx context.Context) error

// OperationValue is work with a result.
type OperationValue[T any] func(ctx context.Context) (T, error)

// operation lets both kinds run through the same code without a closure.
type operation[T any] interface {
	do(ctx context.Context) (T, error)
	box(value T) any // what a classifier sees; nil where there is no value
}

func (o Operation) do(ctx context.Context) (struct{}, error) { return struct{}{}, o(ctx) }
func (o Operation) box(struct{}) any                         { return nil }

func (o OperationValue[T]) do(ctx context.Context) (T, error) { return o(ctx) }
func (o OperationValue[T]) box(value T) any                   { return value }
