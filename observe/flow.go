package observe

import (
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Flow tells of one thing that happened in a run of a pipeline's engine; fields that it does not concern are zero. Its
// event's work is the run. Sums over the flows of a run are its totals, whatever order they come in.
type Flow struct {
	// InFlight is the change of the number of transactions in flight: 1 when one begins, -1 when one has ended, less when
	// several are left behind.
	InFlight int
	// Outcome is how a delivery ended: success, exception, failed or redelivered. Those that were never started are told of
	// too; they were never in flight.
	Outcome string
	// Processed: the delivery's process or produce step had succeeded.
	Processed bool
	// Fetch: a fetch has brought Fetched deliveries, 0 where the source was empty. A producer's fetch is the reading of a
	// chunk of its input. Fetches that failed, or found only the end, are not told of.
	Fetch   bool
	Fetched int
	// EmptyWait is the wait that begins after an empty fetch.
	EmptyWait time.Duration
}

// Trace says that a piece of work has a trace of its own, as transactions of pipelines have. The span of the context in
// which it starts is not its parent but worth a link: the run's.
type Trace struct {
	// Parent and State are the traceparent and tracestate (W3C Trace Context) that the work came with, as they are. Where
	// they are empty or not valid, a new trace begins.
	Parent, State string
}

// Steps of pipelines, as the names of their keys say (policy.ConsumerKey, policy.ProducerKey).
const (
	StepFetch     = "fetch"
	StepProcess   = "process"
	StepProduce   = "produce"
	StepSuccess   = "success"
	StepException = "exception"
	// StepTransaction and StepRun are pieces of work that are made of steps. They have no policies.
	StepTransaction = "transaction"
	StepRun         = "run"
)

// StepLabel is the step as metrics write it: one of the steps above, or "other".
func StepLabel(step string) string {
	switch step {
	case StepFetch, StepProcess, StepProduce, StepSuccess, StepException, StepTransaction, StepRun:
		return step
	}
	return OtherLabel
}

// FlowLabel is a delivery's outcome as metrics write it: success, exception, failed, redelivered or "other".
func FlowLabel(outcome string) string {
	switch outcome {
	case "success", "exception", "failed", "redelivered":
		return outcome
	}
	return OtherLabel
}

// TimedOut reports whether an event of a pipeline says that a timeout passed: that of an attempt or of a step's overall
// time, that of a transaction, which has no other deadline, or that of the loop. What a timeout of the loop cancels has not
// timed out itself.
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
