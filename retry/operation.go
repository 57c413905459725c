package retry

import (
	"context"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Operation is work without a result. It is called once per attempt and should obey its context, which ends when the call
// returns.
type Operation func(ctx context.Context) error

// OperationValue is work with a result. A result that needs the context for longer, such as a response with a body, calls [Detach].
// The results of hedged attempts that lose are dropped.
type OperationValue[T any] func(ctx context.Context) (T, error)

// operation lets both kinds of operation run through the same code without a closure.
type operation[T any] interface {
	do(ctx context.Context) (T, error)
	box(value T) any // the value for a classifier; nil for an operation without one
}

func (o Operation) do(ctx context.Context) (struct{}, error) { return struct{}{}, o(ctx) }
func (o Operation) box(struct{}) any                         { return nil }

func (o OperationValue[T]) do(ctx context.Context) (T, error) { return o(ctx) }
func (o OperationValue[T]) box(value T) any                   { return value }

// Do runs op under the policy of key until it succeeds or the policy says stop. Every failure is an [*Error].
//
// If ctx is done before the first attempt, Do does not call op. An unhedged attempt runs on the calling goroutine, and a
// panic of op reaches the caller unchanged.
func (e *Executor) Do(ctx context.Context, key policy.Key, op Operation, options ...CallOption) error {
	argument.Need(op != nil, "retry: the operation")
	p := e.planFor(ctx, key)
	_, err := do[struct{}](ctx, p.collect(options), op, nil)
	return err
}

// DoValue is [Executor.Do] for an operation with a result. On failure it returns what the last attempt returned.
func DoValue[T any](ctx context.Context, e *Executor, key policy.Key, op OperationValue[T], options ...CallOption) (T, error) {
	argument.Need(op != nil, "retry: the operation")
	p := e.planFor(ctx, key)
	return do[T](ctx, p.collect(options), op, nil)
}

// DoWithTimeline is [Executor.Do] with the call's timeline.
func (e *Executor) DoWithTimeline(ctx context.Context, key policy.Key, op Operation, options ...CallOption) (t observe.Timeline, err error) {
	argument.Need(op != nil, "retry: the operation")
	p := e.planFor(ctx, key)
	_, err = do[struct{}](ctx, p.collect(options), op, &t)
	return t, err
}

// DoValueWithTimeline is [DoValue] with the call's timeline.
func DoValueWithTimeline[T any](ctx context.Context, e *Executor, key policy.Key, op OperationValue[T], options ...CallOption) (value T, t observe.Timeline, err error) {
	argument.Need(op != nil, "retry: the operation")
	p := e.planFor(ctx, key)
	value, err = do[T](ctx, p.collect(options), op, &t)
	return value, t, err
}
