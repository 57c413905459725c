package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

// hangups hands SIGHUP to a command that reloads its document. Other commands are stopped by it.
type hangups struct {
	wanted atomic.Bool
	came   chan struct{} // holds one
}

func newHangups() *hangups { return &hangups{came: make(chan struct{}, 1)} }

// take reports whether a command takes the signal. It must then not stop the command.
func (h *hangups) take() bool {
	if !h.wanted.Load() {
		return false
	}
	select {
	case h.came <- struct{}{}:
	default: // the reload that is about to begin is meant too
	}
	return true
}

// reloads makes SIGHUP reload a provider that reads a file, until the function returned is called.
func (a *app) reloads(provider policy.Provider, log *slog.Logger) (stop func()) {
	file, ok := provider.(interface{ Reload(context.Context) error })
	if !ok || a.hangups == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	a.hangups.wanted.Store(true)
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.hangups.came:
			}
			if err := file.Reload(ctx); err != nil {
				log.Error("SIGHUP: the document could not be reloaded; the last good one stays in force", "error", err)
			} else {
				log.Info("SIGHUP: the document is up to date")
			}
		}
	})
	return func() {
		a.hangups.wanted.Store(false)
		cancel()
		done.Wait()
	}
}
