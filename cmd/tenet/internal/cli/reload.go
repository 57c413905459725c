package cli

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

// Hangups passes SIGHUP to a command that reloads its document. SIGHUP stops all other commands.
type Hangups struct {
	wanted atomic.Bool
	signal chan struct{} // holds one
}

// NewHangups returns a Hangups without a receiver.
func NewHangups() *Hangups { return &Hangups{signal: make(chan struct{}, 1)} }

// Take reports whether a command handles the signal, which then must not stop it.
func (h *Hangups) Take() bool {
	if !h.wanted.Load() {
		return false
	}
	select {
	case h.signal <- struct{}{}:
	default: // a reload is pending already
	}
	return true
}

// Reloads makes SIGHUP reload a provider that reads a file, until stop is called.
func (a *App) Reloads(provider policy.Provider, log *slog.Logger) (stop func()) {
	file, ok := provider.(interface{ Reload(context.Context) error })
	if !ok || a.Hangups == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	a.Hangups.wanted.Store(true)
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.Hangups.signal:
			}
			if err := file.Reload(ctx); err != nil {
				log.Error("SIGHUP: the document could not be reloaded; the last good one stays in force", "error", err)
			} else {
				log.Info("SIGHUP: the document is up to date")
			}
		}
	})
	return func() {
		a.Hangups.wanted.Store(false)
		cancel()
		done.Wait()
	}
}
