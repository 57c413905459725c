package job

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// health tracks whether the store answers. It logs once when the first operation fails, and once when every operation works
// again.
type health struct {
	log     *slog.Logger
	mu      sync.Mutex
	answer  time.Time       // when the store last answered
	failing map[string]bool // by what the worker does: claim, settle …
	since   time.Time       // when the first of them failed
}

// answered notes that the store has answered now.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = time.Now()
}

// check returns an error if the store has not answered for the time given.
func (h *health) check(within time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := time.Since(h.answer); age > within {
		return fmt.Errorf("job: the store has not answered for %v", age.Round(time.Second))
	}
	return nil
}

// reportUnder is report for an operation under ctx, whose end says nothing about the store.
func (h *health) reportUnder(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil {
		h.report(doing, err)
	}
}

// report notes how an operation ended. A failed operation is repeated; one that will not be repeated reports nil.
func (h *health) report(doing string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && h.failing[doing]:
		if delete(h.failing, doing); len(h.failing) == 0 {
			h.log.Info("job: the store works again", "after", time.Since(h.since).Round(time.Millisecond).String())
		}
		return
	case err == nil:
		return
	case len(h.failing) == 0:
		h.failing, h.since = map[string]bool{}, time.Now()
		h.log.Warn("job: the store fails; the worker repeats its requests until it works again", "doing", doing, "error", err)
	default:
		h.log.Debug("job: the store still fails", "doing", doing, "error", err)
	}
	h.failing[doing] = true
}
