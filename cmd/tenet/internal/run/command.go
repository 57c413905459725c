package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/policies"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// runFlags are the flags of "tenet run".
type runFlags struct {
	policy, key             string
	maxAttempts             int
	timeout, overallTimeout time.Duration
	backoff, backoffCap     time.Duration
	multiplier              float64
	jitter                  string
	retryExit               string
	timeline, timelineFile  string
	killGrace               time.Duration
	audit                   string
	record                  recordFlags
	verbose, dryRun         bool
	changed                 func(flag string) bool
	codes                   command.Codes
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{killGrace: cli.DefaultKillGrace}
	cmd := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARGUMENT…]", Short: "Run a command until it succeeds or its policy stops it",
		Long: `Run a command until it exits with 0 or its policy stops it.

The policy is that of the key in the document (--policy); without a document it is 3 attempts, with waits of about
1s and 2s between them. Flags change it field by field. Commands have wider limits than calls: up to 1,000 attempts and
waits of up to a day. The key is "run." and the command's name unless --key says otherwise.

Every attempt gets TENET_ATTEMPT (from 1), TENET_KEY and TENET_CALL_ID in its environment. They do not configure a nested
tenet, and TENET_RUN_… variables are not passed on. The command's output passes through. Every attempt reads the same stdin:
files are read again, other input is buffered, up to 10 MiB (with --max-attempts 1 it passes through without a limit). A
terminal is not passed on.

An attempt that times out is stopped with all processes that it started: SIGTERM first, SIGKILL after --kill-grace.
Ctrl-C and SIGTERM are passed on in the same way and end the run; a second one kills at once. Hedging is off for
commands, because the outputs of two attempts would mix. A command whose reader has gone (SIGPIPE, as in "| head") is not
run again, unless --retry-exit lists 141.

With --idempotency-key and --idempotency-store a command that has succeeded under the key is not run again: the
run says so and exits with 0. A command that is running elsewhere under the key, or whose outcome is unknown because an
earlier run was killed, is not run either (125).

Exit codes: that of the last attempt where the run failed; 124 it timed out; 125 no attempt was made; 126 it is
not executable; 127 it was not found; 2 usage; 3 invalid document; 130 and 143 stopped by SIGINT or SIGTERM.`,
		Example: `  tenet run -- make test
  tenet run --max-attempts 5 --timeout 10s --backoff 500ms --backoff-cap 5s -- curl -fsS https://example.com
  tenet run --retry-exit 75,100-110 --timeline text -- ./deliver.sh
  tenet run --idempotency-key invoice-4711 --idempotency-store sqlite:records.db --audit file:audit.jsonl -- ./charge.sh
  tenet run --policy policies.yaml --key backup.Upload -- rclone sync data remote:data < list.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no command given; write it behind --, for example: tenet run -- make test")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.policy, "policy", "", "policy document to use; - is stdin")
	flags.StringVar(&f.key, "key", "", "key of the policy (default: run.COMMAND)")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "maximum number of attempts, the first included")
	flags.Var(cli.DurationOrNone(&f.timeout), "timeout", "how long one attempt may take, or none")
	flags.Var(cli.DurationOrNone(&f.overallTimeout), "overall-timeout", "how long all attempts and the waits between them may take, or none")
	flags.Var(cli.Duration(&f.backoff), "backoff", "wait before the first retry (default 1s)")
	flags.Var(cli.Duration(&f.backoffCap), "backoff-cap", "longest wait (default 1m)")
	flags.Float64Var(&f.multiplier, "multiplier", 0, "how much longer each wait is than the one before (default 2)")
	flags.Var(cli.OneOf(&f.jitter, policy.Jitter("").Values()...), "jitter", "how waits are spread: full, equal, proportional, decorrelated or none")
	flags.StringVar(&f.retryExit, "retry-exit", "", "retry only these exit codes, for example 1,75,100-110 (default: all but 0)")
	flags.Var(cli.OneOf(&f.timeline, cli.FormText, cli.FormJSON), "timeline", "print what happened: text or json, to stderr or --timeline-file")
	flags.StringVar(&f.timelineFile, "timeline-file", "", "write the timeline to this file, as JSON unless --timeline says text")
	flags.Var(cli.Duration(&f.killGrace), "kill-grace", "how long a stopped attempt may take to end before it is killed")
	audit := open.DecisionLogFlag(cmd)
	f.record.add(cmd)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every attempt to stderr")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the policy that would be used, without running the command")
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, argv []string) error {
		f.changed, f.audit = flags.Changed, *audit
		return a.run(cmd.Context(), f, argv)
	})
	return cmd
}

// run is "tenet run" behind its flags.
func (a *app) run(ctx context.Context, f *runFlags, argv []string) (err error) {
	if f.codes, err = command.ParseCodes(f.retryExit); err != nil {
		return cli.Usagef("--retry-exit: %w", err)
	}
	if f.changed("max-attempts") && f.maxAttempts < 1 {
		return cli.Usagef("--max-attempts: %d is below 1; write 1 for no retry", f.maxAttempts)
	}
	if f.changed("multiplier") && !(f.multiplier >= 1) {
		return cli.Usagef("--multiplier: %g is below 1; write 1 for waits of equal length", f.multiplier)
	}
	key := policy.ParseKey(f.key)
	if key.IsZero() {
		key = policy.Key{Namespace: policies.RunNamespace, Name: filepath.Base(argv[0])}
	}
	defaults, err := policy.Compile(policy.Policy{}, policies.CommandLimits(), policy.SourceDefault)
	if err != nil {
		return err
	}
	defaults.Meta.Revision = "" // there is no document
	set := policy.NewSet(policy.SetConfig{Source: policy.SourceDefault, Calls: defaults, CallLimits: policies.CommandLimits()})
	if f.policy != "" {
		document, err := a.LoadWithin(ctx, f.policy, policies.CommandLimits())
		if err != nil {
			return err
		}
		set = document.Set
	}
	effective, err := a.effective(f, set, key)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.Print(cli.FormText, nil, func(w io.Writer) { policies.Describe(a.App, w, effective, nil) })
	}
	if err := f.record.check(); err != nil {
		return err
	}
	timeline, err := a.openTimeline(f)
	if err != nil {
		return cli.Fail(command.CodeNoAttempt, err)
	}
	c := &command.Command{
		Argv: argv, Input: command.NewInput(a.Stdin, effective.Retry.MaxAttempts),
		Stdout: a.Stdout, Stderr: a.Stderr, Grace: f.killGrace, Kill: a.Kill,
	}
	options := retry.ExecutorOptions{
		Provider: set, Classifiers: map[string]classify.Classifier{command.Name: command.Classifier(f.codes)},
		Classes: []classify.Family{command.Classes()},
	}
	if f.verbose || a.Level() < slog.LevelInfo {
		options.Observer = observe.Func(a.tellAttempt)
		if a.Structured() {
			options.Observer = observe.Slog(a.Logger(a.Stderr, true))
		}
	}
	calls := []retry.CallOption{retry.WithCallID(uuidv7.New(time.Now())), retry.WithPolicy(f.edit)}
	if f.audit != "" {
		log, closeLog, failed := open.Log(ctx, a.App, f.audit)
		if failed != nil {
			return noAttempt(failed)
		}
		defer func() { err = errors.Join(err, closeLog()) }()
		options.Observer, options.Journal = observe.Multi(options.Observer, log), log
	}
	if f.record.key != "" {
		guard, closeRecords, failed := f.record.guard(ctx, a.App, effective, options)
		if failed != nil {
			return noAttempt(failed)
		}
		defer func() { err = errors.Join(err, closeRecords()) }()
		calls = append(calls, retry.WithIdempotency(guard, f.record.key), retry.WithFingerprint(FingerprintOf(argv)))
	}
	t, err := retry.NewExecutor(options).DoWithTimeline(ctx, key, c.Run, calls...)
	if told := timeline(t); told != nil {
		err = errors.Join(err, told)
	}
	if t.Reason == policy.ReasonIdempotencyHit {
		a.Note("tenet:", "%s has been done before; nothing was run", f.record.key)
	}
	if err == nil {
		return nil
	}
	return cli.Fail(command.ExitCode(err), a.sentence(t, err))
}

// noAttempt is the failure of a run that could not begin.
func noAttempt(err error) error {
	if _, ok := errors.AsType[*cli.Failure](err); ok {
		return err
	}
	return cli.Fail(command.CodeNoAttempt, err)
}

// edit lays the flags over a policy.
func (f *runFlags) edit(p *policy.Policy) {
	r := &p.Retry
	if f.changed("max-attempts") {
		r.MaxAttempts = f.maxAttempts
	}
	if f.changed("timeout") {
		r.TimeoutPerAttempt = f.timeout
	}
	if f.changed("overall-timeout") {
		r.OverallTimeout = f.overallTimeout
	}
	if f.changed("backoff") {
		r.InitialBackoff = f.backoff
		if !f.changed("backoff-cap") {
			r.MaxBackoff = max(r.MaxBackoff, r.InitialBackoff) // a cap that nobody asked for shall not be in the way
		}
	}
	if f.changed("backoff-cap") {
		r.MaxBackoff = f.backoffCap
	}
	if f.changed("multiplier") {
		r.BackoffMultiplier = f.multiplier
	}
	if f.changed("jitter") {
		r.Jitter = policy.Jitter(f.jitter)
	}
	if r.ClassifierName == "" || f.changed("retry-exit") {
		r.ClassifierName = command.Name
	}
	p.Hedge.Enabled = false
}

// effective is the policy that will be in force. It warns of what had to be changed.
func (a *app) effective(f *runFlags, set *policy.Set, key policy.Key) (*policy.Policy, error) {
	found, err := cli.PolicyOf(set, key)
	if err != nil {
		return nil, err
	}
	if f.policy != "" && !set.Named(key) {
		a.Warn("%s does not name %s; its defaults apply", f.policy, key)
	}
	if found.Hedge.Enabled {
		a.Warn("hedging is off for commands: the outputs of two attempts would mix")
	}
	changed := found.Clone()
	f.edit(&changed)
	meta := &changed.Meta // what the document gave rise to has been told; that it is normal stays: none is not absent
	meta.Defaulted, meta.Clamped, meta.Warnings, meta.Revision = nil, nil, nil, ""
	asked := changed.Retry
	normal, err := changed.Normalize(set.CallLimits())
	if err != nil {
		return nil, err
	}
	for _, path := range normal.Meta.Clamped {
		a.Warn("%s: %s is outside the limits; %s is used", path, policies.FieldOf(asked, path), policies.FieldOf(normal.Retry, path))
	}
	return &normal, nil
}

// openTimeline opens what the timeline goes to before anything is run, and returns what writes it.
func (a *app) openTimeline(f *runFlags) (func(observe.Timeline) error, error) {
	form, to := f.timeline, a.Stderr
	if f.timelineFile == "" && form == "" {
		return func(observe.Timeline) error { return nil }, nil
	}
	finish := func() error { return nil }
	if f.timelineFile != "" {
		file, err := os.OpenFile(f.timelineFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--timeline-file: %w", cli.NotMade(f.timelineFile, err))
		}
		to, finish = file, file.Close
	}
	return func(t observe.Timeline) error {
		text := t.String()
		if form != cli.FormText {
			line, err := json.Marshal(t)
			if err != nil {
				return err
			}
			text = string(line) + "\n"
		}
		_, err := io.WriteString(to, text)
		return errors.Join(err, finish())
	}, nil
}

// sentence says in one line why a run failed.
func (a *app) sentence(t observe.Timeline, err error) error {
	failed, ok := errors.AsType[*retry.Error](err)
	if !ok {
		return err
	}
	because := failed.Last
	if because == nil {
		because = failed.Cause
	}
	text := fmt.Sprintf("%s failed after %s in %s: %s", t.Key, cli.Count(failed.Attempts, "attempt"), cli.Brief(t.End.Sub(t.Start)), failed.Reason)
	if because != nil {
		return fmt.Errorf("%s: %w", text, because)
	}
	return errors.New(text)
}

// tellAttempt writes lines about attempts and what follows them.
func (a *app) tellAttempt(_ context.Context, e *observe.Event) {
	prefix := a.Paint(a.Stderr, cli.Cyan, "tenet:")
	switch e.Type {
	case observe.AttemptEnded:
		r := e.Attempt
		switch {
		case r.Denied:
			cli.Fprintf(a.Stderr, "%s attempt %d refused: %s\n", prefix, r.Attempt, r.Outcome.Reason)
		case r.Err != nil:
			cli.Fprintf(a.Stderr, "%s attempt %d failed after %s: %v\n", prefix, r.Attempt, cli.Brief(r.End.Sub(r.Start)), r.Err)
		default:
			cli.Fprintf(a.Stderr, "%s attempt %d succeeded after %s\n", prefix, r.Attempt, cli.Brief(r.End.Sub(r.Start)))
		}
	case observe.Decided:
		if v := e.Decision.Verdict; v.Delay > 0 {
			cli.Fprintf(a.Stderr, "%s next attempt in %s\n", prefix, cli.Brief(v.Delay))
		}
	case observe.Reported:
		cli.Fprintf(a.Stderr, "%s %s: %s\n", prefix, e.Report.Reason, e.Report.Detail)
	}
}
