package decision

import (
	"math"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Unbounded is the time left if neither an overall timeout nor a deadline bounds the work.
const Unbounded = time.Duration(math.MaxInt64)

// State is how far a piece of work has come when one of its attempts (or hedged groups) has ended.
type State struct {
	Surface policy.Surface
	// Attempt counts the ended attempts (groups when hedging), this one included: 1 after the first.
	Attempt int
	// MaxAttempts is the effective maximum; 0 takes the policy's.
	MaxAttempts int
	// Left is the time until the work must end, Unbounded if nothing bounds it. LeftReason is what ends it:
	// overall_timeout or deadline_exceeded.
	Left       time.Duration
	LeftReason policy.Reason
	// Seed is the work's seed; it is read only if the policy's jitter draws.
	Seed uint64
	// External is set if user code computed the delay of the next attempt. Delay then takes the place of the policy's delay.
	External bool
	Delay    time.Duration
}

// MayRetry reports whether the work has attempts left.
func (s *State) MayRetry(r *policy.Retry) bool {
	limit := s.MaxAttempts
	if limit <= 0 {
		limit = r.MaxAttempts
	}
	return s.Attempt < limit
}

// Verdict is what happens next.
type Verdict struct {
	Action Action
	// Delay is the wait before the next attempt; 0 unless Action is Retry.
	Delay  time.Duration
	Reason policy.Reason
	// External is set if user code computed the delay: replay keeps it instead of deriving it.
	External bool
}

// Action is the kind of a verdict.
type Action uint8

// The actions.
const (
	Done  Action = iota // the work succeeded
	Retry               // another attempt follows after the delay
	Stop                // the work ends without success
)

// String returns done, retry or stop.
func (a Action) String() string {
	switch a {
	case Done:
		return "done"
	case Retry:
		return "retry"
	}
	return "stop"
}

// MarshalText implements encoding.TextMarshaler.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Next returns what follows an outcome, in this order: success; abort; non-retryable; attempts exhausted; pushback too long
// (calls and steps only: a job waits max_pushback); the end of the work would come before the next attempt could start;
// otherwise retry after the delay, the policy's or an external one, which is never shorter than the pushback.
func Next(r *policy.Retry, s *State, o *classify.Outcome) Verdict {
	switch o.Kind {
	case classify.Success:
		return Verdict{Action: Done, Reason: policy.ReasonSuccess}
	case classify.Abort:
		return Verdict{Action: Stop, Reason: abortReason(o.Reason)}
	case classify.NonRetryable:
		return Verdict{Action: Stop, Reason: policy.ReasonNonRetryable}
	}
	if !s.MayRetry(r) {
		return Verdict{Action: Stop, Reason: policy.ReasonAttemptsExhausted}
	}
	pushback := o.Pushback
	if pushback > r.MaxPushback {
		if s.Surface != policy.SurfaceJob {
			return Verdict{Action: Stop, Reason: policy.ReasonPushbackTooLong}
		}
		pushback = r.MaxPushback
	}
	delay := s.Delay
	if !s.External {
		delay = Delay(r, s.Seed, s.Attempt-1)
	}
	delay = max(delay, pushback, 0)
	if s.endsBefore(delay) {
		return Verdict{Action: Stop, Reason: s.LeftReason, External: s.External}
	}
	return Verdict{Action: Retry, Delay: delay, Reason: policy.ReasonRetry, External: s.External}
}

// endsBefore reports whether the work ends before an attempt after the delay could start. A delay without a cap may itself
// saturate at Unbounded.
func (s *State) endsBefore(delay time.Duration) bool { return s.Left != Unbounded && delay >= s.Left }

// abortReason keeps the reasons that say by themselves why work stopped.
func abortReason(r policy.Reason) policy.Reason {
	switch r {
	case policy.ReasonCanceled, policy.ReasonDeadlineExceeded, policy.ReasonOverallTimeout, policy.ReasonCanceledInternal,
		policy.ReasonPanicInClassifier, policy.ReasonPanicInBudget, policy.ReasonPanicInObserver, policy.ReasonPanicInTrigger:
		return r
	}
	return policy.ReasonAborted
}
