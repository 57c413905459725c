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
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// pipelineSetup is what a consumer or producer runs with. close ends all that was opened.
type pipelineSetup struct {
	app     *cli.App
	options []pipeline.Option
	log     *slog.Logger
	cli.Closers
	set     *policy.Set
	from    pipeline.Source
	sink    pipeline.Sink   // nil where there is none, as letters
	letters pipeline.Sink   // dead ones
	service *monitor.Health // nil without --listen
	only    only            // how the one transaction of a run ended, or the last that failed
	ended   bool            // everything is done, so that files may take their names
}

// check asks the places that can tell whether they are usable.
func (s *pipelineSetup) check(ctx context.Context) error {
	var faults []error
	for _, place := range []any{s.from, s.sink, s.letters} {
		if c, ok := place.(pipeline.Checker); ok {
			faults = append(faults, c.Check(ctx))
		}
	}
	return errors.Join(faults...)
}

// noteEnd logs a transaction that was not processed, and keeps the last that failed for the end.
func (s *pipelineSetup) noteEnd(e pipeline.Ended) {
	s.only.noteFailed(e)
	said := map[pipeline.Outcome]string{
		pipeline.Failed: "a transaction failed, and comes again", pipeline.Exception: "a transaction was given up, and its exception handled",
	}[e.Outcome]
	if said != "" {
		s.log.Warn(said, "transaction", e.Delivery.Transaction.ID(), "error", excerpt(e.Err.Error()))
	}
}

// excerpt is the beginning of an error text, for a line of the log.
func excerpt(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// document returns the document of --policy, and the provider that follows its file.
func (f *pipelineFlags) document(ctx context.Context, a *cli.App, log *slog.Logger, changes *recording.Changes) (policy.Provider, *policy.Set, error) {
	if f.policy == "" {
		return nil, nil, cli.Usagef("no document given; name it with --policy FILE")
	}
	if f.policy == cli.StandardInput && f.payload == cli.StandardInput {
		return nil, nil, cli.Usagef("--policy and --payload cannot both be stdin")
	}
	return a.FollowDocument(ctx, f.policy, log, changes.Tell)
}

// unnamed is the failure of a pipeline that the document does not name.
func (p pipe) unnamed(set *policy.Set) error {
	known := "it has none; write " + p.kind + "s: {" + p.name + ": {}} for one with all defaults"
	if others := Named(set, p.kind); len(others) > 0 {
		known = "it has " + strings.Join(others, ", ")
	}
	return cli.Fail(cli.ExitNotFound, fmt.Errorf("%s has no %s %q; %s", p.policy, p.kind, p.name, known))
}

// setUp opens everything around an engine but its source and sink. o says who observes it, under the name of the pipeline.
func setUp(ctx context.Context, a *cli.App, f *pipelineFlags, o monitor.Options) (s *pipelineSetup, err error) {
	s = &pipelineSetup{app: a, log: o.Log}
	o.OTLP, o.Listen, o.Audit, o.Verbose = *f.otlp, f.listen, *f.audit, f.verbose
	watch, err := monitor.Start(ctx, a, o)
	if err != nil {
		return nil, err
	}
	s.OnClose(watch.Close)
	s.service = watch.Health
	s.options = []pipeline.Option{
		pipeline.WithName(o.Name), pipeline.WithProvider(o.Provider), pipeline.WithGrace(f.grace), pipeline.WithLogger(s.log),
		pipeline.WithObserver(watch.Observer), pipeline.WithExecutorOptions(retry.ExecutorOptions{
			Classes: []classify.Family{tenethttp.Classes(), command.Classes(), postgres.Classes(), sqlite.Classes()},
			Classifiers: map[string]classify.Classifier{
				tenethttp.ClassifierName: tenethttp.Classifier(), command.Name: command.Classifier(command.Codes{}),
			},
			Journal: watch.Journal,
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
		s.options = append(s.options, pipeline.WithEnded(s.only.note))
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

// openSink opens a sink that is closed with the setup. The file of a run that has not come to its end is left for the next run.
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

// longest is how long an HTTP request may take: as long as the steps allow, and not less than by default.
func longest(steps []policy.Step) time.Duration {
	d := httpsink.DefaultTimeout
	for _, s := range steps {
		d = max(d, s.Retry.TimeoutPerAttempt)
	}
	return d
}
