package pipelines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/monitor"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// pipelineSetup holds everything that a consumer or producer runs with.
type pipelineSetup struct {
	app     *cli.App
	options []pipeline.Option
	log     *slog.Logger
	cli.Closers
	set     *policy.Set
	from    pipeline.Source
	sink    pipeline.Sink   // nil without --sink
	letters pipeline.Sink   // for dead letters; nil without --dead-letter
	service *monitor.Health // nil without --listen
	last    lastEnd
	ended   bool // all transactions are done, so files can take their final names
}

// check checks the source and sinks that support it.
func (s *pipelineSetup) check(ctx context.Context) error {
	var faults []error
	for _, place := range []any{s.from, s.sink, s.letters} {
		if c, ok := place.(pipeline.Checker); ok {
			faults = append(faults, c.Check(ctx))
		}
	}
	return errors.Join(faults...)
}

// noteEnd logs a transaction that was not processed, and remembers the last that failed.
func (s *pipelineSetup) noteEnd(e pipeline.Ended) {
	s.last.setFailed(e)
	message := map[pipeline.Outcome]string{
		pipeline.Failed: "a transaction failed and will be delivered again", pipeline.Exception: "a transaction failed for good; its exception was handled",
	}[e.Outcome]
	if message != "" {
		s.log.Warn(message, "transaction", e.Delivery.Transaction.ID(), "error", excerpt(e.Err.Error()))
	}
}

// excerpt returns the beginning of an error text, for a log line.
func excerpt(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// unnamed returns the failure for a pipeline that the document does not have.
func (p pipe) unnamed(set *policy.Set) error {
	known := "it has none; write " + p.kind + "s: {" + p.name + ": {}} for one with all defaults"
	if others := Named(set, p.kind); len(others) > 0 {
		known = "it has " + strings.Join(others, ", ")
	}
	return cli.Fail(cli.ExitNotFound, fmt.Errorf("%s has no %s %q; %s", p.document.Path, p.kind, p.name, known))
}

// setUp opens everything for an engine except its source and sinks. o holds its name and observers.
func (f *pipelineFlags) setUp(ctx context.Context, a *cli.App, o monitor.Options, set *policy.Set) (s *pipelineSetup, err error) {
	s = &pipelineSetup{app: a, log: o.Log, set: set}
	shadow, err := open.Shadow(ctx, a, open.DocumentRef{Name: *f.shadow, Token: f.document.Token}, o.Provider)
	if err != nil {
		return nil, err
	}
	o.OTLP, o.Listen, o.Audit, o.Verbose, o.Shadow = *f.otlp, f.listen, *f.audit, f.verbose, shadow != nil
	watch, err := monitor.Start(ctx, a, o)
	if err != nil {
		return nil, err
	}
	s.OnClose(watch.Close)
	s.service = watch.Health
	hub, closeHub, err := open.Limits(ctx, a, open.LimitsOptions{
		URL: *f.limits, Set: set, Uses: func(key policy.Key) bool { return key.Surface() == policy.SurfaceStep },
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.OnClose(closeHub)
	s.options = []pipeline.Option{
		pipeline.WithName(o.Name), pipeline.WithProvider(o.Provider), pipeline.WithGrace(f.grace), pipeline.WithLogger(s.log),
		pipeline.WithObserver(watch.Observer), pipeline.WithExecutorOptions(retry.ExecutorOptions{
			Classes: []classify.Family{tenethttp.Classes(), command.Classes(), postgres.Classes(), sqlite.Classes()},
			Classifiers: map[string]classify.Classifier{
				tenethttp.ClassifierName: tenethttp.Classifier(), command.Name: command.Classifier(command.Codes{}),
			},
			Journal: watch.Journal, Sharing: hub, Shadow: shadow,
		}),
	}
	if f.store == "" {
		return s, nil
	}
	guard, closeStore, err := open.Guard(ctx, a, f.store, idempotency.GuardOptions{
		TTL: f.ttl, ReplaySafe: f.replaySafe, Observer: watch.Observer, Journal: watch.Journal,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.OnClose(closeStore)
	s.options = append(s.options, pipeline.WithGuard(guard))
	return s, nil
}

// open opens the places: the source first, so that a missing input leaves no output behind.
func (s *pipelineSetup) open(ctx context.Context, p places, timeout time.Duration) (err error) {
	if p.one != nil {
		s.from = &single{p.one}
		s.options = append(s.options, pipeline.WithEnded(s.last.set))
	} else {
		source, err := p.from.Source(ctx, s.app, s.log)
		if err != nil {
			return err
		}
		s.OnClose(source.Close)
		s.from = source
	}
	o := open.SinkOptions{Timeout: timeout, Set: s.set}
	if p.sink != nil {
		if s.sink, err = s.openSink(ctx, p.sink, o); err != nil {
			return err
		}
	}
	if p.letters == nil {
		return nil
	}
	o.Letters = true
	if s.letters, err = s.openSink(ctx, p.letters, o); err != nil {
		return err
	}
	s.options = append(s.options, pipeline.WithDeadLetter(s.letters))
	return nil
}

// openSink opens a sink that the setup closes. If the run does not finish, the next run continues a file.
func (s *pipelineSetup) openSink(ctx context.Context, p *open.Place, o open.SinkOptions) (pipeline.Sink, error) {
	sink, err := p.Sink(ctx, s.app, o)
	if err != nil {
		return nil, err
	}
	s.OnClose(func() error {
		if file, ok := sink.(interface{ Suspend() error }); ok && !s.ended {
			return file.Suspend()
		}
		return sink.Close()
	})
	return sink, nil
}

// longest returns the timeout of an HTTP request: the longest timeout of the steps, or the default if that is longer.
func longest(steps []policy.Step) time.Duration {
	d := httpsink.DefaultTimeout
	for _, s := range steps {
		d = max(d, s.Retry.TimeoutPerAttempt)
	}
	return d
}
