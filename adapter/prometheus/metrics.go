package prom

import "github.com/prometheus/client_golang/prometheus"

// The names and labels of all metrics are a public interface: a change is noted in the changelog.
const (
	labelKey          = "key"
	labelSurface      = "surface"
	labelOutcome      = "outcome"
	labelReason       = "reason"
	labelShadowReason = "shadow_reason"

	labelPipeline = "pipeline" // consumer/<name> or producer/<name>
	labelStep     = "step"
)

// buckets range from fast calls within a data centre to jobs of five minutes, in seconds.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// runBuckets range from a short test to a day, in seconds.
var runBuckets = []float64{.1, 1, 10, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// sizeBuckets have a bucket for empty fetches.
var sizeBuckets = []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000}

type metrics struct {
	calls        *prometheus.CounterVec
	callDuration *prometheus.HistogramVec
	attempts     *prometheus.CounterVec
	retries      *prometheus.CounterVec
	hedges       *prometheus.CounterVec
	denied       *prometheus.CounterVec
	retryDelay   *prometheus.HistogramVec
	circuitState *prometheus.GaugeVec
	limitWait    *prometheus.HistogramVec
	limit        *prometheus.GaugeVec
	reports      *prometheus.CounterVec
	shadow       *prometheus.CounterVec
	pipelines    pipelineMetrics
}

type pipelineMetrics struct {
	deliveries   *prometheus.CounterVec
	processed    *prometheus.CounterVec
	inFlight     *prometheus.GaugeVec
	fetchSize    *prometheus.HistogramVec
	emptyWait    *prometheus.HistogramVec
	runDuration  *prometheus.HistogramVec
	stepDuration *prometheus.HistogramVec
	retries      *prometheus.CounterVec
	backoff      *prometheus.HistogramVec
	timeouts     *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		calls: counter("tenet_calls_total",
			"Finished calls, job executions and steps, by reason.", labelKey, labelSurface, labelReason),
		callDuration: histogram("tenet_call_duration_seconds",
			"Duration of a call, waits included.", labelKey),
		attempts: counter("tenet_attempts_total",
			"Attempts that ran the operation, including retries and hedges.", labelKey, labelOutcome, labelReason),
		retries: counter("tenet_retries_total",
			"Attempts that repeated a failed attempt or group, not counting hedges.", labelKey),
		hedges: counter("tenet_hedges_total",
			"Attempts started while a slow one was running.", labelKey),
		denied: counter("tenet_denied_total",
			"Attempts refused by a budget, a breaker, a limit or max_extra_load before the operation ran.", labelKey, labelReason),
		retryDelay: histogram("tenet_retry_delay_seconds",
			"Delays before retries, as decided.", labelKey),
		circuitState: gauge("tenet_circuit_state",
			"State of the breaker: 0 closed, 1 half open, 2 open. Absent until the first change.", labelKey),
		limitWait: histogram("tenet_limit_wait_seconds",
			"Waits of attempts for a concurrency or rate limit; attempts that did not wait are not counted.", labelKey),
		limit: gauge("tenet_limit_concurrency",
			"The adaptive concurrency limit, in attempts. Absent until the first change.", labelKey),
		reports: counter("tenet_reports_total",
			"Reports to operators, such as overruns and missing parts.", labelReason),
		shadow: counter("tenet_shadow_divergences_total",
			"Decisions that the policy under trial would have made differently, by both reasons. Two equal reasons: the wait differs.", labelKey, labelReason, labelShadowReason),
		pipelines: pipelineMetrics{
			deliveries: counter("tenet_pipeline_deliveries_total",
				"Finished deliveries, by outcome.", labelPipeline, labelOutcome),
			processed: counter("tenet_pipeline_processed_total",
				"Transactions whose process or produce step succeeded, even if a later step failed.", labelPipeline),
			inFlight: gauge("tenet_pipeline_in_flight",
				"Transactions that are running.", labelPipeline),
			fetchSize: histogramIn(sizeBuckets, "tenet_pipeline_fetch_size",
				"Deliveries per fetch, or transactions per chunk; 0 if the source was empty.", labelPipeline),
			emptyWait: histogram("tenet_pipeline_empty_wait_seconds",
				"Waits after empty fetches.", labelPipeline),
			runDuration: histogramIn(runBuckets, "tenet_pipeline_run_duration_seconds",
				"Duration of a run.", labelPipeline),
			stepDuration: histogram("tenet_pipeline_step_duration_seconds",
				"Duration of a step or transaction, including all attempts and waits.", labelPipeline, labelStep),
			retries: counter("tenet_pipeline_retries_total",
				"Attempts of a step that repeated a failed attempt.", labelPipeline, labelStep),
			backoff: histogram("tenet_pipeline_backoff_seconds",
				"Delays before retries of a step, as decided.", labelPipeline, labelStep),
			timeouts: counter("tenet_pipeline_timeouts_total",
				"Timeouts of attempts and steps, of transactions (step=transaction) and of runs (step=run).", labelPipeline, labelStep),
		},
	}
}

// collectors registers all metrics as one collector: registration succeeds or fails as a whole.
type collectors []prometheus.Collector

func (m *metrics) collectors() collectors {
	p := &m.pipelines
	return collectors{
		m.calls, m.callDuration, m.attempts, m.retries, m.hedges, m.denied, m.retryDelay, m.circuitState, m.limitWait, m.limit, m.reports, m.shadow,
		p.deliveries, p.processed, p.inFlight, p.fetchSize, p.emptyWait, p.runDuration, p.stepDuration, p.retries, p.backoff, p.timeouts,
	}
}

// Describe implements prometheus.Collector.
func (c collectors) Describe(ch chan<- *prometheus.Desc) {
	for _, part := range c {
		part.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c collectors) Collect(ch chan<- prometheus.Metric) {
	for _, part := range c {
		part.Collect(ch)
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return histogramIn(buckets, name, help, labels...)
}

func histogramIn(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
