package otel

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The names of spans, events, attributes and metrics are a public interface: a change is noted in the changelog.

// Scope is the instrumentation scope of the tracer and the meter.
const Scope = "github.com/tenetdev/tenet/observe/otel"

// Spans are named by one of these or by the surface (call, job, step), a space and the key.
const spanAttempt = "attempt"

// Events on spans.
const (
	eventDenied  = "tenet.denied"  // on the call
	eventCircuit = "tenet.circuit" // on the call
	eventReport  = "tenet.report"  // on the call or attempt that it concerns
)

// Attributes. Those of metrics are the first four, and all of them are bounded there.
const (
	attrKey     = attribute.Key("tenet.key")
	attrSurface = attribute.Key("tenet.surface")
	attrOutcome = attribute.Key("tenet.outcome")
	attrReason  = attribute.Key("tenet.reason")

	attrPolicyID      = attribute.Key("tenet.policy.id")
	attrWorkID        = attribute.Key("tenet.work.id")
	attrOperation     = attribute.Key("tenet.operation")
	attrTenantID      = attribute.Key("tenet.tenant.id")
	attrCorrelationID = attribute.Key("tenet.correlation.id")
	attrAttempts      = attribute.Key("tenet.attempts")

	attrAttempt      = attribute.Key("tenet.attempt")
	attrRetryIndex   = attribute.Key("tenet.retry_index")
	attrHedgeIndex   = attribute.Key("tenet.hedge_index")
	attrBackoff      = attribute.Key("tenet.backoff") // seconds
	attrCategory     = attribute.Key("tenet.category")
	attrClass        = attribute.Key("tenet.class")
	attrBudgetReason = attribute.Key("tenet.budget.reason")
	attrCircuit      = attribute.Key("tenet.circuit")

	attrCircuitFrom = attribute.Key("tenet.circuit.from")
	attrCircuitTo   = attribute.Key("tenet.circuit.to")
	attrDetail      = attribute.Key("tenet.detail")

	// prefixTimeline comes before the names of a timeline's attributes, for example tenet.timeline.policy_source.
	prefixTimeline = "tenet.timeline."
)

// buckets reach from fast calls in one data centre to jobs of five minutes, in seconds.
var buckets = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)

type instruments struct {
	calls        metric.Int64Counter
	callDuration metric.Float64Histogram
	attempts     metric.Int64Counter
	retries      metric.Int64Counter
	hedges       metric.Int64Counter
	denied       metric.Int64Counter
	retryDelay   metric.Float64Histogram
	circuitState metric.Int64Gauge
	reports      metric.Int64Counter
}

func newInstruments(meter metric.Meter) (instruments, error) {
	var faults []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	seconds := func(name, description string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), buckets)
		faults = append(faults, err)
		return h
	}
	circuitState, err := meter.Int64Gauge("tenet.circuit.state", metric.WithUnit("1"),
		metric.WithDescription("State of the breaker since it first changed: 0 closed, 1 half open, 2 open."))
	faults = append(faults, err)
	i := instruments{
		calls: counter("tenet.calls", "{call}",
			"Finished calls, executions of jobs and steps, by the reason why they ended."),
		callDuration: seconds("tenet.call.duration",
			"Time from the start of a call to its end, waits included."),
		attempts: counter("tenet.attempts", "{attempt}",
			"Attempts whose operation ran, retries and hedges included."),
		retries: counter("tenet.retries", "{retry}",
			"Attempts that repeated a failed attempt or group; hedges are not counted."),
		hedges: counter("tenet.hedges", "{hedge}",
			"Attempts started beside a slow one."),
		denied: counter("tenet.denied", "{attempt}",
			"Attempts refused by a budget, a breaker or max_extra_load; no operation ran."),
		retryDelay: seconds("tenet.retry.delay",
			"Decided waits before a retry."),
		circuitState: circuitState,
		reports: counter("tenet.reports", "{report}",
			"Reports to operators, such as overruns and missing parts."),
	}
	return i, errors.Join(faults...)
}
