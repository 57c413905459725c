package idempotency

import (
	"fmt"
	"math"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// checkTTL refuses a TTL that is shorter than the time for which callers under a policy may retry.
func checkTTL(ttl time.Duration, policies []policy.Policy) error {
	for _, p := range policies {
		if !p.Compiled() {
			normal, err := p.Normalize(policy.CallLimits())
			if err != nil {
				return fmt.Errorf("idempotency: policy %s: %w", p.Key, err)
			}
			p = normal
		}
		if longest := horizon(&p); ttl < longest {
			return fmt.Errorf("idempotency: ttl %s: policy %s can keep retrying for %s, and would repeat an effect that has completed; raise the ttl, or "+
				"lower the policy's max_attempts, backoff_cap, max_pushback, timeouts or the limit's max_wait", ttl, p.Key, longest)
		}
	}
	return nil
}

// horizon returns the longest time that a policy allows between the start of the first attempt and the end of the last: all
// attempts take their timeout, the delays between them are the longest that jitter or a server's pushback can cause, and each retry
// waits for its limit as long as it may. The overall timeout bounds it. An attempt without a timeout counts as 0, because nothing bounds it. The result saturates.
func horizon(p *policy.Policy) time.Duration {
	r := &p.Retry
	total := r.TimeoutPerAttempt
	for i := range r.MaxAttempts - 1 {
		_, delay := decision.Bounds(r, i)
		for _, d := range []time.Duration{max(delay, r.MaxPushback), p.Limit.MaxWait, r.TimeoutPerAttempt} {
			total += min(d, math.MaxInt64-total)
		}
	}
	if r.OverallTimeout > 0 {
		total = min(total, r.OverallTimeout)
	}
	return total
}
