package pipelines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/monitor"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// engine is a consumer or producer.
type engine interface {
	Run(ctx context.Context) (pipeline.Summary, error)
	Drain()
	Progress() pipeline.Progress
	Healthy() error
}

// pipe is a pipeline of a document, and how consumers and producers differ.
type pipe struct {
	*pipelineFlags
	name             string
	kind, verb, from string // consumer, consume, source
	// find returns the steps of the document's pipeline and how many transactions run at once.
	find func(set *policy.Set) (steps []policy.Step, atOnce int, ok bool)
	// check checks the flags.
	check func() error
	// engine makes the engine. timeout bounds an HTTP request.
	engine func(s *pipelineSetup, timeout time.Duration) (engine, error)
}

// run runs "tenet consume" or "tenet produce" after its flags are parsed.
func (p pipe) run(ctx context.Context, a *cli.App) (err error) {
	f := p.pipelineFlags
	if f.document.Path == "" {
		return cli.Usagef("no document given; name it with --policy FILE")
	}
	log, changes := a.Logger(overProgress(a), f.verbose), &recording.Changes{}
	provider, set, err := a.FollowDocument(ctx, f.document, log, changes.Record)
	if err != nil {
		return err
	}
	if closer, ok := provider.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	defer a.Reloads(provider, log)()
	steps, atOnce, ok := p.find(set)
	if !ok {
		return p.unnamed(set)
	}
	if err := p.check(); err != nil {
		return err
	}
	places, err := f.places(ctx, a, p.from)
	if err != nil {
		return err
	}
	if f.dryRun {
		would := struct {
			Name        string `json:"name"`
			From        string `json:"from"`
			Concurrency int    `json:"concurrency"`
		}{p.name, f.source, atOnce}
		return a.Print(*f.form, would, cli.AsLine("would %s %s as %s with %d at once", p.verb, cmp.Or(f.source, "one transaction"), p.name, atOnce))
	}
	s, err := f.setUp(ctx, a, monitor.Options{Name: p.name, Log: log, Provider: provider, Changes: changes}, set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	timeout := longest(steps)
	if err := s.open(ctx, places, timeout); err != nil {
		return err
	}
	e, err := p.engine(s, timeout)
	if err != nil {
		return err
	}
	if s.service != nil {
		s.service.Serve(ctx, func(context.Context) error { return e.Healthy() }, s.check)
	}
	summary, err := s.run(ctx, e, f.grace)
	if err == nil && places.one != nil {
		err = s.last.verdict()
	}
	if err == nil && summary.Fetched == 0 && ctx.Err() == nil {
		noteNothingNew(a, places.from)
	}
	if err != nil && !errors.Is(err, context.Cause(ctx)) { // a signal's own error is not reported
		return errors.Join(err, printSummary(a, f, summary))
	}
	if err := printSummary(a, f, summary); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cli.Stopped(ctx, f.exitZero)
	}
	return deliveriesFailed(summary.Failed, s.last.err())
}

// noteNothingNew explains why a file with content delivered no transactions.
func noteNothingNew(a *cli.App, p *open.Place) {
	path, offsets, ok := p.FileOffsets()
	if !ok {
		return
	}
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && !cli.Missing(offsets) {
		a.Note("tenet:", "%s has no new transactions; %s records how far it was read: to start again, remove that file or add ?forget=true", path, offsets)
	}
}

// killTime is how long an engine may take to give its transactions back after the second signal.
const killTime = 5 * time.Second

// run runs an engine until its end, draining it at the first signal and cancelling it at the second.
func (s *pipelineSetup) run(ctx context.Context, e engine, grace time.Duration) (pipeline.Summary, error) {
	type end struct {
		summary pipeline.Summary
		err     error
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	done := make(chan end, 1)
	go func() {
		summary, err := e.Run(running)
		done <- end{summary, err}
	}()
	defer live(s.app, e)()
	interrupted, kill := ctx.Done(), s.app.Kill
	var killTimeout <-chan time.Time
	for {
		select {
		case r := <-done:
			s.ended = r.err == nil && ctx.Err() == nil && r.summary.Failed+r.summary.Redelivered == 0
			return r.summary, r.err
		case <-interrupted:
			interrupted = nil
			s.log.Info("stopping: no more transactions are fetched; running ones may finish", "grace", grace.String())
			e.Drain()
		case <-kill:
			kill, killTimeout = nil, time.After(killTime)
			cancel(context.Cause(ctx))
		case <-killTimeout:
			return e.Progress().Summary, errors.New("stopped at once; sources that redeliver will deliver the running transactions again")
		}
	}
}

func printSummary(a *cli.App, f *pipelineFlags, summary pipeline.Summary) error {
	return a.Print(*f.form, summary, cli.AsLine("%s", sentenceOf(summary)))
}

// deliveriesFailed returns the failure of a run with n failed deliveries. err is the error of the last one, if known.
func deliveriesFailed(n int, err error) error {
	if n == 0 {
		return nil
	}
	many := cli.Plural(n, "delivery", "deliveries")
	if err == nil {
		return cli.Fail(cli.ExitFailed, fmt.Errorf("%s failed and will be delivered again", many))
	}
	return cli.Fail(cli.ExitFailed, fmt.Errorf("%s failed and will be delivered again; the last: %w", many, err))
}

func sentenceOf(s pipeline.Summary) string {
	text := fmt.Sprintf("%d fetched: %d success, %d exception, %d failed, %d redelivered; %s in %s",
		s.Fetched, s.Success, s.Exception, s.Failed, s.Redelivered, cli.Plural(s.Retries, "retry", "retries"), cli.Brief(s.Elapsed))
	if s.Unsettled > 0 {
		text += fmt.Sprintf("; %d not acknowledged and will be delivered again", s.Unsettled)
	}
	if s.Abandoned > 0 {
		text += fmt.Sprintf("; %d abandoned while running", s.Abandoned)
	}
	return text
}

// single is a source of one transaction, which it does not redeliver.
type single struct{ t *pipeline.Transaction }

// Fetch implements pipeline.Source.
func (s *single) Fetch(context.Context, pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	if s.t == nil {
		return nil, pipeline.ErrEnd
	}
	d := pipeline.Delivery{Transaction: s.t, Count: 1}
	s.t = nil
	return []pipeline.Delivery{d}, pipeline.ErrEnd
}

// lastEnd remembers the end of the single transaction of a run, or of the last of many that failed.
type lastEnd struct {
	mu  sync.Mutex
	end pipeline.Ended
}

func (o *lastEnd) set(e pipeline.Ended) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = e
}

func (o *lastEnd) setFailed(e pipeline.Ended) {
	if e.Outcome == pipeline.Failed {
		o.set(e)
	}
}

// err returns the error of the transaction.
func (o *lastEnd) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end.Err
}

// verdict returns an error unless the transaction was processed. A handled exception is an error too.
func (o *lastEnd) verdict() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end.Outcome == pipeline.Success {
		return nil
	}
	if o.end.Delivery.Transaction == nil {
		return errors.New("the transaction was not run")
	}
	return fmt.Errorf("transaction %s was not processed, its outcome is %s: %w", o.end.Delivery.Transaction.ID(), o.end.Outcome, o.end.Err)
}

const (
	liveInterval = 100 * time.Millisecond
	liveClear    = "\r\x1b[K"
)

// live shows the progress of an engine on a terminal until stop is called.
func live(a *cli.App, e engine) (stop func()) {
	if !cli.IsTerminal(a.Stderr) {
		return func() {}
	}
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer cli.Fprintf(a.Stderr, liveClear)
		tick := time.NewTicker(liveInterval)
		defer tick.Stop()
		var pace pace
		for {
			select {
			case <-ended:
				return
			case now := <-tick.C:
				p := e.Progress()
				cli.Fprintf(a.Stderr, liveClear+"%s", a.Paint(a.Stderr, cli.Cyan, liveText(p, pace.at(now, p.Summary.Ended()))))
			}
		}
	}()
	return func() {
		close(ended)
		<-gone
	}
}

func liveText(p pipeline.Progress, rate float64) string {
	return fmt.Sprintf("%d in flight, %.0f/s, %d done, %s, oldest %s",
		p.InFlight, rate, p.Summary.Ended(), cli.Plural(p.Summary.Retries, "retry", "retries"), cli.Brief(p.Oldest.Truncate(time.Millisecond)))
}

// pace measures the rate over about the last second.
type pace struct {
	times [10]time.Time
	done  [10]int
	n     int
}

func (p *pace) at(now time.Time, done int) (perSecond float64) {
	i := p.n % len(p.times)
	oldest := 0
	if p.n >= len(p.times) {
		oldest = i
	}
	if p.n > 0 {
		if took := now.Sub(p.times[oldest]); took > 0 {
			perSecond = float64(done-p.done[oldest]) / took.Seconds()
		}
	}
	p.times[i], p.done[i] = now, done
	p.n++
	return perSecond
}

// overProgress returns stderr for logs. On a terminal each write replaces the line that shows the progress.
func overProgress(a *cli.App) io.Writer {
	if !cli.IsTerminal(a.Stderr) {
		return a.Stderr
	}
	return clearing{a.Stderr}
}

type clearing struct{ io.Writer }

func (c clearing) Write(text []byte) (int, error) {
	if _, err := c.Writer.Write(append([]byte(liveClear), text...)); err != nil {
		return 0, err
	}
	return len(text), nil
}
