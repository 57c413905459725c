package otel

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// countPipeline updates the metrics of a pipeline for an event of one of its steps.
func (o *Observer) countPipeline(ctx context.Context, e *observe.Event) {
	i, pipeline := &o.instruments.pipelines, o.pipelines.Get(policy.Key{Name: e.Work.Key.Namespace})
	ofStep := func() metric.MeasurementOption {
		return metric.WithAttributes(pipeline, attrStep.String(observe.StepLabel(e.Work.Key.Name)))
	}
	switch e.Type {
	case observe.Flowed:
		o.countFlow(ctx, e.Flow, metric.WithAttributes(pipeline))
		if e.Flow.Outcome != "" {
			i.deliveries.Add(ctx, 1, metric.WithAttributes(pipeline, attrOutcome.String(observe.FlowLabel(e.Flow.Outcome))))
		}
	case observe.AttemptEnded:
		if e.Attempt.RetryIndex > 0 && !e.Attempt.Denied {
			i.retries.Add(ctx, 1, ofStep())
		}
	case observe.Decided:
		if v := e.Decision.Verdict; v.Action == decision.Retry {
			i.backoff.Record(ctx, v.Delay.Seconds(), ofStep())
		}
	case observe.CallEnded:
		took := max(e.Timeline.End.Sub(e.Timeline.Start), 0).Seconds()
		if e.Work.Key.Name == observe.StepRun {
			i.runDuration.Record(ctx, took, metric.WithAttributes(pipeline))
		} else {
			i.stepDuration.Record(ctx, took, ofStep())
		}
	}
	if observe.TimedOut(e) {
		i.timeouts.Add(ctx, 1, ofStep())
	}
}

func (o *Observer) countFlow(ctx context.Context, f *observe.Flow, pipeline metric.MeasurementOption) {
	i := &o.instruments.pipelines
	if f.InFlight != 0 {
		i.inFlight.Add(ctx, int64(f.InFlight), pipeline)
	}
	if f.Processed {
		i.processed.Add(ctx, 1, pipeline)
	}
	if f.Fetch {
		i.fetchSize.Record(ctx, int64(f.Fetched), pipeline)
	}
	if f.EmptyWait > 0 {
		i.emptyWait.Record(ctx, f.EmptyWait.Seconds(), pipeline)
	}
}
