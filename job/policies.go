package job

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// A job's retries are governed by, from the strongest to the weakest:
//
//	WithRetryPolicy(nil): no retries
//	the document's entry for the job's type, then the one for its queue
//	the retry policy in code, whether data or an interface
//	the document's defaults for jobs
//	25 attempts, 200 ms doubling to 5 s
//
// Attempts and delays are looked up separately, as NextDelay and MaxAttempts are.

// policies are the sources of a worker's policies.
type policies struct {
	document  policy.Provider // nil if there is none
	code      RetryPolicy     // nil if there is none
	noRetries bool
}

// provider returns the document's provider, with the policy in code below it if that policy is data.
func (p *policies) provider() policy.Provider {
	data, isData := p.code.(ExponentialBackoff)
	switch {
	case p.document == nil:
		jobs, err := policy.Compile(policy.Policy{Retry: data.Retry()}, policy.JobLimits(), policy.SourceStatic)
		if err != nil { // an invalid enum, which the constructors rule out
			panic(err)
		}
		return policy.NewSet(policy.SetConfig{Source: policy.SourceDefault, Jobs: jobs})
	case isData:
		return back(p.document, data)
	}
	return p.document
}

// warn logs that both a policy in code and a provider are set.
func (p *policies) warn(log *slog.Logger) {
	switch {
	case p.document != nil && p.noRetries:
		log.Info("job: WithRetryPolicy(nil) is set beside a provider: no job is retried, whatever its policies say")
	case p.document != nil && p.code != nil:
		log.Info("job: a retry policy in code is set beside a provider: it governs where the provider has no entry for a job's queue or type")
	}
}

// The fields of a policy that a retry policy in code replaces.
var (
	attemptFields = []string{"retry.max_attempts"}
	delayFields   = []string{"retry.backoff", "retry.backoff_cap", "retry.backoff_multiplier", "retry.jitter"}
)

// says reports whether a provider's policy for a key sets one of the fields itself, instead of taking it from the defaults
// for jobs. defaults is nil if they are not known.
func says(p, defaults *policy.Policy, fields []string) bool {
	return slices.ContainsFunc(fields, func(field string) bool {
		if slices.Contains(p.Meta.Defaulted, field) {
			return false
		}
		return defaults == nil || slices.Contains(defaults.Meta.Defaulted, field) || differs(&p.Retry, &defaults.Retry, field)
	})
}

func differs(a, b *policy.Retry, field string) bool {
	switch field {
	case "retry.max_attempts":
		return a.MaxAttempts != b.MaxAttempts
	case "retry.backoff":
		return a.InitialBackoff != b.InitialBackoff
	case "retry.backoff_cap":
		return a.MaxBackoff != b.MaxBackoff
	case "retry.backoff_multiplier":
		return a.BackoffMultiplier != b.BackoffMultiplier
	}
	return a.Jitter != b.Jitter || a.JitterFactor != b.JitterFactor
}

// defaultsOf returns the policy of jobs that a provider's document does not name, or nil.
func defaultsOf(ctx context.Context, provider policy.Provider) *policy.Policy {
	if document, ok := provider.(policy.SetProvider); ok && document.Set() != nil {
		if p, err := document.Set().Policy(ctx, policy.JobKey("", "")); err == nil {
			return p
		}
	}
	return nil
}

// fromCode reports whether the policy in code decides the number of a job's attempts and their delays; answer is the
// provider's policy.
func (p *policies) fromCode(ctx context.Context, answer *policy.Policy) (attempts, delays bool) {
	switch {
	case p.code == nil:
		return false, false
	case p.document == nil:
		return true, true
	}
	defaults := defaultsOf(ctx, p.document)
	return !says(answer, defaults, attemptFields), !says(answer, defaults, delayFields)
}

// limit returns the number of attempts that a job has: the lower of the job's own maximum and the policy's, the one that is
// set if only one is, or 1. If the retry policy in code panics, limit returns the failure and the number without that policy.
func (p *policies) limit(r *Record, answer *policy.Policy, askCode bool) (limit int, failure *panicError) {
	if p.noRetries {
		return 1, nil
	}
	limit = answer.Retry.MaxAttempts
	if askCode {
		failure = guarded("MaxAttempts of the retry policy", func() { limit = p.code.MaxAttempts() })
	}
	switch {
	case limit > 0 && r.MaxAttempts > 0:
		return min(limit, r.MaxAttempts), failure
	case limit > 0:
		return limit, failure
	}
	return max(r.MaxAttempts, 1), failure
}

// nextDelay returns the delay of the retry policy in code, or undecidedDelay if that policy panics.
func (p *policies) nextDelay(failed int) (d time.Duration, failure *panicError) {
	d = undecidedDelay
	failure = guarded("NextDelay of the retry policy", func() { d = p.code.NextDelay(failed) })
	return d, failure
}

// backed is a provider with a data policy in code below its entries. It keeps the policy made from each answer, so that the
// same answer gives the same policy.
type backed struct {
	policy.Provider
	code ExponentialBackoff
	mu   sync.Mutex
	made map[policy.Key]made
}

type made struct{ of, policy *policy.Policy }

// back puts a data policy below a provider. The result has versions and a document if the provider has them.
func back(provider policy.Provider, code ExponentialBackoff) policy.Provider {
	b := &backed{Provider: provider, code: code, made: map[policy.Key]made{}}
	if v, ok := provider.(policy.Versioned); ok {
		return struct {
			*backed
			policy.Versioned
		}{b, v}
	}
	return b
}

// Set implements policy.SetProvider; nil if the provider has no document.
func (b *backed) Set() *policy.Set {
	if document, ok := b.Provider.(policy.SetProvider); ok {
		return document.Set()
	}
	return nil
}

// Policy implements policy.Provider.
func (b *backed) Policy(ctx context.Context, key policy.Key) (*policy.Policy, error) {
	answer, err := b.Provider.Policy(ctx, key)
	if answer == nil && err == nil {
		err = policy.ErrPolicyNotFound
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.made[key]; m.policy != nil && m.of == answer {
		return m.policy, err
	}
	p := answer
	if p == nil {
		p = &policy.Policy{Key: key, Meta: policy.Meta{Defaulted: slices.Concat(attemptFields, delayFields)}}
	}
	laid, broken := b.lay(p, defaultsOf(ctx, b.Provider))
	if broken != nil { // an unknown enum value, which the executor reports
		return answer, err
	}
	b.made[key] = made{answer, laid}
	return laid, err
}

// lay fills in the fields that p does not set itself.
func (b *backed) lay(p, defaults *policy.Policy) (*policy.Policy, error) {
	laid := p.Clone()
	r, code := &laid.Retry, b.code.Retry()
	var filled []string
	if !says(p, defaults, attemptFields) && b.code.MaxAttempts() > 0 {
		r.MaxAttempts = code.MaxAttempts
		filled = append(filled, attemptFields...)
	}
	if !says(p, defaults, delayFields) {
		r.InitialBackoff, r.MaxBackoff, r.BackoffMultiplier = code.InitialBackoff, code.MaxBackoff, code.BackoffMultiplier
		r.Jitter, r.JitterFactor = code.Jitter, code.JitterFactor
		filled = append(filled, delayFields...)
	}
	laid.Meta.Defaulted = slices.DeleteFunc(laid.Meta.Defaulted, func(field string) bool { return slices.Contains(filled, field) })
	source := p.Meta.Source
	if source == "" || source == policy.SourceDefault {
		source = policy.SourceStatic
	}
	return policy.Compile(laid, policy.JobLimits(), source)
}
