package otel

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenetdev/tenet/observe"
)

// The names of spans, events, attributes and metrics are a public interface: a change is noted in the changelog.

// Scope is the instrumentation scope of the tracer and the meter.
const Scope = "github.com/tenetdev/tenet/adapter/otel"

// Spans of attempts are named by this, a space and the key; those of calls and jobs by the surface and the key; those of
// pipelines by what they do and the pipeline's name.
const spanAttempt = "attempt"

// pipelineSpan is what a step of a pipeline does, or "" for one that is not known. A producer's run is "produce", and its
// step of that name "dispatch".
func pipelineSpan(step string, producer bool) string {
	switch step {
	case observe.StepRun:
		if producer {
			return "produce"
		}
		return "consume"
	case observe.StepProduce:
		return "dispatch"
	case observe.StepSuccess, observe.StepException:
		return "handle_" + step
	case observe.StepFetch, observe.StepTransaction, observe.StepProcess:
		return step
	}
	return ""
}

// Events on spans.
const (
	eventDenied  = "tenet.denied"  // on the call
	eventCircuit = "tenet.circuit" // on the call
	eventReport  = "tenet.report"  // on the call or attempt that it concerns
)

// Attributes. Those of metrics are the first six, and all of them are bounded there. The outcome is that of an attempt or,
// in the metrics of pipelines, of a delivery.
const (
	attrKey     = attribute.Key("tenet.key")
	attrSurface = attribute.Key("tenet.surface")
	attrOutcome = attribute.Key("tenet.outcome")
	attrReason  = attribute.Key("tenet.reason")

	attrPipeline = attribute.Key("tenet.pipeline") // consumer/<name> or producer/<name>
	attrStep     = attribute.Key("tenet.step")

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

// runBuckets reach from a test to a day, in seconds.
var runBuckets = metric.WithExplicitBucketBoundaries(.1, 1, 10, 60, 300, 900, 3600, 6*3600, 24*3600)

// sizeBuckets have one for empty fetches.
var sizeBuckets = metric.WithExplicitBucketBoundaries(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)

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
	pipelines    pipelineInstruments
}

type pipelineInstruments struct {
	deliveries   metric.Int64Counter
	processed    metric.Int64Counter
	inFlight     metric.Int64UpDownCounter
	fetchSize    metric.Int64Histogram
	emptyWait    metric.Float64Histogram
	runDuration  metric.Float64Histogram
	stepDuration metric.Float64Histogram
	retries      metric.Int64Counter
	backoff      metric.Float64Histogram
	timeouts     metric.Int64Counter
}

func newInstruments(meter metric.Meter) (instruments, error) {
	var faults []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	secondsIn := func(name, description string, buckets metric.HistogramOption) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), buckets)
		faults = append(faults, err)
		return h
	}
	seconds := func(name, description string) metric.Float64Histogram { return secondsIn(name, description, buckets) }
	circuitState, err := meter.Int64Gauge("tenet.circuit.state", metric.WithUnit("1"),
		metric.WithDescription("State of the breaker since it first changed: 0 closed, 1 half open, 2 open."))
	faults = append(faults, err)
	inFlight, err := meter.Int64UpDownCounter("tenet.pipeline.in_flight", metric.WithUnit("{transaction}"),
		metric.WithDescription("Transactions that run."))
	faults = append(faults, err)
	fetchSize, err := meter.Int64Histogram("tenet.pipeline.fetch.size", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries of each fetch, or transactions of each chunk; 0 where the source was empty."), sizeBuckets)
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
		pipelines: pipelineInstruments{
			deliveries: counter("tenet.pipeline.deliveries", "{delivery}",
				"Deliveries that ended, by their outcome."),
			processed: counter("tenet.pipeline.processed", "{transaction}",
				"Transactions whose process or produce step succeeded, however they ended."),
			inFlight:  inFlight,
			fetchSize: fetchSize,
			emptyWait: seconds("tenet.pipeline.empty_wait",
				"Waits after empty fetches."),
			runDuration: secondsIn("tenet.pipeline.run.duration",
				"Time from the start of a run to its end.", runBuckets),
			stepDuration: seconds("tenet.pipeline.step.duration",
				"Time from the start of a step or transaction to its end, attempts and waits included."),
			retries: counter("tenet.pipeline.retries", "{retry}",
				"Attempts of a step that repeated a failed one."),
			backoff: seconds("tenet.pipeline.backoff",
				"Decided waits before a retry of a step."),
			timeouts: counter("tenet.pipeline.timeouts", "{timeout}",
				"Timeouts of attempts and steps by step, of transactions (step transaction) and of loops (step run)."),
		},
	}
	return i, errors.Join(faults...)
}
