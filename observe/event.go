package observe

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// EventType says what an event tells.
type EventType string

// The types of events.
const (
	// CallStarted and AttemptStarted go to a [Starter] only.
	CallStarted    EventType = "call_started"
	AttemptStarted EventType = "attempt_started"
	// AttemptEnded: an attempt ended, was denied or was cancelled; Attempt is set.
	AttemptEnded EventType = "attempt_ended"
	// Decided: it was decided what follows an attempt or group; Decision is set.
	Decided EventType = "decided"
	// CallEnded: the work is finished; Timeline is set.
	CallEnded EventType = "call_ended"
	// CircuitChanged: a breaker changed its state; Circuit is set.
	CircuitChanged EventType = "circuit_changed"
	// Idempotent: a guard did something with the record of a key; Idempotency is set.
	Idempotent EventType = "idempotency"
	// JobMoved: a job went from one state to another; Transition is set.
	JobMoved EventType = "job_transition"
	// Reported: something that operators should know; Report is set.
	Reported EventType = "reported"
	// Flowed: something moved through a pipeline's engine; Flow is set.
	Flowed EventType = "flow"
)

// Event is one thing that happened. Which of the pointers are set depends on Type. It is immutable once an observer or
// journal has been given it, and may be kept.
type Event struct {
	Type EventType
	Time time.Time
	// Seq numbers the events of one piece of work from 1; 0 where an event belongs to none. Each turn of stored work has a
	// range of its own (retry.SeqPerTurn), since nobody counts from one to the next.
	Seq  int
	Work Work
	// Policy is the policy in force; nil where none was found.
	Policy *policy.Policy

	Attempt     *AttemptRecord
	Decision    *Decision
	Timeline    *Timeline
	Circuit     *CircuitChange
	Idempotency *IdempotencyAction
	Transition  *Transition
	Report      *Report
	Flow        *Flow
	// Trace is set with CallStarted, of work that has a trace of its own.
	Trace *Trace
}

// Work identifies what is being run. All but Key and Surface may be empty.
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
}

// AttemptRecord tells of one attempt. A denied attempt is a record too: its Outcome is an abort, Start equals End, and no
// operation ran.
type AttemptRecord struct {
	Attempt    int // launch order, from 1
	RetryIndex int // 0 for the first attempt or group
	HedgeIndex int // 0 for a primary
	Start, End time.Time
	// Outcome holds in its attributes also what a budget said in its own words: budget_reason and detail.
	Outcome classify.Outcome
	// Rule is the rule by which decision.Judge derives Outcome from Facts and the policy; "" where nothing was judged: the
	// attempt was denied, cancelled or interrupted by a panic.
	Rule decision.Rule
	// Facts is nil for a success that nobody classified, which is judged from none.
	Facts *decision.Facts
	Err   error
	// Backoff is the wait that came before the attempt.
	Backoff       time.Duration
	BudgetReason  policy.Reason
	BudgetAllowed bool
	// Denied is set where the attempt was refused by a budget, a breaker or max_extra_load.
	Denied bool
	// Circuit is the breaker's state when the attempt was admitted (closed, open, half_open), or "" without a breaker.
	Circuit string
}

// Decision tells what was decided after an attempt or a hedged group, and from what.
//
// Where Rule is not "", decision.Judge derives Outcome from Facts and the event's policy; the outcome of a group may have
// a longer pushback, which its other attempts were asked for. decision.Next derives Verdict from State and Outcome, unless
// Verdict is external or its reason comes from elsewhere: a budget, a breaker, the journal, a panic.
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
}

// CircuitChange tells that a breaker changed its state.
type CircuitChange struct{ From, To string }

// IdempotencyAction tells what became of a key: hit, record, failed, conflict, mismatch, fenced, released, unknown or
// cleared.
type IdempotencyAction struct {
	Tenant, Operation, Key string // of the record
	Action                 string
	Fence                  int64
	Attempts               int
	Detail                 string
}

// Transition tells that a stored job went from one state to another. From is "" for a new one.
type Transition struct {
	From, To string
	Reason   policy.Reason
	Attempts int // failed ones so far
	Worker   string
}

// Report tells operators something that no attempt or decision says.
type Report struct {
	Reason  policy.Reason // attempt_overrun, hedge_overrun, key_evicted, class_not_found …
	Detail  string
	Attempt int // 0 where it concerns none
	Panic   any // the value of a late loser's panic
	Stack   []byte
}

// Observer is told of every event. It must not block for long: it runs on the goroutine of the work.
type Observer interface {
	Observe(ctx context.Context, e *Event)
}

// Starter is an Observer that is also told of beginnings ([CallStarted], [AttemptStarted]) and may add to the context of
// what begins, for example a span.
type Starter interface {
	Start(ctx context.Context, e *Event) context.Context
}

// Journal takes decisions before they take effect. While Append returns an error nothing further is started for the
// work: its reason is then audit_unavailable. An effect that has completed is never undone by a refusal. The context is
// the caller's, but where the caller has gone already it does not end: a journal should bound what it does by itself.
type Journal interface {
	Append(ctx context.Context, e *Event) error
}

// Func adapts a function to an Observer.
type Func func(ctx context.Context, e *Event)

// Observe calls f.
func (f Func) Observe(ctx context.Context, e *Event) { f(ctx, e) }
