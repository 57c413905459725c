package budget

import (
	"context"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// shared is a token bucket or a retry ratio that processes share. It spends this process's lot of the tokens.
type shared struct {
	lot  *sharing.Lot
	kind policy.BudgetKind
}

func newShared(hub *sharing.Hub, name string, b policy.Budget) *shared {
	return &shared{lot: sharing.NewLot(hub, "budget/"+string(b.Kind)+"/"+name, terms(b)), kind: b.Kind}
}

// terms returns the terms of a budget's pool.
func terms(b policy.Budget) sharing.Terms {
	if b.Kind == policy.BudgetRetryRatio {
		return sharing.Terms{Capacity: b.Burst, Earn: b.Ratio}
	}
	return sharing.Terms{Capacity: b.Capacity, Refill: b.RefillPerSecond}
}

// AllowAttempt allows the attempt if the lot has its cost. The first attempts of a retry ratio are free, and earn.
func (b *shared) AllowAttempt(_ context.Context, _ policy.Key, attemptIdx int, kind AttemptKind, ref policy.BudgetRef) Decision {
	if b.kind == policy.BudgetRetryRatio && attemptIdx == 0 && kind == KindRetry {
		b.lot.Earn()
		return Allow()
	}
	if !b.lot.Spend(Cost(ref)) {
		return Deny("no tokens left in this process's share")
	}
	return Allow()
}

// Earn adds what a call earns. A token bucket earns nothing.
func (b *shared) Earn() {
	if b.kind == policy.BudgetRetryRatio {
		b.lot.Earn()
	}
}
