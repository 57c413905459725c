package main

import (
	"context"
	"sync"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/sharing"
)

var key = policy.ParseKey("user-service.GetUser")

// far is a duration longer than any measurement.
const far = time.Second

var (
	ratioBudget  = map[string]policy.Budget{"shared": {Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10}}
	bucketBudget = map[string]policy.Budget{"shared": {Kind: policy.BudgetTokenBucket, Capacity: plenty, RefillPerSecond: plenty}}
	shared       = policy.BudgetRef{Name: "shared"}
)

// plenty is a number of attempts that no measurement reaches.
const plenty = 1e9

// widened are the limits of calls without the lower bound of 1 ms for backoffs.
func widened() policy.Limits {
	l := policy.CallLimits()
	l.Backoff.Min, l.Cap.Min = 1, 1
	return l
}

func eager() policy.Policy {
	return policy.Policy{Retry: policy.Retry{
		MaxAttempts: 3, InitialBackoff: 1, MaxBackoff: 1, BackoffMultiplier: 1, Jitter: policy.JitterNone,
	}}
}

func guarded() policy.Policy {
	return policy.Policy{
		Retry: policy.Retry{Budget: shared},
		Circuit: policy.Circuit{
			Kind: policy.CircuitRate, FailureRate: 0.5, MinimumCalls: 20, Window: 10 * time.Second, Cooldown: 10 * time.Second,
		},
	}
}

func bucketed() policy.Policy { return policy.Policy{Retry: policy.Retry{Budget: shared}} }

// adaptive, bounded and paced are so wide that they never refuse.
func adaptive() policy.Policy {
	return policy.Policy{Limit: policy.Limit{Concurrency: 1000, Adaptive: policy.Adaptive{Enabled: true, Initial: 1000}}}
}

func bounded() policy.Policy { return policy.Policy{Limit: policy.Limit{Concurrency: 1000}} }

func paced() policy.Policy {
	return policy.Policy{Limit: policy.Limit{Rate: policy.Rate{Count: 1_000_000, Per: time.Millisecond, Burst: 1_000_000}}}
}

func hedged() policy.Policy {
	return policy.Policy{Hedge: policy.Hedge{Enabled: true, HedgeDelay: far}}
}

func timed() policy.Policy { return policy.Policy{Retry: policy.Retry{TimeoutPerAttempt: far}} }

func full() policy.Policy {
	p := guarded()
	p.Retry.TimeoutPerAttempt = far
	p.Hedge = hedged().Hedge
	return p
}

// document makes a document of one policy.
func document(p policy.Policy, budgets map[string]policy.Budget) *policy.Set {
	p.Key = key
	compiled, err := policy.Compile(p, widened(), policy.SourceStatic)
	if err != nil {
		panic(err)
	}
	return policy.NewSet(policy.SetConfig{
		Source: policy.SourceStatic, Policies: map[policy.Key]*policy.Policy{key: compiled}, Budgets: budgets,
	})
}

func tenetWith(options retry.ExecutorOptions) func(Work) Call {
	return func(work Work) Call {
		e := retry.NewExecutor(options)
		op := retry.Operation(work)
		return func(ctx context.Context) error { return e.Do(ctx, key, op) }
	}
}

// tenetUnder makes an executor with its own budgets and breakers for each measurement.
func tenetUnder(p policy.Policy, budgets map[string]policy.Budget) func(Work) Call {
	return tenetWith(retry.ExecutorOptions{Provider: document(p, budgets)})
}

// hub is that of all executors with shared budgets; it lives as long as the program.
var hub = sync.OnceValue(func() *sharing.Hub { return sharing.NewHub(memory.Open().Limits()) })

// tenetSharing puts calls under a retry ratio of a scope.
func tenetSharing(scope policy.Scope) func(Work) Call {
	return func(work Work) Call {
		budgets := map[string]policy.Budget{"shared": {Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10, Scope: scope}}
		return tenetWith(retry.ExecutorOptions{Provider: document(bucketed(), budgets), Sharing: hub()})(work)
	}
}

func tenetDefault(work Work) Call { return tenetWith(retry.ExecutorOptions{})(work) }

func tenetOpen(work Work) Call {
	p := policy.Policy{Circuit: policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Hour}}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: document(p, nil)})
	_ = e.Do(context.Background(), key, fail) // opens the breaker
	op := retry.Operation(work)
	return func(ctx context.Context) error { return e.Do(ctx, key, op) }
}

func tenetBucket(work Work) Call {
	b := budget.NewTokenBucket(plenty, plenty)
	return func(ctx context.Context) error {
		b.AllowAttempt(ctx, key, 0, budget.KindRetry, shared)
		return work(ctx)
	}
}

func tenetObserved(work Work) Call {
	ignore := observe.Func(func(context.Context, *observe.Event) {})
	return tenetWith(retry.ExecutorOptions{Observer: ignore})(work)
}

func tenetTimeline(work Work) Call {
	e := retry.NewExecutor(retry.ExecutorOptions{})
	op := retry.Operation(work)
	return func(ctx context.Context) error {
		_, err := e.DoWithTimeline(ctx, key, op)
		return err
	}
}
