package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// fallback is a function that runs if a call fails. Its result has the type of the call's result.
type fallback[T any] func(ctx context.Context, failure error) (T, error)

// WithFallback calls f if the call fails for any reason, including the end of its context. f gets that context and the
// call's [*Error]. If f returns nil, the call succeeds. If f fails, its error joins the Cause of the call's error. The timeline
// keeps the reason and the error of the failure; its attribute "fallback" is "used" or "failed", and in the decision to stop it
// is "called". The result of f is not stored under an idempotency key. [Executor.Once] ignores fallbacks.
func WithFallback(f func(ctx context.Context, failure error) error) CallOption {
	argument.Need(f != nil, "retry: WithFallback: the function")
	return WithFallbackFunc(func(ctx context.Context, failure error) (struct{}, error) { return struct{}{}, f(ctx, failure) })
}

// WithFallbackValue returns value if the call fails; see [WithFallback]. T is the type of the call's result: a call with
// another type panics.
func WithFallbackValue[T any](value T) CallOption {
	return WithFallbackFunc(func(context.Context, error) (T, error) { return value, nil })
}

// WithFallbackFunc is [WithFallback] for an operation with a result. T is the type of the call's result: a call with another
// type panics.
func WithFallbackFunc[T any](f func(ctx context.Context, failure error) (T, error)) CallOption {
	argument.Need(f != nil, "retry: WithFallbackFunc: the function")
	return func(o *callOptions) { o.fallback = fallback[T](f) }
}

// fallbackOf returns the fallback of a call. It panics if the fallback's result has another type than the call's.
func fallbackOf[T any](o *callOptions) fallback[T] {
	f, ok := o.fallback.(fallback[T])
	if !ok {
		other := o.fallback.(interface{ result() string }) // any fallback
		if _, none := any(f).(fallback[struct{}]); none {
			panic(fmt.Sprintf("retry: the call returns no value, but its fallback %s: use retry.WithFallback", other.result()))
		}
		panic(fmt.Sprintf("retry: the call returns %s, but its fallback %s: name the call's type, as in retry.WithFallbackValue[%[1]s](…)",
			f.result(), other.result()))
	}
	return f
}

// result is the name of the fallback's result, that of an interface included.
func (fallback[T]) result() string { return reflect.TypeFor[T]().String() }

// fallBack calls the fallback of a call that failed with the caller's context.
func fallBack[T any](ctx context.Context, r *run, f fallback[T], last T) (value T, action decision.Action) {
	r.returned = false
	defer func() {
		if !r.returned {
			r.close(policy.ReasonPanicInOperation)
		}
	}()
	value, err := f(ctx, r.fail(r.verdict.Reason))
	r.returned = true
	if err != nil {
		r.fellBack, r.cause = "failed", errors.Join(r.cause, err)
		return last, decision.Stop
	}
	r.fellBack = "used"
	return value, decision.Done
}

// noteFallback adds the attribute "fallback" to the decision that stops a call with a fallback.
func (r *run) noteFallback(d *observe.Decision) {
	if r.options.fallback == nil || d.Verdict.Action != decision.Stop {
		return
	}
	attributes := map[string]string{observe.AttrFallback: "called"}
	for name, value := range d.Outcome.Attributes { // classifiers may share theirs
		attributes[name] = value
	}
	d.Outcome.Attributes = attributes
}
