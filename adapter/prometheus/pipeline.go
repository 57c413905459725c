package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
)

// pipeline holds the metrics of one consumer or producer, resolved at its first event.
type pipeline struct {
	processed   prometheus.Counter
	inFlight    prometheus.Gauge
	fetchSize   prometheus.Observer
	emptyWait   prometheus.Observer
	runDuration prometheus.Observer
	// By outcome.
	deliveries children[string, prometheus.Counter]
	// By step.
	stepDuration children[string, prometheus.Observer]
	retries      children[string, prometheus.Counter]
	backoff      children[string, prometheus.Observer]
	timeouts     children[string, prometheus.Counter]
}

func (m *pipelineMetrics) of(name string) *pipeline {
	p := &pipeline{
		processed:   m.processed.WithLabelValues(name),
		inFlight:    m.inFlight.WithLabelValues(name),
		fetchSize:   m.fetchSize.WithLabelValues(name),
		emptyWait:   m.emptyWait.WithLabelValues(name),
		runDuration: m.runDuration.WithLabelValues(name),
	}
	p.deliveries.resolve = func(outcome string) prometheus.Counter { return m.deliveries.WithLabelValues(name, outcome) }
	p.stepDuration.resolve = func(step string) prometheus.Observer { return m.stepDuration.WithLabelValues(name, step) }
	p.retries.resolve = func(step string) prometheus.Counter { return m.retries.WithLabelValues(name, step) }
	p.backoff.resolve = func(step string) prometheus.Observer { return m.backoff.WithLabelValues(name, step) }
	p.timeouts.resolve = func(step string) prometheus.Counter { return m.timeouts.WithLabelValues(name, step) }
	return p
}

// observe updates the pipeline's metrics for an event of one of its steps.
func (p *pipeline) observe(e *observe.Event) {
	step := observe.StepLabel(e.Work.Key.Name)
	switch e.Type {
	case observe.Flowed:
		p.flow(e.Flow)
	case observe.AttemptEnded:
		if e.Attempt.RetryIndex > 0 && !e.Attempt.Denied {
			p.retries.of(step).Inc()
		}
	case observe.Decided:
		if v := e.Decision.Verdict; v.Action == decision.Retry {
			p.backoff.of(step).Observe(v.Delay.Seconds())
		}
	case observe.CallEnded:
		took := max(e.Timeline.End.Sub(e.Timeline.Start), 0).Seconds()
		if step == observe.StepRun {
			p.runDuration.Observe(took)
		} else {
			p.stepDuration.of(step).Observe(took)
		}
	}
	if observe.TimedOut(e) {
		p.timeouts.of(step).Inc()
	}
}

func (p *pipeline) flow(f *observe.Flow) {
	p.inFlight.Add(float64(f.InFlight))
	if f.Outcome != "" {
		p.deliveries.of(observe.FlowLabel(f.Outcome)).Inc()
	}
	if f.Processed {
		p.processed.Inc()
	}
	if f.Fetch {
		p.fetchSize.Observe(float64(f.Fetched))
	}
	if f.EmptyWait > 0 {
		p.emptyWait.Observe(f.EmptyWait.Seconds())
	}
}
