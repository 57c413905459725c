package pipeline_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/internal/testguard"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
)

func TestIGuardsMeanTheSameForPipelines(t *testing.T) {
	testguard.Run(t, testguard.Entrance{Errors: true, Ask: func(ctx context.Context, t *testing.T, c testguard.Call) (got testguard.Answer) {
		task := pipeline.Handle(func(ctx context.Context, _ *pipeline.Transaction) error {
			_, err := c.Op(ctx)
			return err
		})
		p := consumerPolicy(1, 1)
		p.Loop.Limit = 1
		p.Steps.Process.Retry.MaxAttempts = 1
		reason := observe.Func(func(_ context.Context, e *observe.Event) {
			if e.Type == observe.CallEnded && e.Timeline != nil && e.Timeline.CallID == c.Key && e.Timeline.Attributes.Get(pipeline.AttrOutcome) != "" {
				got.Reason = e.Timeline.Reason
			}
		})
		redelivered := false
		source := newScripted(answer{ids: []string{c.Key}}, answer{err: pipeline.ErrEnd})
		_, err := pipeline.NewConsumer(source, task, p, quiet, pipeline.WithGuard(c.Guard), pipeline.WithObserver(reason),
			pipeline.WithEnded(func(e pipeline.Ended) {
				got.OK, redelivered = e.Outcome == pipeline.Success, e.Outcome == pipeline.Redelivered
			})).Run(ctx)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if redelivered && len(source.nacked) > 0 {
			got.RetryAfter = source.nacked[0].Delay
		}
		return got
	}})
}
