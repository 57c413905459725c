package observe

import (
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Flow describes one occurrence in a run of a pipeline's engine; unrelated fields are zero. Its event's work is the run. The
// sums over the flows of a run are its totals, in whatever order they arrive.
type Flow struct {
	// Begun: the run begins. Source and Sink are the kinds of what it reads from and writes to, the names of their packages, such
	// as file or rabbitmq; empty if not known.
	Begun        bool
	Source, Sink string
	// InFlight is the change of the number of transactions in flight: 1 when one starts, -1 when one has ended, less when
	// several are abandoned.
	InFlight int
	// Outcome is how a delivery ended: success, exception, failed or redelivered. Deliveries that were never started, and so
	// never in flight, are included.
	Outcome string
	// Processed: the delivery's process or produce step had succeeded.
	Processed bool
	// Fetch: a fetch has returned Fetched deliveries, 0 if the source was empty. A producer's fetch is the reading of a chunk
	// of its input. Fetches that failed, or returned only the end, are not included.
	Fetch   bool
	Fetched int
	// EmptyWait is the wait that begins after an empty fetch.
	EmptyWait time.Duration
	// Lag is how many transactions are ready at the source and have not been handed to any reader. It is nil except in a flow of
	// its own, every 10 seconds, of a source that knows it. It is not a change: the latest one counts.
	Lag *int64
}

// Trace is the trace of a piece of work that has its own, such as a transaction of a pipeline. The span of the context in
// which the work starts, that of the run, is not its parent; it should be linked.
type Trace struct {
	// Parent and State are the unchecked traceparent and tracestate (W3C Trace Context) of the work. If they are empty or not
	// valid, a new trace starts.
	Parent, State string
}

// Steps of pipelines, as in their keys (policy.ConsumerKey, policy.ProducerKey).
const (
	StepFetch     = "fetch"
	StepProcess   = "process"
	StepProduce   = "produce"
	StepSuccess   = "success"
	StepException = "exception"
	// StepTransaction and StepRun are pieces of work that consist of steps. They do not have policies.
	StepTransaction = "transaction"
	StepRun         = "run"
)

// StepLabel returns the step as a metric label: one of the steps above, or "other".
func StepLabel(step string) string {
	switch step {
	case StepFetch, StepProcess, StepProduce, StepSuccess, StepException, StepTransaction, StepRun:
		return step
	}
	return OtherLabel
}

// FlowLabel returns a delivery's outcome as a metric label: success, exception, failed, redelivered or "other".
func FlowLabel(outcome string) string {
	switch outcome {
	case "success", "exception", "failed", "redelivered":
		return outcome
	}
	return OtherLabel
}

// TimedOut reports whether an event of a pipeline reports a timeout: of an attempt, of a step's overall time, of a
// transaction, which has no other deadline, or of the loop. Work that is cancelled by a timeout of the loop has not itself
// timed out.
func TimedOut(e *Event) bool {
	switch {
	case e.Type == AttemptEnded:
		return e.Attempt.Outcome.Reason == policy.ReasonAttemptTimeout
	case e.Type != CallEnded:
		return false
	case e.Work.Key.Name == StepTransaction:
		return e.Timeline.Reason == policy.ReasonDeadlineExceeded
	}
	return e.Timeline.Reason == policy.ReasonOverallTimeout
}
