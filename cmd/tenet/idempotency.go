package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// recordFlags are the flags of a run whose effect happens once.
type recordFlags struct {
	key, store string
	ttl        time.Duration
	replaySafe bool
}

const defaultTTL = 24 * time.Hour

func (f *recordFlags) add(cmd *cobra.Command) {
	f.ttl = defaultTTL
	flags := cmd.Flags()
	flags.StringVar(&f.key, "idempotency-key", "", "run the command at most once under this key; needs --idempotency-store")
	flags.StringVar(&f.store, "idempotency-store", "", "where keys are kept: sqlite:PATH, postgres://… or nats://…")
	flags.Var(duration(&f.ttl), "idempotency-ttl", "how long a key is kept after it ended")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "the command may be run again where an earlier run under the key was killed")
}

func (f *recordFlags) check() error {
	switch {
	case (f.key == "") != (f.store == ""):
		return usage("--idempotency-key and --idempotency-store go together")
	case f.key != "" && idempotency.CheckKey(f.key) != nil:
		return usage("--idempotency-key: %w", idempotency.CheckKey(f.key))
	case f.ttl <= 0:
		return usage("--idempotency-ttl: %s is not above 0", f.ttl)
	}
	return nil
}

// guard opens the guard of a run.
func (a *app) guard(ctx context.Context, f *runFlags, p *policy.Policy, o retry.ExecutorOptions) (*idempotency.Guard, func() error, error) {
	store, err := a.openRecords(ctx, "idempotency-store", f.record.store, true)
	if err != nil {
		return nil, nil, err
	}
	guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{
		TTL: f.record.ttl, ReplaySafe: f.record.replaySafe, Policies: []policy.Policy{*p}, Observer: o.Observer, Journal: o.Journal,
	})
	if err != nil {
		return nil, nil, errors.Join(usage("--idempotency-ttl: %w", err), store.close())
	}
	return guard, store.close, nil
}

// onceFlags are the flags of a worker whose jobs' effects happen once.
type onceFlags struct {
	store, key string
	replaySafe bool
}

const metaPrefix = "meta."

func (f *onceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.store, "idempotency-store", "", "let the effect of a job happen once, and keep its key here: sqlite:PATH, postgres://… or nats://…")
	flags.StringVar(&f.key, "idempotency-key", "id", "what jobs are recognised by: id, or meta.NAME for a value of their metadata")
	flags.BoolVar(&f.replaySafe, "replay-safe", false, "with --idempotency-store: handlers may run again where a worker was killed while one ran")
}

// keyOf is what jobs are recognised by; nil for their IDs.
func (f *onceFlags) keyOf() (func(j job.Job[[]byte]) string, error) {
	if f.key == "id" {
		return nil, nil
	}
	name, ok := strings.CutPrefix(f.key, metaPrefix)
	if !ok || name == "" {
		return nil, usage("--idempotency-key %q: write id or meta.NAME", f.key)
	}
	return func(j job.Job[[]byte]) string { return j.Meta[name] }, nil
}

// onceMiddleware opens the guard of a worker.
func (a *app) onceMiddleware(ctx context.Context, f *workerFlags, o observe.Observer, journal observe.Journal) (job.Middleware, func() error, error) {
	key, err := f.once.keyOf()
	if err != nil {
		return nil, nil, err
	}
	store, err := a.openRecords(ctx, "idempotency-store", f.once.store, true)
	if err != nil {
		return nil, nil, err
	}
	guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{
		TTL: jobTTL, Lease: f.lease, ReplaySafe: f.once.replaySafe, Observer: o, Journal: journal,
	})
	if err != nil {
		return nil, nil, errors.Join(err, store.close())
	}
	return job.Idempotent(guard, key), store.close, nil
}

// jobTTL is how long the key of a job is kept after its effect: longer than operators take to requeue it.
const jobTTL = 30 * 24 * time.Hour

// fingerprintOf is what a command is recognised by.
func fingerprintOf(argv []string) string {
	sum := sha256.Sum256([]byte(strings.Join(argv, "\x00")))
	return hex.EncodeToString(sum[:])
}

// recordJSON is a record without its result, which may be anything.
type recordJSON struct {
	idempotency.Record
	Result []byte `json:"result,omitempty"`
	Size   int    `json:"result_bytes"`
}

func shown(r idempotency.Record, withResult bool) recordJSON {
	j := recordJSON{Record: r, Size: len(r.Result)}
	if withResult {
		j.Result = r.Result
	}
	return j
}

func (a *app) idempotencyCommand() *cobra.Command {
	return group("idempotency", "Look at, resolve and clear idempotency records",
		`Look at, resolve and clear the records of effects that happen once per key.

A record is in_flight while its effect runs, then completed, failed (for good) or released (the next caller runs
again). One whose owner was killed becomes unknown: nothing runs under its key until an operator has found out what
happened and says so with resolve.`,
		a.recordGetCommand(), a.recordListCommand(), a.recordResolveCommand(), a.recordClearCommand())
}

// recordTarget are the flags that name a record.
type recordTarget struct {
	store, tenant, operation, audit string
	dryRun, yes                     bool
}

func (f *recordTarget) add(cmd *cobra.Command, changes bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", "", "where records are kept: sqlite:PATH, postgres://… or nats://… (also TENET_STORE)")
	flags.StringVar(&f.tenant, "tenant", "", "tenant of the record's scope")
	flags.StringVar(&f.operation, "operation", "", "operation of the record's scope: a job's type, for example")
	if !changes {
		flags.StringVar(&f.audit, "audit", "", "record here who looked at the record: file:PATH, sqlite:PATH, postgres://… or nats://… (also TENET_AUDIT)")
	} else {
		flags.StringVar(&f.audit, "audit", "", "audit log that the change is recorded in (default: the store's own)")
		flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and do nothing")
		flags.BoolVar(&f.yes, "yes", false, "do not ask")
	}
}

// with runs f on the record of a key.
func (f *recordTarget) with(ctx context.Context, a *app, key string, do func(s *recordStore, r idempotency.Record) error) error {
	if f.store == "" {
		return usage("no store given; write --store sqlite:records.db or set TENET_STORE")
	}
	if err := idempotency.CheckKey(key); err != nil {
		return usage("%w", err)
	}
	s, err := a.openRecords(ctx, "store", f.store, false)
	if err != nil {
		return err
	}
	r, err := s.Get(ctx, idempotency.ID{Tenant: f.tenant, Operation: f.operation, Key: key})
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
		err = fail(exitNotFound, fmt.Errorf("there is no record of %q%s", key, f.scope()))
	case err == nil:
		err = do(s, r)
	}
	return errors.Join(err, s.close())
}

func (f *recordTarget) scope() string {
	if f.tenant == "" && f.operation == "" {
		return " in the scope without tenant and operation; add --tenant or --operation"
	}
	return fmt.Sprintf(" in the scope of tenant %q and operation %q", f.tenant, f.operation)
}

// recorded puts a change on record before it is made.
func (f *recordTarget) recorded(ctx context.Context, a *app, s *recordStore, r idempotency.Record, action string, to string, change func() error) (err error) {
	var log *audit.Log
	closeLog := func() error { return nil }
	switch {
	case f.audit != "":
		log, closeLog, err = a.openLog(ctx, f.audit)
	case s.audit != nil:
		log, closeLog, err = openLogOn(ctx, s.audit, s.audit.Close)
	default:
		return usage("this store keeps no audit log; name one with --audit")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	o := onRecord(action, r)
	o.To = to
	if err := recordAction(ctx, log, o); err != nil {
		return err
	}
	err = change()
	if !errors.Is(err, idempotency.ErrFenced) {
		return err
	}
	o.Detail = "refused: the record has changed, or its claim is live"
	err = fail(exitConflict, fmt.Errorf("the record of %q has changed, or its claim is live; look again", r.Key))
	return errors.Join(err, recordAction(ctx, log, o))
}

// onRecord is an action on an idempotency record.
func onRecord(action string, r idempotency.Record) audit.Operation {
	return audit.Operation{Action: action, TenantID: r.Tenant, Operation: r.Operation, IdempotencyKey: r.Key, From: string(r.State)}
}

func (a *app) recordGetCommand() *cobra.Command {
	f := &recordTarget{}
	cmd := &cobra.Command{
		Use: "get KEY", Short: "Show the record of a key", Args: cobra.ExactArgs(1),
		Example: "  tenet idempotency get invoice-4711 --store sqlite:records.db",
	}
	f.add(cmd, false)
	result := cmd.Flags().Bool("result", false, "show the stored result too; it may hold secrets")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		return f.with(cmd.Context(), a, args[0], func(_ *recordStore, r idempotency.Record) error {
			o := onRecord("idempotency.get", r)
			if *result {
				o.Detail = "with its result"
			}
			if err := a.putOnRecord(cmd.Context(), f.audit, o); err != nil {
				return err
			}
			return a.print(*form, shown(r, *result), func(w io.Writer) { describeRecord(w, r, *result) })
		})
	})
	return cmd
}

func describeRecord(w io.Writer, r idempotency.Record, withResult bool) {
	line := func(name, format string, args ...any) {
		fprintf(w, "%-12s %s\n", name, textf(format, args...))
	}
	line("key", "%s", r.Key)
	if r.Tenant != "" || r.Operation != "" {
		line("scope", "tenant %q, operation %q", r.Tenant, r.Operation)
	}
	line("state", "%s", r.State)
	line("attempts", "%d", r.Attempts)
	line("owner", "%s, fence %d", r.Owner, r.Fence)
	line("created", "%s", clock(r.Created))
	switch {
	case r.State == idempotency.InFlight:
		line("lease", "until %s", clock(r.Lease))
	case !r.Completed.IsZero():
		line("completed", "%s", clock(r.Completed))
	}
	if !r.Expires.IsZero() {
		line("expires", "%s", clock(r.Expires))
	}
	if r.Failure != nil {
		line("failure", "%s: %s", r.Failure.Type, oneLine(r.Failure.Message))
	}
	switch {
	case r.HasResult && withResult:
		line("result", "%s", r.Result)
	case r.HasResult:
		line("result", "%d bytes; --result shows them", len(r.Result))
	}
}

func (a *app) recordResolveCommand() *cobra.Command {
	f := &recordTarget{}
	as := ""
	cmd := &cobra.Command{
		Use: "resolve KEY --as completed|failed|released", Short: "Say what became of an effect whose outcome is unknown", Args: cobra.ExactArgs(1),
		Long: `Say what became of an effect whose owner was killed: find out first, for example in the other system's log.

  completed  it happened; callers get --result, or nothing
  failed     it did not happen and must not; callers get an error with --message
  released   it did not happen; the next caller runs it

The change is put on record in an audit log before it is made.`,
		Example: `  tenet idempotency resolve invoice-4711 --as completed --store sqlite:records.db
  tenet idempotency resolve 0198c2… --operation email:send --as released --store postgres://localhost/app`,
	}
	f.add(cmd, true)
	flags := cmd.Flags()
	flags.Var(oneOf(&as, string(idempotency.Completed), string(idempotency.Failed), string(idempotency.Released)), "as", "what became of it: completed, failed or released")
	result := flags.String("result", "", "result that callers get, with --as completed; as the operation would have stored it, usually JSON")
	message := flags.String("message", "resolved by an operator", "error that callers get, with --as failed")
	ttl := jobTTL // the longest of those that records are kept for otherwise
	flags.Lookup("yes").Usage = "as for clear; this command does not ask, as --as says what is meant"
	flags.Var(duration(&ttl), "ttl", "how long the record is kept from now on: longer than callers, and jobs that are requeued, come back")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		s := idempotency.Settlement{State: idempotency.State(as), TTL: ttl}
		switch {
		case as == "":
			return usage("--as is missing: completed, failed or released")
		case as == string(idempotency.Completed) && flags.Changed("result"):
			s.HasResult, s.Result = true, []byte(*result)
		case flags.Changed("result"):
			return usage("--result goes with --as completed")
		case as == string(idempotency.Failed):
			s.Failure = &idempotency.Failure{Type: "operator", Message: *message}
		}
		return f.with(ctx, a, args[0], func(store *recordStore, r idempotency.Record) error {
			if r.State != idempotency.Unknown && (r.State != idempotency.InFlight || r.Live(time.Now())) {
				return fail(exitConflict, fmt.Errorf("the record of %q is %s; only an unknown outcome, or a claim that has lapsed, can be resolved", r.Key, r.State))
			}
			if f.dryRun {
				return a.print(*form, shown(r, false), func(w io.Writer) { fprintf(w, "%s would be resolved as %s\n", r.Key, as) })
			}
			err := f.recorded(ctx, a, store, r, "idempotency.resolve", as, func() error { return store.Resolve(ctx, r.Claim(), s) })
			if err != nil {
				return err
			}
			if r, err = store.Get(ctx, r.ID); err != nil {
				return err
			}
			return a.print(*form, shown(r, false), func(w io.Writer) { fprintf(w, "%s is resolved as %s\n", r.Key, as) })
		})
	})
	return cmd
}

func (a *app) recordClearCommand() *cobra.Command {
	f := &recordTarget{}
	cmd := &cobra.Command{
		Use: "clear KEY", Short: "Remove the record of a key: the next caller runs again", Args: cobra.ExactArgs(1),
		Long: `Remove the record of a key. The next caller runs the effect again, whether it has happened or not. A record whose
claim is live cannot be removed. The change is put on record in an audit log before it is made.`,
		Example: "  tenet idempotency clear invoice-4711 --store sqlite:records.db --yes",
	}
	f.add(cmd, true)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return f.with(ctx, a, args[0], func(store *recordStore, r idempotency.Record) error {
			if r.Live(time.Now()) {
				return fail(exitConflict, fmt.Errorf("the record of %q is in flight until %s", r.Key, clock(r.Lease)))
			}
			if f.dryRun {
				return a.print(*form, shown(r, false), func(w io.Writer) { fprintf(w, "%s (%s) would be removed\n", r.Key, r.State) })
			}
			if err := a.confirm(ctx, f.yes, "remove the record of %s (%s), so that the next caller runs again?", r.Key, r.State); err != nil {
				return err
			}
			err := f.recorded(ctx, a, store, r, "idempotency.clear", "", func() error { return store.Clear(ctx, r.Claim()) })
			if err != nil {
				return err
			}
			return a.print(*form, shown(r, false), func(w io.Writer) { fprintf(w, "%s is removed\n", r.Key) })
		})
	})
	return cmd
}
