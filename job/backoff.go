package job

import (
	"math/rand/v2"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// ExponentialBackoff is a [RetryPolicy] by value: exponential with proportional jitter. Workers apply it as the policy that
// it is, so that its delays are drawn from the job's ID and can be replayed.
type ExponentialBackoff struct{ retry policy.Retry }

// BackoffOption changes a policy of [NewExponentialBackoffPolicy].
type BackoffOption func(*policy.Retry)

// WithMaxAttempts sets the highest number of attempts, default 25.
func WithMaxAttempts(n int) BackoffOption { return func(r *policy.Retry) { r.MaxAttempts = n } }

// NewExponentialBackoffPolicy waits base, base·multiplier, base·multiplier² … up to longest, each spread by ± jitter (0.2 is
// 20 %). Values out of range are clamped as in documents; see policy.JobLimits.
func NewExponentialBackoffPolicy(base, longest time.Duration, multiplier, jitter float64, options ...BackoffOption) ExponentialBackoff {
	r := policy.Retry{InitialBackoff: base, MaxBackoff: longest, BackoffMultiplier: multiplier, Jitter: policy.JitterProportional, JitterFactor: jitter}
	if jitter == 0 {
		r.Jitter = policy.JitterNone
	}
	for _, o := range options {
		o(&r)
	}
	p, _ := policy.Policy{Retry: r}.Normalize(policy.JobLimits()) // only enums can fail, and they are set above
	return ExponentialBackoff{p.Retry}
}

// NextDelay implements RetryPolicy with a random seed.
func (e ExponentialBackoff) NextDelay(failed int) time.Duration {
	return decision.Delay(&e.retry, rand.Uint64(), max(failed, 1)-1)
}

// MaxAttempts implements RetryPolicy.
func (e ExponentialBackoff) MaxAttempts() int { return e.retry.MaxAttempts }

// Retry returns the policy as data.
func (e ExponentialBackoff) Retry() policy.Retry { return e.retry }
