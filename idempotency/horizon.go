package idempotency

import (
	"fmt"
	"math"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// checkTTL refuses a TTL that ends before the callers of a policy have stopped coming back.
func checkTTL(ttl time.Duration, policies []policy.Policy) error {
	for _, p := range policies {
		if !p.Compiled() {
			normal, err := p.Normalize(policy.CallLimits())
			if err != nil {
				return fmt.Errorf("idempotency: policy %s: %w", p.Key, err)
			}
			p = normal
		}
		if longest := horizon(p.Retry); ttl < longest {
			return fmt.Errorf("idempotency: ttl %s: policy %s can keep retrying for %s, and would run again what is done; raise the ttl, or "+
				"lower the policy's max_attempts, backoff_cap, max_pushback or timeouts", ttl, p.Key, longest)
		}
	}
	return nil
}

// horizon is the longest time between the first attempt and the end of the last that a policy allows: all attempts as long
// as their timeout, and between them the longest delays, as jitter or a server's pushback may make them. The overall
// timeout cuts it. An attempt without a timeout counts as 0, because nothing bounds it. It saturates.
func horizon(r policy.Retry) time.Duration {
	total := float64(r.TimeoutPerAttempt) * float64(r.MaxAttempts)
	ceiling := float64(r.MaxBackoff)
	if ceiling <= 0 {
		ceiling = math.MaxInt64
	}
	delay, previous := float64(r.InitialBackoff), float64(r.InitialBackoff)
	for range r.MaxAttempts - 1 {
		longest := delay
		switch r.Jitter {
		case policy.JitterProportional:
			longest = delay * (1 + r.JitterFactor)
		case policy.JitterDecorrelated:
			previous = min(3*previous, ceiling)
			longest = previous
		}
		total += max(min(longest, ceiling), float64(r.MaxPushback))
		delay = min(delay*max(r.BackoffMultiplier, 1), ceiling)
	}
	horizon := time.Duration(math.MaxInt64)
	if total < math.MaxInt64 {
		horizon = time.Duration(total)
	}
	if r.OverallTimeout > 0 {
		horizon = min(horizon, r.OverallTimeout)
	}
	return horizon
}
