package otel

import (
	"context"
	"fmt"

	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Options configure [New]. The zero value works.
type Options struct {
	// TracerProvider makes the spans. Default: the global provider, which may also be set after New.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. Default: the global provider, which may also be set after New.
	MeterProvider metric.MeterProvider
	// MaxKeys is how many keys the metrics tell apart, and how many pipelines; further ones are "other", which is logged once
	// through slog. Spans have every key unchanged. Default 500; 0 and less take the default.
	MaxKeys int
}

// Observer makes spans and metrics of events. It is an observe.Observer and an observe.Starter, and is safe for
// concurrent use.
type Observer struct {
	tracer      trace.Tracer
	instruments instruments
	keys        *observe.PerKey[attribute.KeyValue]
	pipelines   *observe.PerKey[attribute.KeyValue]
}

// New returns an Observer. It returns an error if the meter provider refuses an instrument.
func New(o Options) (*Observer, error) {
	tracers, meters := o.TracerProvider, o.MeterProvider
	if tracers == nil {
		tracers = api.GetTracerProvider()
	}
	if meters == nil {
		meters = api.GetMeterProvider()
	}
	instruments, err := newInstruments(meters.Meter(Scope))
	if err != nil {
		return nil, fmt.Errorf("otel: create the instruments: %w", err)
	}
	return &Observer{
		tracer: tracers.Tracer(Scope), instruments: instruments,
		keys:      observe.NewPerKey(o.MaxKeys, attrKey.String),
		pipelines: observe.NewPerKey(o.MaxKeys, attrPipeline.String),
	}, nil
}

// Observe implements observe.Observer.
func (o *Observer) Observe(ctx context.Context, e *observe.Event) {
	if e.Work.Surface == policy.SurfaceStep {
		o.countPipeline(ctx, e)
	}
	switch e.Type {
	case observe.AttemptEnded:
		o.countAttempt(ctx, e)
		endAttempt(ctx, e.Attempt)
	case observe.Decided:
		if v := e.Decision.Verdict; v.Action == decision.Retry {
			o.instruments.retryDelay.Record(ctx, v.Delay.Seconds(), metric.WithAttributes(o.keys.Get(e.Work.Key)))
		}
		if s := e.Decision.Shadow; s != nil {
			o.instruments.shadow.Add(ctx, 1, metric.WithAttributes(o.keys.Get(e.Work.Key),
				attrReason.String(observe.ReasonLabel(e.Decision.Verdict.Reason)), attrShadowReason.String(observe.ReasonLabel(s.Verdict.Reason))))
		}
	case observe.CallEnded:
		o.countCall(ctx, e)
		endCall(ctx, e)
	case observe.CircuitChanged:
		o.countCircuit(ctx, e)
		addCircuit(ctx, e)
	case observe.LimitChanged:
		o.instruments.limit.Record(ctx, int64(e.Limit.To), metric.WithAttributes(o.keys.Get(e.Work.Key)))
	case observe.Reported:
		o.instruments.reports.Add(ctx, 1, metric.WithAttributes(attrReason.String(observe.ReasonLabel(e.Report.Reason))))
		addReport(ctx, e)
	}
}

func (o *Observer) countAttempt(ctx context.Context, e *observe.Event) {
	a, key := e.Attempt, o.keys.Get(e.Work.Key)
	reason := attrReason.String(observe.ReasonLabel(a.Outcome.Reason))
	if wait, waited := a.LimitWait(); waited {
		o.instruments.limitWait.Record(ctx, wait.Seconds(), metric.WithAttributes(key))
	}
	if a.Denied {
		o.instruments.denied.Add(ctx, 1, metric.WithAttributes(key, reason))
		return
	}
	o.instruments.attempts.Add(ctx, 1,
		metric.WithAttributes(key, attrOutcome.String(observe.OutcomeLabel(a.Outcome.Kind)), reason))
	switch {
	case a.HedgeIndex > 0:
		o.instruments.hedges.Add(ctx, 1, metric.WithAttributes(key))
	case a.RetryIndex > 0:
		o.instruments.retries.Add(ctx, 1, metric.WithAttributes(key))
	}
}

func (o *Observer) countCall(ctx context.Context, e *observe.Event) {
	t, key := e.Timeline, o.keys.Get(e.Work.Key)
	o.instruments.calls.Add(ctx, 1, metric.WithAttributes(key,
		attrSurface.String(observe.SurfaceLabel(e.Work.Surface)), attrReason.String(observe.ReasonLabel(t.Reason))))
	o.instruments.callDuration.Record(ctx, max(t.End.Sub(t.Start), 0).Seconds(), metric.WithAttributes(key))
}

func (o *Observer) countCircuit(ctx context.Context, e *observe.Event) {
	level, ok := observe.CircuitLevel(e.Circuit.To)
	if !ok {
		return
	}
	o.instruments.circuitState.Record(ctx, int64(level), metric.WithAttributes(o.keys.Get(e.Work.Key)))
}
