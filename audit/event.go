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

// Event is one decision on record. Which fields are set depends on the type; empty fields are left out of the JSON, whose
// members are in the order of their names. docs/audit-schema.md lists the members under their JSON names.
//
// Integers are at most 2⁵³ in size; durations in nanoseconds and seeds, which can be larger, are kept exactly.
type Event struct {
	// Version of this form: 1.
	SchemaVersion int
	// UUIDv7. The same in every delivery of the event: readers use it to drop duplicates.
	ID string
	// Type of the event.
	Type Type
	// When it happened: RFC 3339, UTC, microseconds, trailing zeros left out.
	Time time.Time

	// The work.

	// Kind of work: call, job or step.
	Surface string
	// The policy key of the work.
	Key string
	// ID of the call, job or transaction. Its events share it.
	WorkID string
	// Place of the event among those of the same work; grows, with gaps. Sort the events of one work by work_seq, timestamp,
	// event_id.
	WorkSeq int
	// Name of the operation; job type; pipeline and step (orders.process); operation of an idempotency record.
	Operation string
	// Code of the operation category, for example RETRY_KV_GET.
	Category string
	// Tenant of the work or record.
	TenantID string
	// Correlation ID of the work.
	CorrelationID string
	// Trace ID of the work.
	TraceID string
	// Key of the idempotency record, or the key that the call was made under.
	IdempotencyKey string

	// The policy.

	// The policy's own ID.
	PolicyID string
	// SHA-256 of the policy's canonical JSON. A policy_snapshot with it comes before its first use in each segment.
	PolicyRevision string
	// The whole policy, as a document writes it and with every default filled in.
	Policy json.RawMessage

	// The attempt that just ended, and what it meant.

	// The attempt that just ended, by launch order from 1. Where `denied` is set and nothing ran: the attempt that was
	// refused.
	Attempt int
	// The effective maximum of attempts.
	MaxAttempts int
	// How long the attempt ran; absent if only its end was recorded.
	TookNS Nanos
	// 0 (absent) for the first attempt or group, 1 for the first retry.
	RetryIndex int
	// 0 (absent) for a primary, 1 for its first hedge.
	HedgeIndex int
	// What the result means: success, retryable, non_retryable or abort.
	OutcomeKind string
	// Kind of failure: business, system or timeout.
	OutcomeCategory string
	// The error class that decided the outcome, if any.
	OutcomeClass policy.Class
	// Classes of the error.
	OutcomeClasses []policy.Class
	// Reason for the outcome: a reason code.
	OutcomeReason policy.Reason
	// The wait that the other side asked for.
	PushbackNS Nanos
	// The rule by which the outcome follows from `facts` and the policy. Absent where nothing was judged: refused,
	// cancelled, panicked.
	MatchedRule decision.Rule
	// Facts that the judgement follows from. Absent for a success without a classifier.
	Facts *Facts

	// The decision, and the state that it was made from.

	// What follows: retry, stop or done.
	Decision string
	// Why: a reason code.
	Reason policy.Reason
	// The wait after this attempt, in seconds.
	Delay float64
	// The same wait, exact.
	DelayNS Nanos
	// Code computed the delay; replay keeps it.
	External bool
	// Time since the work began. In call_count: the length of the period counted.
	ElapsedNS Nanos
	// Time that was left until the work's end when the decision was made; may be 0 or negative. Absent: nothing bounds the
	// work, or it did not matter.
	LeftNS *Nanos
	// What ends the work then: overall_timeout or deadline_exceeded.
	LeftReason policy.Reason
	// Ended attempts (groups when hedging) when the decision was made.
	StateNumber int
	// The work's own maximum, where it has one (jobs); else the policy's counts.
	StateLimit int
	// Seed of the delays' jitter, decimal. Absent: 0, or no jitter was drawn.
	Seed uint64
	// Attempts of the hedged group in the order in which they ended.
	Group []int
	// The attempt of the group that decided.
	Deciding int
	// Version of the decision functions. The same version derives the same decisions.
	CoreVersion string

	// Admission.

	// Whether the budget allowed the attempt; with `denied`, the refused one.
	BudgetAllowed *bool
	// The budget's answer: a reason code.
	BudgetReason policy.Reason
	// State of the breaker when it was asked.
	Circuit string
	// An attempt was refused: in hedge, this one; in a decision, the next.
	Denied bool

	// The error.

	// Type of the error: the first in its tree that is more than a wrapper.
	ExceptionType string
	// Text of the error, at most 8 KiB.
	ExceptionMessage string
	// Attempts that ran. In idempotency and job_transition: those that are recorded as failed.
	TotalAttempts int
	// Type of the last error of work that ended without success.
	FinalExceptionType string
	// Text of that error.
	FinalExceptionMessage string

	// Other types of events.

	// idempotency: hit, record, failed, conflict, mismatch, fenced, released, unknown, cleared. operator_action: what was
	// done.
	Action string
	// The operator, worker or process that acted.
	Actor string
	// Fencing token of the claim.
	Fence int64
	// State or revision before.
	From string
	// State or revision after.
	To string
	// Successes with the first attempt that were not recorded one by one.
	Count uint64
	// Observed events that were lost since the last time this was told.
	Lost uint64
	// Ends of the chains that were in the sink when this chain began; at most the latest 256.
	Heads []Head
	// Free text.
	Detail string
	// Attributes of the work, and details of the outcome or action, at most 64.
	Attributes map[string]string

	// The place in the chain.

	// The chain, one per writer.
	ChainID string
	// Place in the chain, from 1.
	Seq uint64
	// Hash of the event before; absent in the first.
	PrevHash string
	// SHA-256, hexadecimal, of the canonical JSON of the event without this member.
	Hash string
}

// Facts are decision.Facts in stored form.
type Facts struct {
	// The operation returned an error.
	Failed bool
	// Why the caller's context or the overall timeout was over.
	Ended policy.Reason
	// The attempt's own timeout had struck.
	TimedOut bool
	// Outermost mark of the error: permanent, business or after.
	Mark string
	// The wait that came with the error's mark.
	PushbackNS Nanos
	// Classes of the error, each with the parent that its family gives it.
	Classes []classify.Match
	// Answer of the policy's classifier.
	Classified *Outcome
}

// Outcome is a classify.Outcome in stored form.
type Outcome struct {
	// As outcome_kind.
	Kind string
	// As outcome_category.
	Category string
	// Name of the class.
	Class policy.Class
	// Why: a reason code.
	Reason policy.Reason
	// The wait that the other side asked for.
	PushbackNS Nanos
	// Details of the outcome, at most 64.
	Attributes map[string]string
}
