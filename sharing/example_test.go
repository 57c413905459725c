package sharing_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// shelf is a store in memory. A store compares versions, and does not look into states.
type shelf struct {
	mu     sync.Mutex
	states map[string]sharing.State
}

func (s *shelf) Load(_ context.Context, names []string) (sharing.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := sharing.Snapshot{Now: time.Now()}
	for _, name := range names {
		state := s.states[name]
		r.States = append(r.States, sharing.State{Name: name, Version: state.Version, Data: bytes.Clone(state.Data)})
	}
	return r, nil
}

func (s *shelf) Swap(_ context.Context, states []sharing.State) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := make([]bool, len(states))
	for i, state := range states {
		if err := state.Check(); err != nil {
			return nil, err
		}
		if stored[i] = s.states[state.Name].Version == state.Version; stored[i] {
			s.states[state.Name] = sharing.State{Version: state.Version + 1, Data: bytes.Clone(state.Data)}
		}
	}
	return stored, nil
}

// Two processes share a budget. Each has a hub of its own; here both use a store in memory, real ones use Redis, PostgreSQL or
// SQLite.
func Example() {
	store := &shelf{states: map[string]sharing.State{}}
	budgets := map[string]policy.Budget{
		"api": {Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10, Scope: policy.ScopeShared},
	}
	for range 2 {
		hub := sharing.NewHub(store)
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
