package pipeline_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// TestB4AStepHasALimit: the consumer runs six transactions at once, but the limit of its process step two attempts, with a wait for
// the others. Without a wait, they are given back.
func TestB4AStepHasALimit(t *testing.T) {
	for name, tt := range map[string]struct {
		wait             time.Duration
		success, refused int
	}{
		"with a wait":    {time.Minute, 6, 0},
		"without a wait": {0, 2, 4},
	} {
		bubble(t, name, func(t *testing.T) {
			var mu sync.Mutex
			running, most := 0, 0
			count := func(change int) {
				mu.Lock()
				defer mu.Unlock()
				running += change
				most = max(most, running)
			}
			task := pipeline.Task[*pipeline.Transaction, string]{Process: func(context.Context, *pipeline.Transaction) (string, error) {
				count(1)
				time.Sleep(time.Second)
				count(-1)
				return "", nil
			}}
			p := consumerPolicy(6, 6)
			p.Steps.Process.Limit = policy.Limit{Concurrency: 2, MaxWait: tt.wait}
			source := pipeline.NewMemorySource(transactions("a", "b", "c", "d", "e", "f")...)
			summary, err := pipeline.NewConsumer(source, task, p).Run(bg)
			if err != nil || summary.Success != tt.success || summary.Redelivered != tt.refused || most != 2 {
				t.Errorf("%+v, %v, %d at a time", summary, err, most)
			}
		})
	}
}
