package prom

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Options configure [New]. The zero value works.
type Options struct {
	// Registerer registers the metrics. Default prometheus.DefaultRegisterer.
	Registerer prometheus.Registerer
	// MaxKeys is how many keys the key label tells apart, and how many pipelines the pipeline label; further ones are "other",
	// which is logged once through slog. Default 500; 0 and less take the default.
	MaxKeys int
}

// Observer counts events. Safe for concurrent use.
type Observer struct {
	metrics *metrics
	keys    *observe.PerKey[*series]

	pipelines *observe.PerKey[*pipeline]
}

// New registers the metrics and returns their Observer, which serves any number of executors. A second one at the same
// Registerer is an error that wraps prometheus.AlreadyRegisteredError.
func New(o Options) (*Observer, error) {
	registerer := cmp.Or(o.Registerer, prometheus.DefaultRegisterer)
	m := newMetrics()
	if err := registerer.Register(m.collectors()); err != nil {
		return nil, fmt.Errorf("prom: register the metrics (share one Observer per Registerer): %w", err)
	}
	return &Observer{
		metrics: m, keys: observe.NewPerKey(o.MaxKeys, m.series), pipelines: observe.NewPerKey(o.MaxKeys, m.pipelines.of),
	}, nil
}

// Observe implements observe.Observer.
func (o *Observer) Observe(_ context.Context, e *observe.Event) {
	if e.Work.Surface == policy.SurfaceStep {
		o.pipelines.Get(policy.Key{Name: e.Work.Key.Namespace}).observe(e)
	}
	switch e.Type {
	case observe.AttemptEnded:
		s := o.keys.Get(e.Work.Key)
		s.attempt(e.Attempt)
		if wait, waited := e.Attempt.LimitWait(); waited {
			o.metrics.limitWait.WithLabelValues(s.label).Observe(wait.Seconds())
		}
	case observe.Decided:
		if v := e.Decision.Verdict; v.Action == decision.Retry {
			o.keys.Get(e.Work.Key).delay.Observe(v.Delay.Seconds())
		}
		if s := e.Decision.Shadow; s != nil {
			o.metrics.shadow.WithLabelValues(o.keys.Get(e.Work.Key).label, observe.ReasonLabel(e.Decision.Verdict.Reason), observe.ReasonLabel(s.Verdict.Reason)).Inc()
		}
	case observe.CallEnded:
		o.keys.Get(e.Work.Key).call(e.Work.Surface, e.Timeline)
	case observe.CircuitChanged:
		if level, ok := observe.CircuitLevel(e.Circuit.To); ok {
			o.metrics.circuitState.WithLabelValues(o.keys.Get(e.Work.Key).label).Set(float64(level))
		}
	case observe.LimitChanged:
		o.metrics.limit.WithLabelValues(o.keys.Get(e.Work.Key).label).Set(float64(e.Limit.To))
	case observe.Reported:
		o.metrics.reports.WithLabelValues(observe.ReasonLabel(e.Report.Reason)).Inc()
	}
}

// series holds the metrics of one key, resolved at its first event, except for the gauge of the breaker: a key without a
// breaker must not look like one whose breaker is closed.
type series struct {
	label    string
	duration prometheus.Observer
	delay    prometheus.Observer
	retries  prometheus.Counter
	hedges   prometheus.Counter
	calls    children[callLabels, prometheus.Counter]
	attempts children[attemptLabels, prometheus.Counter]
	denied   children[deniedLabels, prometheus.Counter]
}

type (
	callLabels    struct{ surface, reason string }
	attemptLabels struct{ outcome, reason string }
	deniedLabels  struct{ reason string }
)

func (m *metrics) series(key string) *series {
	s := &series{
		label:    key,
		duration: m.callDuration.WithLabelValues(key),
		delay:    m.retryDelay.WithLabelValues(key),
		retries:  m.retries.WithLabelValues(key),
		hedges:   m.hedges.WithLabelValues(key),
	}
	s.calls.resolve = func(l callLabels) prometheus.Counter { return m.calls.WithLabelValues(key, l.surface, l.reason) }
	s.attempts.resolve = func(l attemptLabels) prometheus.Counter { return m.attempts.WithLabelValues(key, l.outcome, l.reason) }
	s.denied.resolve = func(l deniedLabels) prometheus.Counter { return m.denied.WithLabelValues(key, l.reason) }
	return s
}

func (s *series) attempt(a *observe.AttemptRecord) {
	reason := observe.ReasonLabel(a.Outcome.Reason)
	if a.Denied {
		s.denied.of(deniedLabels{reason}).Inc()
		return
	}
	s.attempts.of(attemptLabels{observe.OutcomeLabel(a.Outcome.Kind), reason}).Inc()
	switch {
	case a.HedgeIndex > 0:
		s.hedges.Inc()
	case a.RetryIndex > 0:
		s.retries.Inc()
	}
}

func (s *series) call(surface policy.Surface, t *observe.Timeline) {
	s.calls.of(callLabels{observe.SurfaceLabel(surface), observe.ReasonLabel(t.Reason)}).Inc()
	s.duration.Observe(max(t.End.Sub(t.Start), 0).Seconds())
}

// children caches the metrics of one key or pipeline by the remaining labels, whose values are a fixed set.
type children[L comparable, M any] struct {
	cached  sync.Map // L → M
	resolve func(L) M
}

func (c *children[L, M]) of(labels L) M {
	if found, ok := c.cached.Load(labels); ok {
		return found.(M)
	}
	resolved := c.resolve(labels)
	c.cached.Store(labels, resolved)
	return resolved
}
