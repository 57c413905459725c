package audit

import (
	"encoding/json"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// SchemaVersion is the version of the event schema.
const SchemaVersion = 1

// CoreVersion is the version of the functions of package decision. The same version makes the same decisions from the same
// inputs.
const CoreVersion = "1"

// Type is the type of an event.
type Type string

// The types of events.
const (
	RetryAttempt   Type = "retry_attempt"   // an attempt or group failed and another follows
	RetryExhausted Type = "retry_exhausted" // the last attempt that the policy allows failed
	CallStopped    Type = "call_stopped"    // the work failed for another reason: not retryable, deadline, budget, breaker, panic …
	CallSucceeded  Type = "call_succeeded"
	Hedge          Type = "hedge" // one attempt of a hedged group ended, was cancelled or was denied
	Idempotency    Type = "idempotency"
	JobTransition  Type = "job_transition"
	CircuitChanged Type = "circuit_changed"
	PolicySnapshot Type = "policy_snapshot" // holds a policy; precedes its first use in a segment
	PolicyChanged  Type = "policy_changed"
	OperatorAction Type = "operator_action"
	ChainOpened    Type = "chain_opened" // the first of a chain, with the heads of the existing chains
	CallCount      Type = "call_count"   // the number of successes that sampling left out, and of events that were lost
)

// Types lists the types of events in a fixed order.
func Types() []Type {
	return []Type{
		RetryAttempt, RetryExhausted, CallStopped, CallSucceeded, Hedge, Idempotency, JobTransition, CircuitChanged, PolicySnapshot,
		PolicyChanged, OperatorAction, ChainOpened, CallCount,
	}
}

// Event is one recorded decision. Which fields are set depends on the type. The JSON form leaves out empty fields and sorts
// its members by name; docs/audit-schema.md lists them under their JSON names.
//
// Integers are at most 2⁵³ in size; durations in nanoseconds and seeds, which can be larger, are kept exactly.
type Event struct {
	// Version of the event schema: 1.
	SchemaVersion int
	// UUIDv7. The same in every delivery of the event: readers use it to drop duplicates.
	ID string
	// Type of the event.
	Type Type
	// Time of the event: RFC 3339, UTC, microseconds, without trailing zeros.
	Time time.Time

	// The work.

	// Kind of work: call, job or step.
	Surface string
	// The policy key of the work.
	Key string
	// The policy key of the work in whose attempt the call ran. Absent for a call outside any attempt.
	Parent string
	// ID of the call, job or transaction, the same in all its events.
	WorkID string
	// Place of the event among those of the same work; it increases, with gaps. Sort the events of one piece of work by
	// work_seq, timestamp, event_id.
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
	// Key of the idempotency record, or the idempotency key of the call.
	IdempotencyKey string

	// The policy.

	// The policy's own ID.
	PolicyID string
	// SHA-256 of the policy's canonical JSON. In each segment, a policy_snapshot with it precedes its first use.
	PolicyRevision string
	// The whole policy, in the form of a document, with every default filled in.
	Policy json.RawMessage

	// The attempt that just ended, and its outcome.

	// The attempt that just ended, by launch order from 1. If `denied` is set and nothing ran: the refused attempt.
	Attempt int
	// The effective maximum of attempts.
	MaxAttempts int
	// How long the attempt ran. Absent if only its end was recorded.
	TookNS Nanos
	// 0 (absent) for the first attempt or group, 1 for the first retry.
	RetryIndex int
	// 0 (absent) for a primary, 1 for its first hedge.
	HedgeIndex int
	// Kind of outcome: success, retryable, non_retryable or abort.
	OutcomeKind string
	// Kind of failure: business, system or timeout.
	OutcomeCategory string
	// The error class that decided the outcome, if any.
	OutcomeClass policy.Class
	// Classes of the error.
	OutcomeClasses []policy.Class
	// Reason for the outcome; a reason code.
	OutcomeReason policy.Reason
	// The wait that the other side asked for.
	PushbackNS Nanos
	// The rule that derived the outcome from `facts` and the policy. Absent if nothing was judged: the attempt was refused or
	// cancelled, or it panicked.
	MatchedRule decision.Rule
	// Facts that the outcome was judged from. Absent for a success without a classifier.
	Facts *Facts

	// The decision, and the state that led to it.

	// What follows: retry, stop or done.
	Decision string
	// Reason for the decision; a reason code.
	Reason policy.Reason
	// The wait after this attempt, in seconds.
	Delay float64
	// The same wait, exact.
	DelayNS Nanos
	// User code computed the delay; replay takes it from the log.
	External bool
	// Time since the work began. In call_count: the length of the period counted.
	ElapsedNS Nanos
	// Time left until the work's deadline when the decision was made; may be 0 or negative. Absent if the work has no
	// deadline, or if the deadline did not matter.
	LeftNS *Nanos
	// Reason of that deadline: overall_timeout or deadline_exceeded.
	LeftReason policy.Reason
	// Number of attempts (groups when hedging) that had ended when the decision was made.
	StateNumber int
	// The work's own maximum of attempts, if it has one (jobs). Otherwise the policy's maximum applies.
	StateLimit int
	// Seed of the delays' jitter, decimal. Absent if it is 0, or if no jitter was drawn.
	Seed uint64
	// Attempts of the hedged group in the order in which they ended.
	Group []int
	// The attempt of the group that decided.
	Deciding int
	// Version of the decision functions. The same version derives the same decisions.
	CoreVersion string
	// What the policy under trial decides, if that differs.
	Shadow *Shadow

	// Admission.

	// Whether the budget allowed the attempt; with `denied`, the refused attempt.
	BudgetAllowed *bool
	// The budget's answer; a reason code.
	BudgetReason policy.Reason
	// State of the circuit breaker at admission.
	Circuit string
	// An attempt was refused: in a hedge event, this one; in a decision, the next one.
	Denied bool

	// The error.

	// Type of the error: the first in its tree that is more than a wrapper.
	ExceptionType string
	// Text of the error, at most 8 KiB.
	ExceptionMessage string
	// Number of attempts that ran. In idempotency and job_transition: of those recorded as failed.
	TotalAttempts int
	// Type of the last error of work that failed.
	FinalExceptionType string
	// Text of that error.
	FinalExceptionMessage string

	// Other types of events.

	// idempotency: hit, record, failed, conflict, mismatch, fenced, released, unknown, cleared. operator_action: the action.
	Action string
	// The operator, worker or process that acted.
	Actor string
	// Fencing token of the claim.
	Fence int64
	// State or revision before.
	From string
	// State or revision after.
	To string
	// Number of calls that succeeded with the first attempt and were not recorded individually.
	Count uint64
	// Number of observed events lost since the last report of lost events.
	Lost uint64
	// Heads of the chains that were in the sink when this chain began; at most the latest 256.
	Heads []Head
	// Free text.
	Detail string
	// Attributes of the work, and details of the outcome or action, at most 64.
	Attributes map[string]string

	// The place in the chain.

	// ID of the chain. Every writer has its own chain.
	ChainID string
	// Place in the chain, from 1.
	Seq uint64
	// Hash of the previous event; absent in the first.
	PrevHash string
	// SHA-256, hexadecimal, of the canonical JSON of the event without this member.
	Hash string
}

// Facts is the stored form of decision.Facts.
type Facts struct {
	// The operation returned an error.
	Failed bool
	// Why the work had to end, if it did: canceled, deadline_exceeded or overall_timeout.
	Ended policy.Reason
	// The attempt exceeded its own timeout.
	TimedOut bool
	// Outermost mark of the error: permanent, business or after.
	Mark string
	// The wait that the error's mark asks for.
	PushbackNS Nanos
	// Classes of the error, each with its parent class.
	Classes []classify.Match
	// Answer of the policy's classifier.
	Classified *Outcome
}

// Shadow is the stored form of an observe.ShadowDecision.
type Shadow struct {
	// What would follow: retry, stop or done.
	Decision string
	// The wait after this attempt.
	DelayNS Nanos
	// Revision of the policy under trial. The log does not hold that policy.
	PolicyRevision string
	// Reason for the decision; a reason code.
	Reason policy.Reason
}

// Outcome is the stored form of a classify.Outcome.
type Outcome struct {
	// See outcome_kind.
	Kind string
	// See outcome_category.
	Category string
	// Name of the class.
	Class policy.Class
	// Reason for the outcome; a reason code.
	Reason policy.Reason
	// The wait that the other side asked for.
	PushbackNS Nanos
	// Details of the outcome, at most 64.
	Attributes map[string]string
}
