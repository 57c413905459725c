package prom

import "github.com/prometheus/client_golang/prometheus"

// The names and labels of all metrics, which are a public interface: a change is noted in the changelog.
const (
	labelKey     = "key"
	labelSurface = "surface"
	labelOutcome = "outcome"
	labelReason  = "reason"
)

// buckets reach from fast calls in one data centre to jobs of five minutes, in seconds.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

type metrics struct {
	calls        *prometheus.CounterVec
	callDuration *prometheus.HistogramVec
	attempts     *prometheus.CounterVec
	retries      *prometheus.CounterVec
	hedges       *prometheus.CounterVec
	denied       *prometheus.CounterVec
	retryDelay   *prometheus.HistogramVec
	circuitState *prometheus.GaugeVec
	reports      *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		calls: counter("tenet_calls_total",
			"Finished calls, executions of jobs and steps, by the reason why they ended.", labelKey, labelSurface, labelReason),
		callDuration: histogram("tenet_call_duration_seconds",
			"Time from the start of a call to its end, waits included.", labelKey),
		attempts: counter("tenet_attempts_total",
			"Attempts whose operation ran, retries and hedges included.", labelKey, labelOutcome, labelReason),
		retries: counter("tenet_retries_total",
			"Attempts that repeated a failed attempt or group; hedges are not counted.", labelKey),
		hedges: counter("tenet_hedges_total",
			"Attempts started beside a slow one.", labelKey),
		denied: counter("tenet_denied_total",
			"Attempts refused by a budget, a breaker or max_extra_load; no operation ran.", labelKey, labelReason),
		retryDelay: histogram("tenet_retry_delay_seconds",
			"Decided waits before a retry.", labelKey),
		circuitState: gauge("tenet_circuit_state",
			"State of the breaker since it first changed: 0 closed, 1 half open, 2 open.", labelKey),
		reports: counter("tenet_reports_total",
			"Reports to operators, such as overruns and missing parts.", labelReason),
	}
}

// collectors are registered as one, so that registration succeeds or fails as a whole.
type collectors []prometheus.Collector

func (m *metrics) collectors() collectors {
	return collectors{m.calls, m.callDuration, m.attempts, m.retries, m.hedges, m.denied, m.retryDelay, m.circuitState, m.reports}
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
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
