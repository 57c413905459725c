package audit

import (
	"encoding/json"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// SchemaVersion is the version of the events' form.
const SchemaVersion = 1

// CoreVersion is the version of the functions of package decision: the same version derives the same decisions.
const CoreVersion = "1"

// Type says what an event tells.
type Type string

// The types of events.
const (
	RetryAttempt   Type = "retry_attempt"   // an attempt or group failed and another follows
	RetryExhausted Type = "retry_exhausted" // the last attempt that the policy allows failed
	CallStopped    Type = "call_stopped"    // ended for another reason: not retryable, deadline, budget, breaker, panic …
	CallSucceeded  Type = "call_succeeded"
	Hedge          Type = "hedge" // one attempt of a hedged group ended, was cancelled or was denied
	Idempotency    Type = "idempotency"
	JobTransition  Type = "job_transition"
	CircuitChanged Type = "circuit_changed"
	PolicySnapshot Type = "policy_snapshot" // holds a policy before its first use in a segment
	PolicyChanged  Type = "policy_changed"
	OperatorAction Type = "operator_action"
	ChainOpened    Type = "chain_opened" // first of a chain, with the heads of the chains already there
	CallCount      Type = "call_count"   // successes that sampling left out, and events that were lost
)

// Types lists the types of events in a fixed order.
func Types() []Type {
	return []Type{
		RetryAttempt, RetryExhausted, CallStopped, CallSucceeded, Hedge, Idempotency, JobTransition, CircuitChanged, PolicySnapshot,
		PolicyChanged, OperatorAction, ChainOpened, CallCount,
	}
}

// Event is one decision on record. Which fields are set depends on the type; empty ones are left out. In canonical JSON
// members are in the order of their names. docs/audit-schema.md says what each of them means.
//
// Integers are at most 2⁵³ in size; durations in nanoseconds and seeds, which can be larger, are kept exactly.
type Event struct {
	SchemaVersion int       `json:"schema_version"`
	ID            string    `json:"event_id"` // UUIDv7; the same wherever the event is delivered again
	Type          Type      `json:"event_type"`
	Time          time.Time `json:"timestamp"` // UTC, microseconds

	// The work.
	Surface        string `json:"surface,omitempty"`
	Key            string `json:"key,omitempty"`
	WorkID         string `json:"work_id,omitempty"` // call, job or transaction
	WorkSeq        int    `json:"work_seq,omitempty"`
	Operation      string `json:"operation,omitempty"`
	Category       string `json:"retry_category,omitempty"` // code
	TenantID       string `json:"tenant_id,omitempty"`
	CorrelationID  string `json:"correlation_id,omitempty"`
	TraceID        string `json:"trace_id,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`

	// The policy.
	PolicyID       string          `json:"policy_id,omitempty"`
	PolicyRevision string          `json:"policy_revision,omitempty"`
	Policy         json.RawMessage `json:"policy,omitempty"` // canonical; policy_snapshot and policy_changed

	// The attempt that just ended, and what it meant.
	Attempt         int            `json:"attempt_number,omitempty"`
	MaxAttempts     int            `json:"max_attempts,omitempty"` // effective
	TookNS          Nanos          `json:"took_ns,omitempty"`      // from its start to its end
	RetryIndex      int            `json:"retry_index,omitempty"`
	HedgeIndex      int            `json:"hedge_index,omitempty"`
	OutcomeKind     string         `json:"outcome_kind,omitempty"`
	OutcomeCategory string         `json:"outcome_category,omitempty"`
	OutcomeClass    policy.Class   `json:"outcome_class,omitempty"`
	OutcomeClasses  []policy.Class `json:"outcome_classes,omitempty"` // of the error
	OutcomeReason   policy.Reason  `json:"outcome_reason,omitempty"`
	PushbackNS      Nanos          `json:"pushback_ns,omitempty"`
	MatchedRule     decision.Rule  `json:"matched_rule,omitempty"` // absent: nothing was judged
	Facts           *Facts         `json:"facts,omitempty"`        // what the judgement was made from

	// The decision, and the state that it was made from.
	Decision    string        `json:"decision,omitempty"` // retry, stop or done
	Reason      policy.Reason `json:"reason,omitempty"`
	Delay       float64       `json:"delay_seconds,omitempty"` // the wait after the attempt
	DelayNS     Nanos         `json:"delay_ns,omitempty"`      // the same, exact
	External    bool          `json:"delay_external,omitempty"`
	ElapsedNS   Nanos         `json:"elapsed_ns,omitempty"`
	LeftNS      *Nanos        `json:"left_ns,omitempty"` // absent: unbounded, or not asked for
	LeftReason  policy.Reason `json:"left_reason,omitempty"`
	StateNumber int           `json:"state_attempt,omitempty"`      // ended attempts or groups
	StateLimit  int           `json:"state_max_attempts,omitempty"` // the work's own maximum; absent: the policy's
	Seed        uint64        `json:"seed,omitempty,string"`        // absent: 0, or not drawn from
	Group       []int         `json:"group,omitempty"`              // attempts of a hedged group in the order in which they ended
	Deciding    int           `json:"deciding,omitempty"`           // the attempt of the group that decided
	CoreVersion string        `json:"core_version,omitempty"`

	// Admission.
	BudgetAllowed *bool         `json:"budget_allowed,omitempty"`
	BudgetReason  policy.Reason `json:"budget_reason,omitempty"`
	Circuit       string        `json:"circuit_state,omitempty"`
	Denied        bool          `json:"denied,omitempty"` // an attempt was refused; in a decision: the next one

	// The error.
	ExceptionType         string `json:"exception_type,omitempty"`
	ExceptionMessage      string `json:"exception_message,omitempty"`
	TotalAttempts         int    `json:"total_attempts,omitempty"`
	FinalExceptionType    string `json:"final_exception_type,omitempty"`
	FinalExceptionMessage string `json:"final_exception_message,omitempty"`

	// Other types of events.
	Action     string            `json:"action,omitempty"` // idempotency: hit, record …; operator_action: what was done
	Actor      string            `json:"actor,omitempty"`  // operator, worker or process
	Fence      int64             `json:"fence,omitempty"`
	From       string            `json:"from,omitempty"`
	To         string            `json:"to,omitempty"`
	Count      uint64            `json:"count,omitempty"`
	Lost       uint64            `json:"lost,omitempty"`
	Heads      []Head            `json:"heads,omitempty"`
	Detail     string            `json:"detail,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"` // of the work, and of the outcome or action

	// The place in the chain.
	ChainID  string `json:"chain_id,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	PrevHash string `json:"prev_hash,omitempty"`
	Hash     string `json:"hash,omitempty"` // SHA-256, hexadecimal, over the canonical JSON without this member
}

// Facts are decision.Facts in stored form.
type Facts struct {
	Failed     bool             `json:"failed,omitempty"`
	Ended      policy.Reason    `json:"ended,omitempty"`
	TimedOut   bool             `json:"timed_out,omitempty"`
	Mark       string           `json:"mark,omitempty"` // permanent, business or after
	PushbackNS Nanos            `json:"pushback_ns,omitempty"`
	Classes    []classify.Match `json:"classes,omitempty"`
	Classified *Outcome         `json:"classified,omitempty"` // the classifier's answer
}

// Outcome is a classify.Outcome in stored form.
type Outcome struct {
	Kind       string            `json:"kind"`
	Category   string            `json:"category,omitempty"`
	Class      policy.Class      `json:"class,omitempty"`
	Reason     policy.Reason     `json:"reason,omitempty"`
	PushbackNS Nanos             `json:"pushback_ns,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}
