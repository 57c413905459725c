package observe

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// EventType is the kind of an event.
type EventType string

// The types of events.
const (
	// CallStarted and AttemptStarted go to a [Starter] only.
	CallStarted    EventType = "call_started"
	AttemptStarted EventType = "attempt_started"
	// AttemptEnded: an attempt ended, was denied or was cancelled; Attempt is set.
	AttemptEnded EventType = "attempt_ended"
	// Decided: the continuation after an attempt or group was decided; Decision is set.
	Decided EventType = "decided"
	// CallEnded: the work is finished; Timeline is set.
	CallEnded EventType = "call_ended"
	// CircuitChanged: a breaker changed its state; Circuit is set.
	CircuitChanged EventType = "circuit_changed"
	// LimitChanged: an adaptive concurrency limit moved; Limit is set.
	LimitChanged EventType = "limit_changed"
	// Idempotent: a guard read or changed the record of a key; Idempotency is set.
	Idempotent EventType = "idempotency"
	// JobMoved: a job changed its state; Transition is set.
	JobMoved EventType = "job_transition"
	// Reported: a condition that operators should know of; Report is set.
	Reported EventType = "reported"
	// Flowed: something moved through a pipeline's engine; Flow is set.
	Flowed EventType = "flow"
)

// Event is one occurrence. Which of its pointers are set depends on Type. It is immutable once passed to an observer or
// journal, and may be kept.
type Event struct {
	Type EventType
	Time time.Time
	// Seq numbers the events of one piece of work from 1; 0 if an event belongs to none. Each turn of stored work has its own
	// range (retry.SeqPerTurn), since the count does not continue from one turn to the next.
	Seq  int
	Work Work
	// Policy is the policy in force; nil if none was found.
	Policy *policy.Policy

	Attempt     *AttemptRecord
	Decision    *Decision
	Timeline    *Timeline
	Circuit     *CircuitChange
	Limit       *LimitChange
	Idempotency *IdempotencyAction
	Transition  *Transition
	Report      *Report
	Flow        *Flow
	// Trace is set with CallStarted if the work has its own trace.
	Trace *Trace
}

// Work identifies a piece of work. All fields except Key and Surface may be empty.
type Work struct {
	ID             string // of the call (UUIDv7), job or transaction
	Key            policy.Key
	Surface        policy.Surface
	Operation      string
	Category       policy.Category
	IdempotencyKey string
	TenantID       string
	CorrelationID  string
	TraceID        string
	Attributes     Attributes // that the caller gave it, see retry.WithAttribute
	// Parent is the key of the work in whose attempt a call runs; zero outside one. Late reports lack it.
	Parent policy.Key
}

// AttemptRecord describes one attempt. A denied attempt has a record too: its Outcome is an abort, Start equals End, and no
// operation ran.
type AttemptRecord struct {
	Attempt    int // launch order, from 1
	RetryIndex int // 0 for the first attempt or group
	HedgeIndex int // 0 for a primary
	Start, End time.Time
	// Outcome also has, in its attributes, a budget's own reason and text, and the wait for a limit: budget_reason, detail and
	// limit_wait.
	Outcome classify.Outcome
	// Rule is the rule by which decision.Judge derives Outcome from Facts and the policy; "" if the attempt was not judged
	// because it was denied, cancelled or interrupted by a panic.
	Rule decision.Rule
	// Facts is nil for a success without a classifier, which is judged without facts.
	Facts *decision.Facts
	Err   error
	// Backoff is the wait that came before the attempt.
	Backoff       time.Duration
	BudgetReason  policy.Reason
	BudgetAllowed bool
	// Denied is set if the attempt was refused by a budget, a breaker, a limit or max_extra_load.
	Denied bool
	// Circuit is the breaker's state when the attempt was admitted (closed, open, half_open), or "" without a breaker.
	Circuit string
}

// Decision describes a decision after an attempt or a hedged group, with its inputs.
//
// If Rule is not "", decision.Judge derives Outcome from Facts and the event's policy; the outcome of a group may have a
// longer pushback, from another of its attempts. decision.Next derives Verdict from State and Outcome, unless Verdict is
// external or its reason comes from elsewhere: a budget, a breaker, a limit, the journal, a panic.
type Decision struct {
	Outcome classify.Outcome
	Rule    decision.Rule
	Facts   decision.Facts
	State   decision.State
	Verdict decision.Verdict
	Elapsed time.Duration // since the work began
	// Attempt is the number of the attempt that decided; Group lists the attempts of the group in the order in which they
	// ended.
	Attempt int
	Group   []int
	Err     error
	// Shadow is what the policy under trial decides, if that differs; nil otherwise. See retry.ExecutorOptions.Shadow.
	Shadow *ShadowDecision
}

// ShadowDecision is what a policy under trial decides in place of a decision. It has no effect.
type ShadowDecision struct {
	Revision string // of the policy under trial
	Verdict  decision.Verdict
}

// CircuitChange describes a change of a breaker's state.
type CircuitChange struct{ From, To string }

// LimitChange describes a change of an adaptive concurrency limit, in attempts at a time.
type LimitChange struct{ From, To int }

// LimitWait returns how long the attempt waited for its limit, and whether it did.
func (a *AttemptRecord) LimitWait() (time.Duration, bool) {
	text, waited := a.Outcome.Attributes[AttrLimitWait]
	if !waited {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// IdempotencyAction describes what a guard did with a key: hit, record, failed, conflict, mismatch, fenced, released, unknown
// or cleared.
type IdempotencyAction struct {
	Tenant, Operation, Key string // of the record
	Action                 string
	Fence                  int64
	Attempts               int
	Detail                 string
}

// Transition describes a change of a stored job's state. From is "" for a new job.
type Transition struct {
	From, To string
	Reason   policy.Reason
	Attempts int // failed ones so far
	Worker   string
}

// Report informs operators of a condition that does not show in attempts or decisions.
type Report struct {
	Reason  policy.Reason // attempt_overrun, hedge_overrun, key_evicted, class_not_found …
	Detail  string
	Attempt int // 0 if the report does not concern an attempt
	Panic   any // the value of a late loser's panic
	Stack   []byte
}

// Observer receives every event. It must not block for long: it runs on the goroutine of the work.
type Observer interface {
	Observe(ctx context.Context, e *Event)
}

// Starter is an Observer that also receives start events ([CallStarted], [AttemptStarted]) and may add values, for example a
// span, to the context of the work that starts. A nil result adds nothing.
type Starter interface {
	Start(ctx context.Context, e *Event) context.Context
}

// Journal receives decisions before they take effect. If Append returns an error, no further attempt starts for the work,
// whose reason is then audit_unavailable. A refusal never undoes an effect that has completed. The context is the caller's;
// if the caller has returned already, it does not end, so a journal should set its own timeouts.
type Journal interface {
	Append(ctx context.Context, e *Event) error
}

// Func adapts a function to an Observer.
type Func func(ctx context.Context, e *Event)

// Observe calls f.
func (f Func) Observe(ctx context.Context, e *Event) { f(ctx, e) }
