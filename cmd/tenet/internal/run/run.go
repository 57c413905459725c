package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/policies"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// runner runs a command under the policy that flags and document give it.
type runner struct {
	*cli.App
	flags   *runFlags
	argv    []string
	key     policy.Key
	set     *policy.Set
	reports observe.Observer // to the server of the document; nil without one
	policy  *policy.Policy   // in force for key
	options retry.ExecutorOptions
	calls   []retry.CallOption
	cli.Closers
}

// newRunner checks the flags and finds the policy. It opens nothing.
func newRunner(ctx context.Context, a *cli.App, f *runFlags, argv []string) (*runner, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	r := &runner{App: a, flags: f, argv: argv, key: policy.ParseKey(f.key)}
	if r.key.IsZero() {
		r.key = policy.Key{Namespace: policies.RunNamespace, Name: filepath.Base(argv[0])}
	}
	var err error
	if err = r.load(ctx); err != nil {
		return nil, err
	}
	if r.policy, err = r.effective(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// check checks the values that the flag types do not check.
func (f *runFlags) check() (err error) {
	if f.codes, err = command.ParseCodes(f.retryExit); err != nil {
		return cli.Usagef("--retry-exit: %w", err)
	}
	switch {
	case f.changed("max-attempts") && f.maxAttempts < 1:
		return cli.Usagef("--max-attempts: %d is below 1; write 1 for no retry", f.maxAttempts)
	case f.changed("multiplier") && !(f.multiplier >= 1):
		return cli.Usagef("--multiplier: %g is below 1; write 1 for waits of equal length", f.multiplier)
	}
	return f.record.check()
}

// run runs the command to its end and reports how it ended.
func (r *runner) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.flags.dryRun {
		return r.Print(cli.FormText, nil, func(w io.Writer) { policies.Describe(r.App, w, r.policy, nil) })
	}
	timeline, err := openTimeline(ctx, r.App, r.flags)
	if err == nil {
		err = r.open(ctx)
	}
	if err != nil {
		return noAttempt(err)
	}
	c := &command.Command{
		Argv: r.argv, Input: command.NewInput(r.Stdin, r.policy.Retry.MaxAttempts),
		Stdout: r.Stdout, Stderr: r.Stderr, Grace: r.flags.killGrace, Kill: r.Kill,
	}
	t, err := retry.NewExecutor(r.options).DoWithTimeline(ctx, r.key, c.Run, r.calls...)
	failed := timeline(t)
	if t.Reason == policy.ReasonIdempotencyHit {
		r.Note("tenet:", "a run with the key %s has succeeded before; nothing was run", r.flags.record.key)
	}
	if err == nil {
		return failed
	}
	return cli.Fail(command.ExitCode(err), errors.Join(sentence(t, err), failed))
}

// open sets the options of the call and opens the audit log and the idempotency store.
func (r *runner) open(ctx context.Context) error {
	f := r.flags
	r.options = retry.ExecutorOptions{
		Provider: r.set, Classifiers: map[string]classify.Classifier{command.Name: command.Classifier(f.codes)},
		Classes: []classify.Family{command.Classes()},
	}
	r.calls = []retry.CallOption{retry.WithCallID(uuidv7.New(time.Now())), retry.WithPolicy(f.edit)}
	if f.verbose || r.Level() < slog.LevelInfo {
		r.options.Observer = observe.Func(func(_ context.Context, e *observe.Event) { printAttempt(r.App, e) })
		if r.Structured() {
			r.options.Observer = observe.Slog(r.Logger(r.Stderr, true))
		}
	}
	r.options.Observer = observe.Multi(r.options.Observer, r.reports)
	if f.shadow != "" {
		shadow, err := open.Shadow(ctx, r.App, open.DocumentRef{
			Name: f.shadow, Token: f.document.Token, Limits: map[policy.Surface]policy.Limits{policy.SurfaceCall: policies.CommandLimits()},
		}, nil)
		if err != nil {
			return err
		}
		r.options.Shadow = shadow
		if !r.Structured() {
			r.options.Observer = observe.Multi(r.options.Observer, observe.Func(func(_ context.Context, e *observe.Event) { printShadow(r.App, e) }))
		}
	}
	if f.audit != "" {
		log, closeLog, err := open.Log(ctx, r.App, f.audit)
		if err != nil {
			return err
		}
		r.OnClose(closeLog)
		r.options.Observer, r.options.Journal = observe.Multi(r.options.Observer, log), log
	}
	hub, closeHub, err := open.Limits(ctx, r.App, open.LimitsOptions{URL: f.limits, Set: r.set, Uses: func(key policy.Key) bool { return key == r.key }})
	if err != nil {
		return err
	}
	r.options.Sharing = hub
	r.OnClose(closeHub)
	if f.record.key != "" {
		guard, closeRecords, err := open.Guard(ctx, r.App, f.record.store, idempotency.GuardOptions{
			TTL: f.record.ttl, ReplaySafe: f.record.replaySafe, Policies: []policy.Policy{*r.policy},
			Observer: r.options.Observer, Journal: r.options.Journal,
		})
		if err != nil {
			return err
		}
		r.OnClose(closeRecords)
		r.calls = append(r.calls, retry.WithIdempotency(guard, f.record.key), retry.WithFingerprint(FingerprintOf(r.argv)))
	}
	return nil
}

// noAttempt returns the failure of a run that ended before its first attempt.
func noAttempt(err error) error {
	if _, ok := errors.AsType[*cli.Failure](err); ok {
		return err
	}
	return cli.Fail(command.CodeNoAttempt, err)
}
