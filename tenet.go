package tenet

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Key names an operation; see policy.Key.
type Key = policy.Key

// ParseKey reads "namespace.name"; see policy.ParseKey.
func ParseKey(s string) Key { return policy.ParseKey(s) }

// Do runs op with the default executor under the policy of key. Every failure is a [*retry.Error]; match what is inside
// with errors.Is and errors.As.
func Do(ctx context.Context, key Key, op retry.Operation, opts ...retry.CallOption) error {
	return retry.DefaultExecutor().Do(ctx, key, op, opts...)
}

// DoValue is [Do] for an operation with a result.
func DoValue[T any](ctx context.Context, key Key, op retry.OperationValue[T], opts ...retry.CallOption) (T, error) {
	return retry.DoValue(ctx, retry.DefaultExecutor(), key, op, opts...)
}

// DoWithTimeline is [Do] with the story of the call.
func DoWithTimeline(ctx context.Context, key Key, op retry.Operation, opts ...retry.CallOption) (observe.Timeline, error) {
	return retry.DefaultExecutor().DoWithTimeline(ctx, key, op, opts...)
}

// DoValueWithTimeline is [DoValue] with the story of the call.
func DoValueWithTimeline[T any](ctx context.Context, key Key, op retry.OperationValue[T], opts ...retry.CallOption) (T, observe.Timeline, error) {
	return retry.DoValueWithTimeline(ctx, retry.DefaultExecutor(), key, op, opts...)
}

// Permanent marks err as not worth repeating. Permanent(nil) is nil.
func Permanent(err error) error { return classify.Permanent(err) }

// After marks err with the wait that the other side asked for: the next attempt starts no earlier. After(nil, d) is nil.
func After(err error, d time.Duration) error { return classify.After(err, d) }
