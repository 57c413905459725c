package budget

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

// RetryRatio bounds retries and hedges to a share of the calls. A call's first attempt is always allowed and earns
// ratio tokens; each retry and hedge takes its cost. It starts with burst tokens and holds no more than that. Safe for
// concurrent use, without a lock.
//
// In any window, and so over its life, the retries and hedges that it allows cost at most ratio·calls + burst. Only calls earn
// tokens; the passing of time and ended attempts do not, so neither a long backoff nor a high latency loosens the bound. It counts in integers of a billionth of a token; ratio and burst are rounded down to that.
//
// It does not implement [Waiter]: only further calls refill it.
type RetryRatio struct {
	tokens atomic.Int64 // in units; what exceeds the burst, by the last credit or after a reload, is cut before it is spent
	limits atomic.Pointer[ratioLimits]
	// A successful call only reads tokens. Padding to a cache line keeps writes to neighbouring data from slowing that down.
	_ [48]byte
}

type ratioLimits struct{ ratio, burst int64 } // in units

const (
	unit           = 1_000_000_000 // 1 token
	maxRatioTokens = 1_000_000     // far from what int64 holds in units, also after many credits at once
)

// NewRetryRatio makes a full budget of burst extra attempts which gains ratio extra attempts per call. Negative numbers
// and NaN count as 0; both are cut to a million.
func NewRetryRatio(ratio, burst float64) *RetryRatio {
	b := &RetryRatio{}
	limits := &ratioLimits{ratio: units(ratio), burst: units(burst)}
	b.limits.Store(limits)
	b.tokens.Store(limits.burst)
	return b
}

// AllowAttempt allows every first attempt, and a retry or hedge if its cost is there.
func (b *RetryRatio) AllowAttempt(_ context.Context, _ policy.Key, attemptIdx int, kind AttemptKind, ref policy.BudgetRef) Decision {
	if attemptIdx > 0 || kind != KindRetry {
		return b.charge(b.limits.Load(), Cost(ref))
	}
	b.Earn()
	return Allow()
}

// Earn adds ratio tokens, unless the burst is there.
func (b *RetryRatio) Earn() {
	if limits := b.limits.Load(); b.tokens.Load() < limits.burst {
		b.tokens.Add(limits.ratio)
	}
}

func (b *RetryRatio) charge(limits *ratioLimits, cost int) Decision {
	if !b.spend(limits, int64(min(cost, maxRatioTokens+1))*unit) {
		return Deny("retry ratio used up")
	}
	return Allow()
}

func (b *RetryRatio) spend(limits *ratioLimits, cost int64) bool {
	for {
		tokens := b.tokens.Load()
		left := min(tokens, limits.burst) - cost
		if left < 0 {
			return false
		}
		if b.tokens.CompareAndSwap(tokens, left) {
			return true
		}
	}
}

// update changes the limits and keeps the tokens, cut to the new burst.
func (b *RetryRatio) update(ratio, burst float64) {
	limits := &ratioLimits{ratio: units(ratio), burst: units(burst)}
	b.limits.Store(limits)
	b.spend(limits, 0) // cuts
}

// units converts tokens to units, rounding down. Rounding to the nearest first keeps decimal numbers what they look
// like: 0.29·10⁹ is 289,999,999.99… in float64.
func units(tokens float64) int64 {
	tokens = amount(tokens, maxRatioTokens)
	nearest := math.Round(tokens * unit)
	if nearest/unit > tokens {
		nearest--
	}
	return int64(nearest)
}
