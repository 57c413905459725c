package audit

import (
	"encoding/json"
	"time"
)

// SchemaVersion is the version of the events' form.
const SchemaVersion = 1

// Type says what an event tells.
type Type string

// The types of events.
const (
	RetryAttempt   Type = "retry_attempt"   // an attempt failed and another follows
	RetryExhausted Type = "retry_exhausted" // the last attempt failed
	CallStopped    Type = "call_stopped"    // ended for another reason: not retryable, deadline, budget, breaker …
	CallSucceeded  Type = "call_succeeded"
	Hedge          Type = "hedge" // one attempt of a hedged group ended or was denied
	Idempotency    Type = "idempotency"
	JobTransition  Type = "job_transition"
	CircuitChanged Type = "circuit_changed"
	PolicySnapshot Type = "policy_snapshot" // holds a policy before its first use in a segment
	PolicyChanged  Type = "policy_changed"
	OperatorAction Type = "operator_action"
	ChainOpened    Type = "chain_opened" // first of a chain, with the heads of the chains already there
	CallCount      Type = "call_count"   // successes that sampling left out, and events that were lost
)

// Event is one decision on record. Which fields are set depends on the type; empty ones are left out. In canonical JSON
// members are in the order of their names.
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
	Attempt         int      `json:"attempt_number,omitempty"`
	MaxAttempts     int      `json:"max_attempts,omitempty"` // effective
	RetryIndex      int      `json:"retry_index,omitempty"`
	HedgeIndex      int      `json:"hedge_index,omitempty"`
	OutcomeKind     string   `json:"outcome_kind,omitempty"`
	OutcomeCategory string   `json:"outcome_category,omitempty"`
	OutcomeClass    string   `json:"outcome_class,omitempty"`
	OutcomeClasses  []string `json:"outcome_classes,omitempty"`
	OutcomeReason   string   `json:"outcome_reason,omitempty"`
	MatchedRule     string   `json:"matched_rule,omitempty"`
	Facts           *Facts   `json:"facts,omitempty"` // what the judgement was made from

	// The decision.
	Decision    string  `json:"decision,omitempty"` // retry, stop or done
	Reason      string  `json:"reason,omitempty"`
	Delay       float64 `json:"delay_seconds,omitempty"`
	DelayNS     int64   `json:"delay_ns,omitempty"`
	External    bool    `json:"delay_external,omitempty"`
	PushbackNS  int64   `json:"pushback_ns,omitempty"`
	ElapsedNS   int64   `json:"elapsed_ns,omitempty"`
	LeftNS      int64   `json:"left_ns,omitempty"` // absent: unbounded, or not asked for
	LeftReason  string  `json:"left_reason,omitempty"`
	StateNumber int     `json:"state_attempt,omitempty"` // ended attempts or groups, as passed to the decision
	Seed        string  `json:"seed,omitempty"`          // decimal
	Group       []int   `json:"group,omitempty"`         // attempts in the order in which they ended
	Deciding    int     `json:"deciding,omitempty"`      // the attempt that decided
	CoreVersion string  `json:"core_version,omitempty"`

	// Admission.
	BudgetAllowed *bool  `json:"budget_allowed,omitempty"`
	BudgetReason  string `json:"budget_reason,omitempty"`
	Circuit       string `json:"circuit_state,omitempty"`
	Denied        bool   `json:"denied,omitempty"`

	// The error.
	ExceptionType         string `json:"exception_type,omitempty"`
	ExceptionMessage      string `json:"exception_message,omitempty"`
	TotalAttempts         int    `json:"total_attempts,omitempty"`
	FinalExceptionType    string `json:"final_exception_type,omitempty"`
	FinalExceptionMessage string `json:"final_exception_message,omitempty"`

	// Other types of events.
	Action     string            `json:"action,omitempty"` // idempotency: hit, record …; operator_action: what was done
	From       string            `json:"from,omitempty"`
	To         string            `json:"to,omitempty"`
	Count      uint64            `json:"count,omitempty"`
	Lost       uint64            `json:"lost,omitempty"`
	Heads      []Head            `json:"heads,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`

	// The place in the chain.
	ChainID  string `json:"chain_id,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	PrevHash string `json:"prev_hash,omitempty"`
	Hash     string `json:"hash,omitempty"` // SHA-256, hexadecimal, over the canonical JSON without this member
}

// Facts are decision.Facts in stored form.
type Facts struct {
	Failed     bool     `json:"failed,omitempty"`
	Ended      string   `json:"ended,omitempty"`
	TimedOut   bool     `json:"timed_out,omitempty"`
	Mark       string   `json:"mark,omitempty"`
	PushbackNS int64    `json:"pushback_ns,omitempty"`
	Classes    []string `json:"classes,omitempty"`
	Classified *Outcome `json:"classified,omitempty"`
}

// Outcome is a classify.Outcome in stored form.
type Outcome struct {
	Kind       string            `json:"kind"`
	Category   string            `json:"category,omitempty"`
	Class      string            `json:"class,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	PushbackNS int64             `json:"pushback_ns,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}
