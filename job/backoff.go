package job

import (
	"math/rand/v2"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// ExponentialBackoff is a [RetryPolicy] that consists of data. Workers apply it as data, so that its delays are derived from
// the job's ID and can be replayed.
type ExponentialBackoff struct {
	retry   policy.Retry
	jobsOwn bool // there is no maximum except the job's own
}

// NewExponentialBackoff takes MaxAttempts, InitialBackoff, MaxBackoff, BackoffMultiplier, Jitter and JitterFactor from r and
// ignores the other fields. Zero fields take the defaults of jobs: 25 attempts, 200 ms doubling to 5 s, each spread by
// ±20 %. Values out of range are clamped as in documents; see policy.JobLimits. A negative MaxAttempts sets no maximum: then
// only the job's own counts, and a job without one has a single attempt. An unknown Jitter panics.
func NewExponentialBackoff(r policy.Retry) ExponentialBackoff {
	own := r.MaxAttempts < 0
	if own {
		r.MaxAttempts = policy.JobLimits().Attempts.Max
	}
	p, err := policy.Policy{Retry: policy.Retry{
		MaxAttempts: r.MaxAttempts, InitialBackoff: r.InitialBackoff, MaxBackoff: r.MaxBackoff,
		BackoffMultiplier: r.BackoffMultiplier, Jitter: r.Jitter, JitterFactor: r.JitterFactor,
	}}.Normalize(policy.JobLimits())
	if err != nil {
		panic("job: NewExponentialBackoff: " + err.Error())
	}
	return ExponentialBackoff{p.Retry, own}
}

// BackoffOption changes a policy of [NewExponentialBackoffPolicy].
type BackoffOption func(*policy.Retry)

// WithMaxAttempts sets the highest number of attempts: 0 is the default of 25, and a negative number sets no maximum.
func WithMaxAttempts(n int) BackoffOption { return func(r *policy.Retry) { r.MaxAttempts = n } }

// NewExponentialBackoffPolicy is [NewExponentialBackoff] with proportional jitter: the delays are base, base·multiplier,
// base·multiplier² … up to longest, each spread by ± jitter (0.2 is 20 %). If longest is below base, longest applies. A jitter
// of 0 spreads nothing.
func NewExponentialBackoffPolicy(base, longest time.Duration, multiplier, jitter float64, options ...BackoffOption) ExponentialBackoff {
	r := policy.Retry{InitialBackoff: base, MaxBackoff: longest, BackoffMultiplier: multiplier, Jitter: policy.JitterProportional, JitterFactor: jitter}
	if jitter == 0 {
		r.Jitter = policy.JitterNone
	}
	for _, o := range options {
		argument.Need(o != nil, "job: NewExponentialBackoffPolicy: an option")
		o(&r)
	}
	return NewExponentialBackoff(r)
}

// NextDelay implements RetryPolicy with a random seed.
func (e ExponentialBackoff) NextDelay(failed int) time.Duration {
	return decision.Delay(&e.retry, rand.Uint64(), max(failed, 1)-1)
}

// MaxAttempts implements RetryPolicy; 0 means no maximum.
func (e ExponentialBackoff) MaxAttempts() int {
	if e.jobsOwn {
		return 0
	}
	return e.retry.MaxAttempts
}

// Retry returns the policy as data. Without a maximum, its MaxAttempts is the highest that jobs can have.
func (e ExponentialBackoff) Retry() policy.Retry { return e.retry }
