package monitor

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Options selects the observers of a long-running command.
type Options struct {
	Name     string                 // of the process at the collector
	OTLP     string                 // --otlp; empty for none
	Listen   string                 // --listen; empty for none
	Audit    string                 // --audit; empty for none
	Verbose  bool                   // log every attempt
	Shadow   bool                   // log where the policies under trial decide differently
	Log      *slog.Logger           // at level debug if Verbose is set
	Metrics  []prometheus.Collector // for --listen, in addition to those of the process
	Provider policy.Provider        // Changes records those of its document; nil without a document
	Changes  *recording.Changes
}

// Watch holds the observers of a command. It must be closed.
type Watch struct {
	Observer observe.Observer
	Journal  observe.Journal // nil without --audit
	Health   *Health         // nil without --listen
	cli.Closers
}

// Start starts the observers of the options. After an error none is running.
func Start(ctx context.Context, a *cli.App, o Options) (*Watch, error) {
	w := &Watch{}
	if err := w.start(ctx, a, o); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Watch) start(ctx context.Context, a *cli.App, o Options) (err error) {
	var observers []observe.Observer
	if o.OTLP != "" {
		exporter, closeExport, err := export(ctx, o.OTLP, o.Name, o.Log)
		if err != nil {
			return err
		}
		w.OnClose(func() error { closeExport(); return nil })
		observers = append(observers, exporter) // first, so that log lines carry its IDs
	}
	switch lines := observe.Slog(o.Log); {
	case o.Verbose:
		observers = append(observers, lines)
	case o.Shadow:
		observers = append(observers, observe.Func(func(ctx context.Context, e *observe.Event) {
			if e.Type == observe.Decided && e.Decision.Shadow != nil {
				lines.Observe(ctx, e)
			}
		}))
	}
	if o.Listen != "" {
		if w.Health, err = listen(o.Listen, o.Log, o.Metrics...); err != nil {
			return err
		}
		w.OnClose(w.Health.close)
		observers = append(observers, w.Health.observer)
	}
	if o.Audit != "" {
		log, closeLog, err := open.Log(ctx, a, o.Audit)
		if err != nil {
			return err
		}
		w.OnClose(closeLog)
		observers, w.Journal = append(observers, log), log
		o.Changes.Follow(ctx, log, o.Provider, o.Log)
	}
	w.Observer = observe.Multi(append(observers, Reports(o.Provider))...)
	return nil
}

// Reports returns the observer that reports calls to the server of a provider's document, or nil if it is not a server's.
func Reports(provider policy.Provider) observe.Observer {
	if server, ok := provider.(interface{ Observer() observe.Observer }); ok {
		return server.Observer()
	}
	return nil
}
