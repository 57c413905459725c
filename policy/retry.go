package policy

import (
	"slices"
	"time"
)

// Retry bounds the repetition of one piece of work. A zero field is absent and takes the default of its surface
// (see [Limits]); the defaults named here are those of calls.
type Retry struct {
	// MaxAttempts is the strict upper bound of attempts, the first included (groups of attempts when hedging).
	// Default 3.
	MaxAttempts int `json:"max_attempts" check:"min=1"`
	// InitialBackoff is the delay before the first retry, in seconds. Default 0.01.
	InitialBackoff time.Duration `json:"backoff" check:"min=0"`
	// BackoffMultiplier is the factor by which the delay grows from retry to retry. Default 2, or 1 in pipeline steps without
	// a backoff.
	BackoffMultiplier float64 `json:"backoff_multiplier" check:"min=1"`
	// MaxBackoff is the longest delay, in seconds; jitter never exceeds it. In pipeline steps 0 means no cap. For calls a cap below
	// the backoff is raised to it; elsewhere the cap wins. Default 0.25, or backoff if that is longer.
	MaxBackoff time.Duration `json:"backoff_cap" check:"min=0"`
	// Jitter spreads delays: none, full, equal, proportional or decorrelated. Default full.
	Jitter Jitter `json:"jitter"`
	// JitterFactor is the spread of proportional jitter: 0.1 is ±10 %. Default 0.1.
	JitterFactor float64 `json:"jitter_factor" check:"min=0,max=1"`
	// TimeoutPerAttempt bounds a single attempt, in seconds. Default none.
	TimeoutPerAttempt time.Duration `json:"timeout" check:"positive,null"`
	// OverallTimeout bounds all attempts and the waits between them, in seconds. Default none. Refused in pipeline steps.
	OverallTimeout time.Duration `json:"overall_timeout" check:"positive,null"`
	// ClassifierName names a registered classifier. Default: retry every error without a mark to the contrary.
	ClassifierName string `json:"classifier" check:"null"`
	// RetryOn limits retries to errors of these classes. Default: all errors that the classifier calls retryable.
	RetryOn []Class `json:"retry_on" check:"null"`
	// AbortOn lists classes of errors that are never retried.
	AbortOn []Class `json:"abort_on" check:"null"`
	// MaxPushback is the longest wait that a server may ask for (Retry-After), in seconds. If a server asks for more, a
	// call or step stops and a job waits this long. Default: backoff_cap, at least 60; jobs 7 days.
	MaxPushback time.Duration `json:"max_pushback" check:"positive,null"`
	// Budget is asked before every attempt. Default none.
	Budget BudgetRef `json:"budget" check:"null"`
}

// BudgetRef names the budget that is asked before an attempt.
type BudgetRef struct {
	// Name of a budget in the document or registered in code.
	Name string `json:"name"`
	// Cost of one attempt. Default 1.
	Cost int `json:"cost" check:"min=1"`
}

// Jitter says how a computed delay is spread.
type Jitter string

// The kinds of jitter; d is the delay, f the jitter factor. No kind exceeds the cap.
const (
	JitterNone         Jitter = "none"         // d
	JitterFull         Jitter = "full"         // 0 … d
	JitterEqual        Jitter = "equal"        // d/2 … d
	JitterProportional Jitter = "proportional" // d·(1−f) … d·(1+f)
	JitterDecorrelated Jitter = "decorrelated" // backoff … 3 × the previous delay
)

// Values lists the accepted values.
func (Jitter) Values() []string {
	return []string{string(JitterNone), string(JitterFull), string(JitterEqual), string(JitterProportional), string(JitterDecorrelated)}
}

func (r Retry) clone() Retry {
	r.RetryOn = slices.Clone(r.RetryOn)
	r.AbortOn = slices.Clone(r.AbortOn)
	return r
}
