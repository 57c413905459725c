package outage

import (
	"context"
	"time"

	avast "github.com/avast/retry-go/v5"
	failsafe "github.com/failsafe-go/failsafe-go/budget"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
)

// Tenet's budget in the grid, and the bound that it must keep: Ratio · calls + Burst extra attempts.
const (
	Ratio = 0.2
	Burst = 10
)

// The budgets that the checks refer to.
const (
	Tenet    = "Tenet"
	Failsafe = "failsafe-go"
)

// Budget is a retry budget as the simulation uses it.
type Budget struct {
	Name string
	// AfterWait means that the budget is asked after the backoff; other budgets are asked before it.
	AfterWait bool
	Start     func()                                    // a call begins
	Ended     func(attempt int, ok bool)                // attempt, from 0, ended
	Allow     func(now time.Duration, attempt int) bool // may attempt, from 1, be made?
	Finish    func()                                    // a call ended
}

// none allows every attempt. Other budgets start from it and replace some of its functions.
func none() Budget {
	return Budget{
		Name: "no budget", Start: func() {}, Ended: func(int, bool) {}, Finish: func() {},
		Allow: func(time.Duration, int) bool { return true },
	}
}

// budgets makes a budget of each kind; now is the virtual time.
func budgets(now func() time.Duration) []Budget {
	return []Budget{none(), retryRatio(), inFlight(), tokens(), finagle(now), grpc()}
}

// retryRatio is Tenet's budget.
func retryRatio() Budget {
	b := none()
	b.Name = Tenet
	ratio := budget.NewRetryRatio(Ratio, Burst)
	ask := func(attempt int) bool {
		return ratio.AllowAttempt(context.Background(), policy.Key{Name: "call"}, attempt, budget.KindRetry, policy.BudgetRef{Cost: 1}).Allowed
	}
	b.Start = func() { ask(0) }
	b.Allow = func(_ time.Duration, attempt int) bool { return ask(attempt) }
	return b
}

// inFlight is failsafe-go's budget: it limits running retries to 20 % of the calls and retries in flight, but allows at least
// 3 at a time. Its retry policy counts a call from its first attempt to its end, with backoffs, and a retry while it runs.
func inFlight() Budget {
	b := none()
	b.Name = Failsafe
	b.AfterWait = true
	shared := failsafe.New().(interface {
		RecordExecution()
		ReleaseExecution()
		TryAcquirePermit() bool
		ReleasePermit()
	})
	b.Start = shared.RecordExecution
	b.Finish = shared.ReleaseExecution
	b.Allow = func(time.Duration, int) bool { return shared.TryAcquirePermit() }
	b.Ended = func(attempt int, _ bool) {
		if attempt > 0 {
			shared.ReleasePermit()
		}
	}
	return b
}

// tokens is avast/retry-go's throttle with its defaults: a retry takes 5 of 100 tokens; a success returns 1, or 5 after a
// retry.
func tokens() Budget {
	b := none()
	b.Name = "avast v5 throttle"
	throttle := avast.NewFixedTokenBucketThrottle(avast.FixedTokenBucketThrottleConfig{})
	b.Allow = func(_ time.Duration, attempt int) bool { return throttle.AllowRetry(uint(attempt-1), nil) }
	b.Ended = func(attempt int, ok bool) {
		if ok {
			throttle.OnSuccess(uint(attempt))
		}
	}
	return b
}

// finagle rebuilds Finagle's RetryBudget with its defaults (com.twitter.finagle.service.RetryBudget over a leaky
// com.twitter.util.TokenBucket): a call deposits 1 and a retry costs 1/0.2; both are forgotten after 10 s, in steps of
// 1 s; on top comes a reserve for 10 retries per second.
func finagle(now func() time.Duration) Budget {
	const (
		slices  = 10 // of 1 s
		cost    = 5  // 1/0.2
		reserve = 10 * slices * cost
	)
	var ring [slices]int
	var newest int
	current := func() *int {
		second := int(now() / time.Second)
		for ; newest < second; newest++ {
			ring[(newest+1)%slices] = 0
		}
		return &ring[newest%slices]
	}
	b := none()
	b.Name = "Finagle (rebuilt)"
	b.Start = func() { *current()++ }
	b.Allow = func(time.Duration, int) bool {
		slice, sum := current(), reserve
		for _, n := range ring {
			sum += n
		}
		if sum < cost {
			return false
		}
		*slice -= cost
		return true
	}
	return b
}

// grpc rebuilds gRPC's retryThrottling with maxTokens 10 and tokenRatio 0.1 (proposal A6, client retries): a failed
// attempt takes a token, a success gives back 0.1, and there are no retries at half of the maximum or below.
func grpc() Budget {
	const most, ratio = 10.0, 0.1
	left := most
	b := none()
	b.Name = "gRPC (rebuilt)"
	b.Ended = func(_ int, ok bool) {
		if ok {
			left = min(left+ratio, most)
		} else {
			left = max(left-1, 0)
		}
	}
	b.Allow = func(time.Duration, int) bool { return left > most/2 }
	return b
}
