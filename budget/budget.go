package budget

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// AttemptKind says whether an attempt is a retry (or first attempt) or a hedge.
type AttemptKind int

// The kinds of attempt.
const (
	KindRetry AttemptKind = iota // a first attempt (index 0) or a retry
	KindHedge                    // an extra attempt while another one is running
)

// String returns "retry" or "hedge".
func (k AttemptKind) String() string {
	switch k {
	case KindRetry:
		return "retry"
	case KindHedge:
		return "hedge"
	}
	return fmt.Sprintf("AttemptKind(%d)", int(k))
}

// Decision is a budget's answer.
type Decision struct {
	Allowed bool
	// Reason is policy.ReasonAllowed or policy.ReasonBudgetDenied. Records keep any other one in the attribute budget_reason of
	// the attempt's outcome.
	Reason policy.Reason
	// Detail is free text about the reason, which records keep in the attribute detail of the attempt's outcome. May be
	// empty. It should not differ from attempt to attempt, and must not hold secrets.
	Detail string
	// Release frees what an allowed attempt holds; nil if it holds nothing. It is called exactly once, even if the attempt is
	// cancelled, panics or is never launched.
	Release func()
}

// Allow is the answer of a budget that allows an attempt and holds nothing for it.
func Allow() Decision { return Decision{Allowed: true, Reason: policy.ReasonAllowed} }

// Deny is the answer of a budget that refuses an attempt; detail says why in the budget's own words.
func Deny(detail string) Decision {
	return Decision{Reason: policy.ReasonBudgetDenied, Detail: detail}
}

// Budget allows or refuses attempts. Implementations are safe for concurrent use and do not block. The package
// documentation says how to write one.
type Budget interface {
	// AllowAttempt decides on one attempt of a call under key. attemptIdx counts from 0 over the whole call in the order
	// of launch; index 0 with KindRetry is the call's first attempt. ref is the policy's reference to this budget.
	AllowAttempt(ctx context.Context, key policy.Key, attemptIdx int, kind AttemptKind, ref policy.BudgetRef) Decision
}

// AtLaunch is implemented by budgets of resources that an attempt holds while it runs. If AskAtLaunch returns true, the budget
// is asked when a retry is launched, after its backoff; other budgets are asked before the backoff, when the retry is decided.
type AtLaunch interface {
	AskAtLaunch() bool
}

// Waiter is implemented by budgets that refill with time.
type Waiter interface {
	// Wait returns how long, counted from now, an attempt of this ref has to wait until it could be allowed: 0 if it could
	// be now. Nothing is reserved for it.
	Wait(ref policy.BudgetRef) time.Duration
}

// Earner is implemented by budgets that calls fill. A call asks a budget that only its hedges use for no first attempt; the executor
// calls Earn instead, once per call, when the first attempt has started.
type Earner interface {
	// Earn adds what one call earns.
	Earn()
}

// Cost returns the cost of an attempt under ref: ref.Cost, at least 1.
func Cost(ref policy.BudgetRef) int { return max(ref.Cost, 1) }

// New makes the budget that a document describes, for this process only. Absent ratio and burst take their defaults (0.2 and
// 10). It returns the *policy.ValidationError of a description that breaks a rule.
func New(b policy.Budget) (Budget, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	b = b.Normalize()
	switch b.Kind {
	case policy.BudgetTokenBucket:
		return NewTokenBucket(b.Capacity, b.RefillPerSecond), nil
	case policy.BudgetRetryRatio:
		return NewRetryRatio(b.Ratio, b.Burst), nil
	}
	return Unlimited{}, nil // Validate knows no further kind
}

// Unlimited allows every attempt.
type Unlimited struct{}

// AllowAttempt allows the attempt.
func (Unlimited) AllowAttempt(context.Context, policy.Key, int, AttemptKind, policy.BudgetRef) Decision {
	return Allow()
}

// amount makes a number of tokens safe to calculate with: it returns 0 for NaN and negative numbers, and at most limit.
func amount(x, limit float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, 0), limit)
}
