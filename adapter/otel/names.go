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

// A span of an attempt is named by this, a space and the key; a span of a call or job by the surface and the key; a span of
// a pipeline by its activity and the pipeline's name.
const spanAttempt = "attempt"

// pipelineSpan returns the activity of a pipeline's step, or "" for an unknown step. A producer's run is "produce", and its
// produce step "dispatch".
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

// Attributes. Metrics have only the first six, with bounded values. The outcome is an attempt's or, in the metrics of
// pipelines, a delivery's.
const (
	attrKey          = attribute.Key("tenet.key")
	attrSurface      = attribute.Key("tenet.surface")
	attrOutcome      = attribute.Key("tenet.outcome")
	attrReason       = attribute.Key("tenet.reason")
	attrShadowReason = attribute.Key("tenet.shadow.reason")

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
	attrLimitWait    = attribute.Key("tenet.limit.wait") // a duration such as 12ms

	attrCircuitFrom = attribute.Key("tenet.circuit.from")
	attrCircuitTo   = attribute.Key("tenet.circuit.to")
	attrDetail      = attribute.Key("tenet.detail")

	// prefixTimeline comes before the names of a timeline's attributes, for example tenet.timeline.policy_source.
	prefixTimeline = "tenet.timeline."
)

// buckets range from fast calls within a data centre to jobs of five minutes, in seconds.
var buckets = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)

// runBuckets range from a short test to a day, in seconds.
var runBuckets = metric.WithExplicitBucketBoundaries(.1, 1, 10, 60, 300, 900, 3600, 6*3600, 24*3600)

// sizeBuckets have a bucket for empty fetches.
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
	limitWait    metric.Float64Histogram
	limit        metric.Int64Gauge
	reports      metric.Int64Counter
	shadow       metric.Int64Counter
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
	circuitState, err := meter.Int64Gauge("tenet.circuit.state", metric.WithUnit("{state}"),
		metric.WithDescription("State of the breaker: 0 closed, 1 half open, 2 open. Absent until the first change."))
	faults = append(faults, err)
	limit, err := meter.Int64Gauge("tenet.limit.concurrency", metric.WithUnit("{attempt}"),
		metric.WithDescription("The adaptive concurrency limit, in attempts. Absent until the first change."))
	faults = append(faults, err)
	inFlight, err := meter.Int64UpDownCounter("tenet.pipeline.in_flight", metric.WithUnit("{transaction}"),
		metric.WithDescription("Transactions that are running."))
	faults = append(faults, err)
	fetchSize, err := meter.Int64Histogram("tenet.pipeline.fetch.size", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries per fetch, or transactions per chunk; 0 if the source was empty."), sizeBuckets)
	faults = append(faults, err)
	i := instruments{
		calls: counter("tenet.calls", "{call}",
			"Finished calls, job executions and steps, by reason."),
		callDuration: seconds("tenet.call.duration",
			"Duration of a call, waits included."),
		attempts: counter("tenet.attempts", "{attempt}",
			"Attempts that ran the operation, including retries and hedges."),
		retries: counter("tenet.retries", "{retry}",
			"Attempts that repeated a failed attempt or group, not counting hedges."),
		hedges: counter("tenet.hedges", "{hedge}",
			"Attempts started while a slow one was running."),
		denied: counter("tenet.denied", "{attempt}",
			"Attempts refused by a budget, a breaker, a limit or max_extra_load before the operation ran."),
		retryDelay: seconds("tenet.retry.delay",
			"Delays before retries, as decided."),
		circuitState: circuitState,
		limitWait: seconds("tenet.limit.wait",
			"Waits of attempts for a concurrency or rate limit; attempts that did not wait are not counted."),
		limit: limit,
		reports: counter("tenet.reports", "{report}",
			"Reports to operators, such as overruns and missing parts."),
		shadow: counter("tenet.shadow.divergences", "{decision}",
			"Decisions that the policy under trial would have made differently, by both reasons. Two equal reasons: the wait differs."),
		pipelines: pipelineInstruments{
			deliveries: counter("tenet.pipeline.deliveries", "{delivery}",
				"Finished deliveries, by outcome."),
			processed: counter("tenet.pipeline.processed", "{transaction}",
				"Transactions whose process or produce step succeeded, even if a later step failed."),
			inFlight:  inFlight,
			fetchSize: fetchSize,
			emptyWait: seconds("tenet.pipeline.empty_wait",
				"Waits after empty fetches."),
			runDuration: secondsIn("tenet.pipeline.run.duration",
				"Duration of a run.", runBuckets),
			stepDuration: seconds("tenet.pipeline.step.duration",
				"Duration of a step or transaction, including all attempts and waits."),
			retries: counter("tenet.pipeline.retries", "{retry}",
				"Attempts of a step that repeated a failed attempt."),
			backoff: seconds("tenet.pipeline.backoff",
				"Delays before retries of a step, as decided."),
			timeouts: counter("tenet.pipeline.timeouts", "{timeout}",
				"Timeouts of attempts and steps, of transactions (step=transaction) and of runs (step=run)."),
		},
	}
	return i, errors.Join(faults...)
}
