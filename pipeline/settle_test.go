package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
)

// patient notes how long its acknowledgements may take.
type patient struct {
	*scripted
	left []time.Duration
}

func (s *patient) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	deadline, _ := ctx.Deadline()
	s.left = append(s.left, time.Until(deadline))
	if done[0].Transaction.ID() == "hangs" {
		<-ctx.Done()
	}
	return s.scripted.Ack(ctx, done)
}

// TestL11EachAcknowledgementHasTime, however many there are and whatever became of those before.
func TestL11EachAcknowledgementHasTime(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		names := append(many(12), "hangs", "last")
		source := &patient{scripted: newScripted(answer{ids: names}, answer{err: pipeline.ErrEnd})}
		s := &script{process: map[string][]act{"*": ok(7 * time.Second), "last": ok(time.Minute)}}
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, len(names)), quiet).Run(bg)
		if err != nil || summary.Success != len(names) || len(source.left) != len(names) {
			t.Fatal(summary, err, source.left)
		}
		for i, left := range source.left {
			if left < 15*time.Second || left > 30*time.Second {
				t.Errorf("%s: %v", names[i], left)
			}
		}
	})
}
