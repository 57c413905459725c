package outage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// The backend of the overload: it serves ten requests at a time, 50 ms each, first come first served, whether or not anybody still
// waits for them. Requests that take longer than 300 ms have failed.
const (
	workers  = 10
	service  = 50 * time.Millisecond
	capacity = workers * int(time.Second/service) // requests a second
	longest  = 300 * time.Millisecond
)

type call func(ctx context.Context, operation func(context.Context) error) error

// overload offers requests at half of the capacity for ten seconds, from which limits learn the latency without load, then at a multiple
// of the capacity. It returns the share of the capacity that succeeded in time from the twentieth second of the minute on.
func overload(t *testing.T, multiple float64, start func() call) (goodput float64) {
	var good atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		do, free := start(), make(chan struct{}, workers)
		serve := func(ctx context.Context) error {
			served := make(chan struct{})
			go func() {
				free <- struct{}{}
				time.Sleep(service)
				<-free
				close(served)
			}()
			select {
			case <-served:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		begin := time.Now()
		for time.Since(begin) < Duration {
			go func() {
				err := do(context.Background(), serve)
				if ended := time.Since(begin); err == nil && ended > 20*time.Second && ended <= Duration {
					good.Add(1)
				}
			}()
			rate := multiple
			if time.Since(begin) < 10*time.Second {
				rate = 0.5
			}
			time.Sleep(time.Duration(float64(time.Second) / (rate * float64(capacity))))
		}
		time.Sleep(time.Hour)
	})
	return float64(good.Load()) / ((Duration - 20*time.Second).Seconds() * float64(capacity))
}

func tenetOverload(t *testing.T, l policy.Limit) func() call {
	p, err := policy.Compile(policy.Policy{Retry: policy.Retry{MaxAttempts: 1, TimeoutPerAttempt: longest}, Limit: l}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	return func() call {
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: policy.NewSet(policy.SetConfig{Calls: p})})
		return func(ctx context.Context, operation func(context.Context) error) error {
			return e.Do(ctx, policy.ParseKey("backend.Get"), operation)
		}
	}
}

func failsafeOverload(initial uint) func() call {
	return func() call {
		x := failsafe.With[any](
			adaptivelimiter.NewBuilder[any]().WithLimits(1, 200, initial).Build(), timeout.New[any](longest),
		)
		return func(ctx context.Context, operation func(context.Context) error) error {
			return x.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error { return operation(e.Context()) })
		}
	}
}

// TestB4TheAdaptiveLimitKeepsUpInAnOverload compares the goodput without a limit, with Tenet's adaptive limit and with
// failsafe-go's, both between 1 and 200 attempts. The first limit is the default of both, 20, or far above what the backend can do. Tenet's
// probes are what saves it in the second case. With -short there are fewer loads.
func TestB4TheAdaptiveLimitKeepsUpInAnOverload(t *testing.T) {
	multiples := []float64{0.9, 1.2, 3}
	if !testing.Short() {
		multiples = append(multiples, 0.5, 1.5, 6)
	}
	for _, multiple := range multiples {
		without := overload(t, multiple, tenetOverload(t, policy.Limit{}))
		for _, initial := range []int{20, 100} {
			limit := policy.Limit{Concurrency: 200, Adaptive: policy.Adaptive{Enabled: true, Initial: initial}}
			adaptive := overload(t, multiple, tenetOverload(t, limit))
			theirs := overload(t, multiple, failsafeOverload(uint(initial)))
			t.Logf("%3.1f × capacity, limit %3d at first: goodput %.3f without a limit, %.3f with Tenet's, %.3f with failsafe-go's",
				multiple, initial, without, adaptive, theirs)
			if adaptive < theirs-0.0005 {
				t.Errorf("at %v × capacity: goodput %.3f, failsafe-go's %.3f", multiple, adaptive, theirs)
			}
		}
	}
}
