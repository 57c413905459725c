package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/policy"
)

type panickyBudget struct{}

func (panickyBudget) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	panic("boom")
}

func panickyBudgets(t *testing.T) *budget.Registry {
	t.Helper()
	r := budget.NewRegistry()
	if err := r.Register("b", panickyBudget{}); err != nil {
		t.Fatal(err)
	}
	return r
}

type triggerOf func(policy.Hedge, *hedge.Digest) (time.Duration, bool)

func (f triggerOf) Delay(h policy.Hedge, d *hedge.Digest) (time.Duration, bool) { return f(h, d) }

func boomTrigger(policy.Hedge, *hedge.Digest) (time.Duration, bool) { panic("boom") }

type triggersOf map[string]triggerOf

func (m triggersOf) asTriggers() map[string]hedge.Trigger {
	list := map[string]hedge.Trigger{}
	for name, f := range m {
		list[name] = f
	}
	return list
}
