package cli

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

// Hangups hands SIGHUP to a command that reloads its document. Other commands are stopped by it.
type Hangups struct {
	wanted atomic.Bool
	came   chan struct{} // holds one
}

// NewHangups makes a Hangups that no command takes yet.
func NewHangups() *Hangups { return &Hangups{came: make(chan struct{}, 1)} }

// Take reports whether a command takes the signal. It must then not stop the command.
func (h *Hangups) Take() bool {
	if !h.wanted.Load() {
		return false
	}
	select {
	case h.came <- struct{}{}:
	default: // the reload that is about to begin is meant too
	}
	return true
}

// Reloads makes SIGHUP reload a provider that reads a file, until the function returned is called.
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
			case <-a.Hangups.came:
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
