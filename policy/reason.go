package policy

import "sync"

// Reason says why something was decided. The set is closed: metrics, timelines, audit events and the command line use only
// these strings. Free text goes into the attribute "detail".
type Reason string

// The reasons for an operation's outcome.
const (
	ReasonSuccess                Reason = "success"
	ReasonError                  Reason = "error"
	ReasonAttemptTimeout         Reason = "attempt_timeout"
	ReasonPermanent              Reason = "permanent"
	ReasonBusiness               Reason = "business"
	ReasonRetryAfter             Reason = "retry_after"
	ReasonAbortOn                Reason = "abort_on"
	ReasonNotInRetryOn           Reason = "not_in_retry_on"
	ReasonClassifierTypeMismatch Reason = "classifier_type_mismatch"
	ReasonHTTPStatus             Reason = "http_status"
	ReasonHTTPNotIdempotent      Reason = "http_not_idempotent"
	ReasonTransport              Reason = "transport"
	ReasonGRPCStatus             Reason = "grpc_status"
	ReasonExitCode               Reason = "exit_code"
)

// Why work continues or stops.
const (
	ReasonRetry             Reason = "retry"
	ReasonNonRetryable      Reason = "non_retryable"
	ReasonAttemptsExhausted Reason = "attempts_exhausted"
	ReasonPushbackTooLong   Reason = "pushback_too_long"
	ReasonOverallTimeout    Reason = "overall_timeout"
	ReasonDeadlineExceeded  Reason = "deadline_exceeded"
	ReasonCanceled          Reason = "canceled"
	ReasonCanceledInternal  Reason = "canceled_internal"
	ReasonAborted           Reason = "aborted"
	ReasonAuditUnavailable  Reason = "audit_unavailable"
)

// Answers of idempotency guards.
const (
	ReasonIdempotencyHit         Reason = "idempotency_hit"
	ReasonIdempotencyFailed      Reason = "idempotency_failed"
	ReasonIdempotencyInFlight    Reason = "idempotency_in_flight"
	ReasonIdempotencyMismatch    Reason = "idempotency_mismatch"
	ReasonIdempotencyBadKey      Reason = "idempotency_bad_key"
	ReasonIdempotencyUnavailable Reason = "idempotency_unavailable"
	ReasonOutcomeUnknown         Reason = "outcome_unknown"
)

// Other changes of jobs.
const (
	ReasonLeaseExpired   Reason = "lease_expired"
	ReasonShutdown       Reason = "shutdown"
	ReasonSnoozed        Reason = "snoozed"
	ReasonOperator       Reason = "operator"
	ReasonNeedFailed     Reason = "need_failed"
	ReasonUnknownType    Reason = "unknown_type"
	ReasonInvalidPayload Reason = "invalid_payload"
	ReasonNoPayloadKey   Reason = "no_payload_key"
	ReasonHandlerExited  Reason = "handler_exited"
)

// Answers of budgets, breakers and limits.
const (
	ReasonAllowed        Reason = "allowed"
	ReasonNoBudget       Reason = "no_budget"
	ReasonBudgetNotFound Reason = "budget_not_found"
	ReasonBudgetDenied   Reason = "budget_denied"
	ReasonCircuitOpen    Reason = "circuit_open"
	ReasonMaxExtraLoad   Reason = "max_extra_load"
	ReasonHalfOpen       Reason = "circuit_half_open"

	ReasonConcurrencyLimited Reason = "concurrency_limited"
	ReasonRateLimited        Reason = "rate_limited"
)

// Missing names, and faults of user code.
const (
	ReasonNoPolicy           Reason = "no_policy"
	ReasonPolicyFallback     Reason = "policy_fallback"
	ReasonClassifierNotFound Reason = "classifier_not_found"
	ReasonTriggerNotFound    Reason = "trigger_not_found"
	ReasonClassNotFound      Reason = "class_not_found"
	ReasonPanicInOperation   Reason = "panic_in_operation"
	ReasonPanicInClassifier  Reason = "panic_in_classifier"
	ReasonPanicInBudget      Reason = "panic_in_budget"
	ReasonPanicInObserver    Reason = "panic_in_observer"
	ReasonPanicInTrigger     Reason = "panic_in_trigger"
	ReasonPanicInJournal     Reason = "panic_in_journal"
	ReasonPanicInProvider    Reason = "panic_in_provider"
	ReasonPanicInWait        Reason = "panic_in_wait"
	ReasonPanicInClock       Reason = "panic_in_clock"
	ReasonPanicInRetryPolicy Reason = "panic_in_retry_policy"
	ReasonAttemptOverrun     Reason = "attempt_overrun"
	ReasonHedgeOverrun       Reason = "hedge_overrun"
	ReasonKeyEvicted         Reason = "key_evicted"
	ReasonLimitStoreAway     Reason = "limit_store_away"
	ReasonLimitStoreBack     Reason = "limit_store_back"
	ReasonNotShared          Reason = "not_shared"
)

// Succeeded reports whether work that ended for the reason succeeded: its operation did, or an idempotency guard returned
// the stored result of an earlier success.
func (r Reason) Succeeded() bool { return r == ReasonSuccess || r == ReasonIdempotencyHit }

// Known reports whether the reason is one of [Reasons].
func (r Reason) Known() bool { return knownReasons()[r] }

var knownReasons = sync.OnceValue(func() map[Reason]bool {
	known := make(map[Reason]bool)
	for _, info := range Reasons() {
		known[info.Reason] = true
	}
	return known
})

// ReasonInfo documents a reason.
type ReasonInfo struct {
	Reason  Reason
	Where   string // outcome, decision, idempotency, job, admission or report
	Meaning string
}

// Reasons lists every reason in a fixed order.
func Reasons() []ReasonInfo {
	const outcome, decision, idempotency, job, admission, report = "outcome", "decision", "idempotency", "job", "admission", "report"
	return []ReasonInfo{
		{ReasonSuccess, outcome, "The operation returned no error."},
		{ReasonError, outcome, "The operation returned an unmarked error; it is retried."},
		{ReasonAttemptTimeout, outcome, "The attempt exceeded its own timeout while the caller was still waiting."},
		{ReasonPermanent, outcome, "The error is marked as permanent (or unrecoverable)."},
		{ReasonBusiness, outcome, "The error is marked as a business error: a retry cannot help."},
		{ReasonRetryAfter, outcome, "The error carries a wait that the other side asked for."},
		{ReasonAbortOn, outcome, "The error belongs to a class of the policy's abort_on."},
		{ReasonNotInRetryOn, outcome, "The error is retryable, but none of its classes is in the policy's retry_on."},
		{ReasonClassifierTypeMismatch, outcome, "The classifier got a value of an unknown type; never retried."},
		{ReasonHTTPStatus, outcome, "Decided by the HTTP status code."},
		{ReasonHTTPNotIdempotent, outcome, "The request may have been processed and its method must not be repeated."},
		{ReasonTransport, outcome, "The connection failed before an answer was complete."},
		{ReasonGRPCStatus, outcome, "Decided by the gRPC status code."},
		{ReasonExitCode, outcome, "Decided by a command's exit code."},

		{ReasonRetry, decision, "Another attempt follows."},
		{ReasonNonRetryable, decision, "The outcome must not be repeated."},
		{ReasonAttemptsExhausted, decision, "max_attempts attempts were made."},
		{ReasonPushbackTooLong, decision, "The other side asked for a longer wait than max_pushback."},
		{ReasonOverallTimeout, decision, "overall_timeout passed, or would pass before the next attempt could start."},
		{ReasonDeadlineExceeded, decision, "The caller's deadline passed, or would pass before the next attempt could start."},
		{ReasonCanceled, decision, "The caller cancelled its context."},
		{ReasonCanceledInternal, decision, "A hedged attempt was cancelled because its group was decided without it."},
		{ReasonAborted, decision, "The classifier aborted the work."},
		{ReasonAuditUnavailable, decision, "The journal refused the decision, so nothing further was started; its event may still be stored later."},

		{ReasonIdempotencyHit, idempotency, "The effect has happened before: the stored result was returned and nothing ran."},
		{ReasonIdempotencyFailed, idempotency, "The effect has failed for good before: the stored failure was returned and nothing ran."},
		{ReasonIdempotencyInFlight, idempotency, "Another caller holds the key; nothing ran."},
		{ReasonIdempotencyMismatch, idempotency, "The key was used for another request; nothing ran."},
		{ReasonIdempotencyBadKey, idempotency, "The key is empty, too long or contains control characters; nothing ran."},
		{ReasonIdempotencyUnavailable, idempotency, "The store of records could not be reached; nothing ran."},
		{ReasonOutcomeUnknown, idempotency, "An earlier run ended without a record; nothing runs until an operator resolves it."},

		{ReasonLeaseExpired, job, "The job's lease expired before its attempt was settled; the attempt is used up."},
		{ReasonShutdown, job, "The worker shut down while the job ran; no attempt is used up."},
		{ReasonSnoozed, job, "The handler asked to run later; no attempt is used up."},
		{ReasonOperator, job, "An operator cancelled, retried or deleted the job."},
		{ReasonNeedFailed, job, "A job of a flow was cancelled because a job that it needs ended dead, cancelled or deleted."},
		{ReasonUnknownType, job, "The worker had no handler for the job's type. Histories of earlier releases have it: workers no longer claim such jobs."},
		{ReasonInvalidPayload, job, "The job's payload does not fit its handler, or cannot be decoded; a retry cannot help."},
		{ReasonNoPayloadKey, job, "The job's payload is encrypted with a key that the worker does not have; the job waits for one that has it."},
		{ReasonHandlerExited, job, "The job's handler ended its goroutine (runtime.Goexit); the attempt failed."},

		{ReasonAllowed, admission, "The budget allowed the attempt."},
		{ReasonNoBudget, admission, "The policy names no budget."},
		{ReasonBudgetNotFound, admission, "The policy's budget is not registered."},
		{ReasonBudgetDenied, admission, "The budget refused the attempt."},
		{ReasonCircuitOpen, admission, "The breaker is open, or its probes are all in use."},
		{ReasonMaxExtraLoad, admission, "The hedge would exceed max_extra_load."},
		{ReasonHalfOpen, admission, "A half-open breaker admits probes and no hedges."},
		{ReasonConcurrencyLimited, admission, "The policy's concurrency limit was reached, and no attempt ended within max_wait."},
		{ReasonRateLimited, admission, "The policy's rate limit was reached, and the wait would exceed max_wait or the time left."},

		{ReasonNoPolicy, decision, "The provider failed and missing policies are denied."},
		{ReasonPolicyFallback, report, "The provider failed and gave no policy; the default policy stood in."},
		{ReasonClassifierNotFound, report, "The policy's classifier is not registered."},
		{ReasonTriggerNotFound, report, "The policy's hedge trigger is not registered."},
		{ReasonClassNotFound, report, "A class of retry_on or abort_on has no matcher here."},
		{ReasonPanicInOperation, report, "A hedged attempt that had already lost panicked."},
		{ReasonPanicInClassifier, decision, "The classifier, the matcher of a class or a method of the error panicked and RecoverPanics is on."},
		{ReasonPanicInBudget, decision, "The budget panicked and RecoverPanics is on."},
		{ReasonPanicInObserver, report, "The observer panicked and RecoverPanics is on; the work went on."},
		{ReasonPanicInTrigger, decision, "The hedge trigger panicked and RecoverPanics is on."},
		{ReasonPanicInJournal, decision, "The journal panicked and RecoverPanics is on; nothing further was started."},
		{ReasonPanicInProvider, decision, "The policy provider panicked and RecoverPanics is on; nothing was started."},
		{ReasonPanicInWait, decision, "The executor's Wait panicked and RecoverPanics is on; nothing further was started."},
		{ReasonPanicInClock, report, "The executor's Clock panicked and RecoverPanics is on; the record has the system's time."},
		{ReasonPanicInRetryPolicy, job, "MaxAttempts of a job's retry policy panicked; the attempt failed before its handler ran."},
		{ReasonAttemptOverrun, report, "An operation continued for more than a second after its timeout."},
		{ReasonHedgeOverrun, report, "A hedged attempt that had lost continued for more than a second."},
		{ReasonKeyEvicted, report, "More keys are in use than MaxKeys; the state of old ones was dropped."},
		{ReasonLimitStoreAway, report, "The store of shared limits does not answer; the process goes on with its last known share."},
		{ReasonLimitStoreBack, report, "The store of shared limits answers again."},
		{ReasonNotShared, report, "The policy asks for a shared budget, breaker or limit, but the executor has no store for it. This process counts on its own."},
	}
}
