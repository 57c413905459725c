package sharing_test

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// Two processes share a budget. Each has a hub of its own; here both use a store in memory, real ones use Redis, PostgreSQL or
// SQLite.
func Example() {
	store := memory.Open()
	budgets := map[string]policy.Budget{
		"api": {Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10, Scope: policy.ScopeShared},
	}
	for range 2 {
		hub := sharing.NewHub(store.Limits())
		defer hub.Close(context.Background())
		registry := budget.NewSharedRegistry(hub)
		if err := registry.Apply(budgets); err != nil {
			fmt.Println(err)
		}
		api, _ := registry.Get("api")
		retry := api.AllowAttempt(context.Background(), policy.ParseKey("users.Get"), 1, budget.KindRetry, policy.BudgetRef{Name: "api"})
		fmt.Println(retry.Allowed)
	}
	// Output:
	// true
	// true
}
