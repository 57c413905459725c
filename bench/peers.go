package main

import (
	"context"
	"errors"
	"slices"
	"time"

	avastv4 "github.com/avast/retry-go/v4"
	avastv5 "github.com/avast/retry-go/v5"
	backoffv5 "github.com/cenkalti/backoff/v5"
	backoffv7 "github.com/cenkalti/backoff/v7"
	fs "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	fsbudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	goretry "github.com/sethvargo/go-retry"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
)

// Each peer is set up to show its best:
//
//   - Options are built once and shared by all calls; only objects with state are made per call. The cost of making options
//     where they are used, as the documentation shows, is a separate case for cenkalti v5.
//   - Where an object holds the context (failsafe-go's executor, avast's retrier), it is made once, with a context that
//     can be cancelled. A server, where each request has a context, makes one per call; the cost of that is a separate case
//     for avast v5. The exception are failsafe-go's policies that derive contexts.
//   - An operation that takes no context is made once, with a fixed one. With a request's context it would be a closure
//     per call.
//   - Features that the others lack in a scenario are off: cenkalti's limit on the elapsed time, avast's list of all errors.

// steady is the context of a server's lifetime: it can be cancelled but never is.
var steady, _ = context.WithCancel(context.Background())

// failsafe-go

func failsafeWith(policies ...fs.Policy[any]) func(Work) Call {
	return func(work Work) Call {
		executor := fs.With(policies...).WithContext(steady)
		run := func() error { return work(steady) }
		return func(context.Context) error { return executor.Run(run) }
	}
}

// failsafeInside is for policies that derive contexts for the operation. They get the call's own context: deriving from one
// shared context would contend for its lock, which does not happen in a server.
func failsafeInside(policies ...fs.Policy[any]) func(Work) Call {
	return func(work Work) Call {
		executor := fs.With(policies...)
		run := func(exec fs.Execution[any]) error { return work(exec.Context()) }
		return func(ctx context.Context) error { return executor.WithContext(ctx).RunWithExecution(run) }
	}
}

func failsafeRetries() retrypolicy.Builder[any] {
	return retrypolicy.NewBuilder[any]().WithMaxAttempts(3).WithBackoff(10*time.Millisecond, 250*time.Millisecond)
}

// failsafeBreaker opens at 50 % of at least 20 in 10 s, as Tenet's does. Its executions are counted in 10 buckets too.
func failsafeBreaker() circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(10 * time.Second).Build()
}

func failsafeRetry(work Work) Call { return failsafeWith(failsafeRetries().Build())(work) }

func failsafeEager(work Work) Call {
	return failsafeWith(retrypolicy.NewBuilder[any]().WithMaxAttempts(3).WithDelay(1).ReturnLastFailure().Build())(work)
}

func failsafeGuarded(work Work) Call {
	return failsafeWith(failsafeRetries().WithBudget(fsbudget.New()).Build(), failsafeBreaker())(work)
}

func failsafeOpen(work Work) Call {
	breaker := circuitbreaker.NewBuilder[any]().WithDelay(time.Hour).Build()
	breaker.Open()
	return failsafeWith(failsafeRetries().AbortOnErrors(circuitbreaker.ErrOpen).Build(), breaker)(work)
}

func failsafeLimited(work Work) Call {
	return failsafeWith(ratelimiter.NewBursty[any](plenty, time.Second))(work)
}

func failsafeAdaptive(work Work) Call {
	return failsafeWith(adaptivelimiter.NewBuilder[any]().WithLimits(1, 1000, 1000).Build())(work)
}

func failsafeBulkhead(work Work) Call { return failsafeWith(bulkhead.New[any](1000))(work) }

func failsafeHedged(work Work) Call { return failsafeInside(hedgepolicy.NewWithDelay[any](far))(work) }

func failsafeTimed(work Work) Call { return failsafeInside(timeout.New[any](far))(work) }

func failsafeFull(work Work) Call {
	return failsafeInside(
		failsafeRetries().WithBudget(fsbudget.New()).Build(), hedgepolicy.NewWithDelay[any](far), failsafeBreaker(), timeout.New[any](far),
	)(work)
}

func failsafeObserved(work Work) Call {
	executor := fs.With[any](failsafeRetries().Build()).WithContext(steady).OnDone(func(fs.ExecutionDoneEvent[any]) {})
	run := func() error { return work(steady) }
	return func(context.Context) error { return executor.Run(run) }
}

// cenkalti/backoff

func cenkalti5With(options ...backoffv5.RetryOption) func(Work) Call {
	return func(work Work) Call {
		op := func() (bool, error) { err := work(steady); return err == nil, err }
		return func(ctx context.Context) error {
			_, err := backoffv5.Retry(ctx, op, options...)
			return err
		}
	}
}

func cenkalti7With(options ...backoffv7.RetryOption) func(Work) Call {
	return func(work Work) Call {
		op := func() (bool, error) { err := work(steady); return err == nil, err }
		return func(ctx context.Context) error {
			_, err := backoffv7.Retry(ctx, op, options...)
			return err
		}
	}
}

// The exponential backoff is Retry's own default, which it makes per call.

func cenkalti5(work Work) Call {
	return cenkalti5With(backoffv5.WithMaxTries(3), backoffv5.WithMaxElapsedTime(0))(work)
}

func cenkalti7(work Work) Call {
	return cenkalti7With(backoffv7.WithMaxTries(3), backoffv7.WithMaxElapsedTime(0))(work)
}

// cenkalti5PerCall makes everything where it is used, as the documentation shows.
func cenkalti5PerCall(work Work) Call {
	return func(ctx context.Context) error {
		op := func() (struct{}, error) { return struct{}{}, work(ctx) }
		_, err := backoffv5.Retry(ctx, op, backoffv5.WithBackOff(backoffv5.NewExponentialBackOff()), backoffv5.WithMaxTries(3))
		return err
	}
}

// A constant backoff has no state and can be shared.

func cenkalti5Eager(work Work) Call {
	return cenkalti5With(backoffv5.WithMaxTries(3), backoffv5.WithMaxElapsedTime(0), backoffv5.WithBackOff(backoffv5.NewConstantBackOff(1)))(work)
}

func cenkalti7Eager(work Work) Call {
	return cenkalti7With(backoffv7.WithMaxTries(3), backoffv7.WithMaxElapsedTime(0), backoffv7.WithBackOff(backoffv7.NewConstantBackOff(1)))(work)
}

// avast/retry-go

func avast4With(options ...avastv4.Option) func(Work) Call {
	return func(work Work) Call {
		op := func() error { return work(steady) }
		return func(context.Context) error { return avastv4.Do(op, options...) }
	}
}

func avast4(work Work) Call {
	return avast4With(avastv4.Context(steady), avastv4.Attempts(3), avastv4.LastErrorOnly(true))(work)
}

func avast4Eager(work Work) Call {
	return avast4With(avastv4.Context(steady), avastv4.Attempts(3), avastv4.LastErrorOnly(true),
		avastv4.Delay(1), avastv4.DelayType(avastv4.FixedDelay))(work)
}

func avast5With(options ...avastv5.Option) func(Work) Call {
	return func(work Work) Call {
		retrier := avastv5.New(append(options, avastv5.Context(steady))...)
		op := func() error { return work(steady) }
		return func(context.Context) error { return retrier.Do(op) }
	}
}

func avast5WithPerContext(options ...avastv5.Option) func(Work) Call {
	return func(work Work) Call {
		return func(ctx context.Context) error {
			all := slices.Concat(options, []avastv5.Option{avastv5.Context(ctx)})
			return avastv5.New(all...).Do(func() error { return work(ctx) })
		}
	}
}

func avast5Options() []avastv5.Option {
	return []avastv5.Option{avastv5.Attempts(3), avastv5.LastErrorOnly(true)}
}

func avast5EagerOptions() []avastv5.Option {
	return append(avast5Options(), avastv5.Delay(1), avastv5.DelayType(avastv5.FixedDelay))
}

func avast5(work Work) Call           { return avast5With(avast5Options()...)(work) }
func avast5PerContext(work Work) Call { return avast5WithPerContext(avast5Options()...)(work) }
func avast5Eager(work Work) Call      { return avast5With(avast5EagerOptions()...)(work) }
func avast5EagerPerContext(work Work) Call {
	return avast5WithPerContext(avast5EagerOptions()...)(work)
}

// sethvargo/go-retry: a backoff counts its retries and so is made per call; errors to retry have to be wrapped.

func sethvargoWith(work Work, backoff func() goretry.Backoff) Call {
	op := goretry.RetryFunc(func(ctx context.Context) error { return goretry.RetryableError(work(ctx)) })
	return func(ctx context.Context) error { return goretry.Do(ctx, backoff(), op) }
}

func sethvargo(work Work) Call {
	return sethvargoWith(work, func() goretry.Backoff {
		return goretry.WithMaxRetries(2, goretry.NewExponential(10*time.Millisecond))
	})
}

func sethvargoEager(work Work) Call {
	constant := goretry.NewConstant(1)
	return sethvargoWith(work, func() goretry.Backoff { return goretry.WithMaxRetries(2, constant) })
}

// sony/gobreaker

func gobreakerClosed(work Work) Call {
	breaker := gobreaker.NewCircuitBreaker[bool](gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.Requests >= 20 && 2*c.TotalFailures >= c.Requests },
	})
	op := func() (bool, error) { err := work(steady); return err == nil, err }
	return func(context.Context) error {
		_, err := breaker.Execute(op)
		return err
	}
}

func gobreakerOpen(work Work) Call {
	breaker := gobreaker.NewCircuitBreaker[bool](gobreaker.Settings{
		Timeout: time.Hour, ReadyToTrip: func(gobreaker.Counts) bool { return true },
	})
	_, _ = breaker.Execute(func() (bool, error) { return false, errWork }) // opens it
	op := func() (bool, error) { err := work(steady); return err == nil, err }
	return func(context.Context) error {
		_, err := breaker.Execute(op)
		return err
	}
}

// x/time/rate

var errLimited = errors.New("rate limited")

func rateLimiter(work Work) Call {
	limiter := rate.NewLimiter(plenty, plenty)
	return func(ctx context.Context) error {
		if !limiter.Allow() {
			return errLimited
		}
		return work(ctx)
	}
}

func rateLoop(work Work) Call {
	limiter := rate.NewLimiter(plenty, plenty)
	return loop(func(ctx context.Context) error {
		if !limiter.Allow() {
			return errLimited
		}
		return work(ctx)
	})
}

// Hand-written code without a library.

func loop(work Work) Call      { return loopAfter(work, 10*time.Millisecond) }
func loopEager(work Work) Call { return loopAfter(work, 1) }

func loopAfter(work Work, backoff time.Duration) Call {
	return func(ctx context.Context) error {
		wait := backoff
		for attempt := 1; ; attempt++ {
			err := work(ctx)
			if err == nil || attempt == 3 {
				return err
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
			if wait > 1 {
				wait *= 2
			}
		}
	}
}

func bareTimeout(work Work) Call {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, far)
		defer cancel()
		return work(ctx)
	}
}
