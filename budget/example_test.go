package budget_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	budgets := budget.NewRegistry()
	err := budgets.Apply(map[string]policy.Budget{
		"shared-api": {Kind: policy.BudgetRetryRatio, Ratio: 0.5, Burst: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	shared, _ := budgets.Get("shared-api")
	ask := func(attemptIdx int) {
		d := shared.AllowAttempt(context.Background(), policy.ParseKey("users.Get"), attemptIdx, budget.KindRetry, policy.BudgetRef{Name: "shared-api"})
		fmt.Println(attemptIdx, d.Allowed, d.Reason)
	}
	ask(0) // a call
	ask(1) // its first retry uses the burst
	ask(2) // its second is one too many
	ask(0) // two more calls earn another retry
	ask(0)
	ask(1)
	// Output:
	// 0 true allowed
	// 1 true allowed
	// 2 false budget_denied
	// 0 true allowed
	// 0 true allowed
	// 1 true allowed
}

// Maintenance is a custom budget: a switch that stops retries and hedges while it is on.
type Maintenance struct{ on atomic.Bool }

func (m *Maintenance) AllowAttempt(_ context.Context, _ policy.Key, attemptIdx int, kind budget.AttemptKind, _ policy.BudgetRef) budget.Decision {
	first := attemptIdx == 0 && kind == budget.KindRetry
	if m.on.Load() && !first {
		return budget.Deny("maintenance")
	}
	return budget.Allow()
}

func ExampleBudget() {
	maintenance := &Maintenance{}
	budgets := budget.NewRegistry()
	if err := budgets.Register("maintenance", maintenance); err != nil {
		fmt.Println(err)
		return
	}
	maintenance.on.Store(true)

	b, _ := budgets.Get("maintenance")
	d := b.AllowAttempt(context.Background(), policy.ParseKey("users.Get"), 1, budget.KindRetry, policy.BudgetRef{Name: "maintenance"})
	fmt.Println(d.Allowed, d.Reason, d.Detail)
	// Output: false budget_denied maintenance
}
