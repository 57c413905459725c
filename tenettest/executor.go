package tenettest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/retry"
)

// Waits are the delays that an executor would have slept, in order. Safe for concurrent use.
type Waits struct {
	mu   sync.Mutex
	list []time.Duration
}

// All returns a copy of the waits so far.
func (w *Waits) All() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// Total is the sum of the waits so far.
func (w *Waits) Total() time.Duration {
	var total time.Duration
	for _, d := range w.All() {
		total += d
	}
	return total
}

func (w *Waits) add(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, d)
	return nil
}

// NewExecutor makes an executor with the options given that records its waits. Timeouts, deadlines and hedging still run
// on the real clock; use testing/synctest where those matter.
func NewExecutor(options retry.ExecutorOptions) (*retry.Executor, *Waits) {
	w := &Waits{}
	options.Wait = w.add
	return retry.NewExecutor(options), w
}
