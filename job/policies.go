package job

import (
	"context"
	"slices"
	"sync"

	"github.com/tenetdev/tenet/policy"
)

// What governs a job's retries, from the strongest to the weakest:
//
//	WithRetryPolicy(nil): no retries
//	the document's entry for the job's type, then the one for its queue
//	the retry policy in code, be it data or an interface
//	the document's defaults for jobs
//	25 attempts, 200 ms doubling to 5 s
//
// Attempts and delays are looked up apart, as NextDelay and MaxAttempts are.

// retryFields are the fields of a policy that a retry policy in code stands for.
var (
	attemptFields = []string{"retry.max_attempts"}
	delayFields   = []string{"retry.backoff", "retry.backoff_cap", "retry.backoff_multiplier", "retry.jitter"}
)

// says reports whether a provider's policy for a key sets one of the fields, rather than taking it from the defaults for
// jobs, which are nil where they are not known.
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

// defaultsOf is the policy of jobs that a provider's document does not name, or nil.
func defaultsOf(ctx context.Context, provider policy.Provider) *policy.Policy {
	if document, ok := provider.(policy.SetProvider); ok && document.Set() != nil {
		if p, err := document.Set().Policy(ctx, policy.JobKey("", "")); err == nil {
			return p
		}
	}
	return nil
}

// fromCode says what of a job's retries the policy in code decides, where p is what the provider answered.
func (w *Worker) fromCode(ctx context.Context, p *policy.Policy) (attempts, delays bool) {
	switch {
	case w.code == nil:
		return false, false
	case w.document == nil:
		return true, true
	}
	defaults := defaultsOf(ctx, w.document)
	return !says(p, defaults, attemptFields), !says(p, defaults, delayFields)
}

// backed is a provider with a data policy in code below its entries. It remembers what it made of each answer, so that the
// same answer stays the same policy.
type backed struct {
	policy.Provider
	code ExponentialBackoff
	mu   sync.Mutex
	made map[policy.Key]made
}

type made struct{ of, policy *policy.Policy }

// back lays a data policy below a provider. The result has versions and a document where the provider has them.
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

// Set implements policy.SetProvider; nil where the provider holds no document.
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
	if broken != nil { // an enum that nobody knows: the executor says so
		return answer, err
	}
	b.made[key] = made{answer, laid}
	return laid, err
}

// lay fills in from the code what p does not say itself.
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
