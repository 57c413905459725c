package job

import (
	"math/rand/v2"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// ExponentialBackoff is a [RetryPolicy] by value: exponential with proportional jitter. Workers apply it as the data that it
// is, so that its delays are drawn from the job's ID and can be replayed.
type ExponentialBackoff struct {
	retry policy.Retry
	own   bool // no maximum: only the job's own counts
}

// BackoffOption changes a policy of [NewExponentialBackoffPolicy].
type BackoffOption func(*policy.Retry)

// WithMaxAttempts sets the highest number of attempts, 1 to 1,000; 0 is the default of 25. A negative number sets none: then
// only the job's own maximum counts, and a job without one has a single attempt.
func WithMaxAttempts(n int) BackoffOption { return func(r *policy.Retry) { r.MaxAttempts = n } }

// NewExponentialBackoffPolicy waits base, base·multiplier, base·multiplier² … up to longest, each spread by ± jitter (0.2 is
// 20 %). A longest below base wins: 10 s under 5 s waits 5 s. Values out of range are clamped as in documents; see
// policy.JobLimits.
func NewExponentialBackoffPolicy(base, longest time.Duration, multiplier, jitter float64, options ...BackoffOption) ExponentialBackoff {
	r := policy.Retry{InitialBackoff: base, MaxBackoff: longest, BackoffMultiplier: multiplier, Jitter: policy.JitterProportional, JitterFactor: jitter}
	if jitter == 0 {
		r.Jitter = policy.JitterNone
	}
	for _, o := range options {
		argument.Need(o != nil, "job: NewExponentialBackoffPolicy: an option")
		o(&r)
	}
	own := r.MaxAttempts < 0
	if own {
		r.MaxAttempts = policy.JobLimits().Attempts.Max
	}
	p, _ := policy.Policy{Retry: r}.Normalize(policy.JobLimits()) // only enums can fail, and they are set above
	return ExponentialBackoff{p.Retry, own}
}

// NextDelay implements RetryPolicy with a random seed.
func (e ExponentialBackoff) NextDelay(failed int) time.Duration {
	return decision.Delay(&e.retry, rand.Uint64(), max(failed, 1)-1)
}

// MaxAttempts implements RetryPolicy; 0 is none.
func (e ExponentialBackoff) MaxAttempts() int {
	if e.own {
		return 0
	}
	return e.retry.MaxAttempts
}

// Retry returns the policy as data. Without a maximum, its MaxAttempts is the highest that jobs can have.
func (e ExponentialBackoff) Retry() policy.Retry { return e.retry }
