package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// An executor with its own policy and a budget that all keys share. The error says why a call stopped.
func ExampleNewExecutor() {
	retries, err := budget.New(policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 1})
	if err != nil {
		panic(err)
	}
	budgets := budget.NewRegistry()
	if err := budgets.Register("retries", retries); err != nil {
		panic(err)
	}
	p, err := policy.Compile(policy.Policy{
		ID: "rev-17",
		Retry: policy.Retry{
			MaxAttempts: 4, InitialBackoff: time.Millisecond, TimeoutPerAttempt: 300 * time.Millisecond,
			Budget: policy.BudgetRef{Name: "retries"},
		},
	}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		panic(err)
	}
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Provider: policy.NewSet(policy.SetConfig{Calls: p}),
		Budgets:  budgets,
	})

	err = executor.Do(context.Background(), policy.ParseKey("user-service.GetUser"), func(context.Context) error {
		return errors.New("unavailable")
	})
	var failure *retry.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Attempts, failure.Reason)
	}
	// Output: 2 budget_denied
}

func ExampleWithPolicy() {
	err := retry.NewExecutor(retry.ExecutorOptions{}).Do(context.Background(), policy.ParseKey("mail.Send"),
		func(context.Context) error { return errors.New("unavailable") },
		retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 1 }))
	fmt.Println(err)
	// Output: tenet: mail.Send: attempts_exhausted after 1 attempt: unavailable
}

// A policy in code needs only one more import.
func ExampleNew() {
	executor := retry.New(policy.Retry{MaxAttempts: 4, InitialBackoff: time.Millisecond})

	calls := 0
	err := executor.Do(context.Background(), policy.ParseKey("user-service.GetUser"), func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("unavailable")
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 3 <nil>
}

func ExampleWithFallbackValue() {
	executor := retry.New(policy.Retry{MaxAttempts: 2, InitialBackoff: time.Millisecond})

	price, err := retry.DoValue(context.Background(), executor, policy.ParseKey("prices.Get"),
		func(context.Context) (int, error) { return 0, errors.New("unavailable") },
		retry.WithFallbackValue(100))
	fmt.Println(price, err)
	// Output: 100 <nil>
}
