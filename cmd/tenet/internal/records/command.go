package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/server/api"
)

// shown returns a record as it is printed: without its result, which may hold secrets, unless withResult is set.
func shown(r idempotency.Record, withResult bool) api.Record {
	out := api.NewRecord(&r, time.Now())
	if withResult {
		out.Result = r.Result
	}
	return out
}

// Command returns "tenet idempotency".
func Command(a *cli.App) *cobra.Command {
	return cli.Group("idempotency", "Inspect, resolve and clear idempotency records",
		`Inspect, resolve and clear the records of effects that happen once per key.

A record is in_flight while its effect runs, then completed, failed (for good) or released (the next caller runs the
effect again). If its owner was killed, the record becomes unknown: the effect does not run under its key until an
operator has found out what happened and runs resolve.`,
		recordGetCommand(a), recordListCommand(a), recordResolveCommand(a), recordClearCommand(a))
}

// recordTarget holds the flags that identify a record.
type recordTarget struct {
	store, tenant, operation, audit string
	dryRun, yes                     bool
}

func (f *recordTarget) add(cmd *cobra.Command, changes bool) {
	flags := cmd.Flags()
	open.ServerFlags(cmd)
	flags.StringVar(&f.store, "store", "", "where records are kept: "+open.UseRecords.Forms()+" (also TENET_STORE)")
	flags.StringVar(&f.tenant, "tenant", "", "tenant of the record's scope")
	flags.StringVar(&f.operation, "operation", "", "operation of the record's scope: a job's type, for example")
	if !changes {
		flags.StringVar(&f.audit, "audit", "", "audit log that records who looked at the record: "+open.UseLog.Forms()+" (also TENET_AUDIT)")
	} else {
		flags.StringVar(&f.audit, "audit", "", "audit log that the change is recorded in (default: the store's own)")
		flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, without doing it")
		flags.BoolVar(&f.yes, "yes", false, "do not ask")
	}
}

// with runs f on the record of a key.
func (f *recordTarget) with(ctx context.Context, a *cli.App, key string, do func(s *open.RecordStore, r idempotency.Record) error) error {
	if err := idempotency.CheckKey(key); err != nil {
		return cli.Usagef("%w", err)
	}
	s, err := open.Records(ctx, a, open.Ref{Flag: "store", URL: f.store, Use: open.UseRecords}, false)
	if err != nil {
		return err
	}
	r, err := s.Get(ctx, idempotency.ID{Tenant: f.tenant, Operation: f.operation, Key: key})
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
		err = cli.Fail(cli.ExitNotFound, fmt.Errorf("there is no record of %q%s", key, f.scope()))
	case err == nil:
		err = do(s, r)
	}
	return errors.Join(err, s.Close())
}

func (f *recordTarget) scope() string {
	if f.tenant == "" && f.operation == "" {
		return " in the scope without tenant and operation; add --tenant or --operation"
	}
	return fmt.Sprintf(" in the scope of tenant %q and operation %q", f.tenant, f.operation)
}

// change is a change that an operator makes to a record.
type change struct {
	audit.Operation // for the audit log
	apply           func() error
}

// recorded applies a change after recording it in the log of --audit or else in the store's own.
func (f *recordTarget) recorded(ctx context.Context, a *cli.App, s *open.RecordStore, c change) (err error) {
	var log *audit.Log
	var closeLog func() error
	switch {
	case f.audit != "":
		log, closeLog, err = open.Log(ctx, a, f.audit)
	case s.Audit == nil:
		return c.conflict(c.apply())
	default:
		log, closeLog, err = open.LogOn(ctx, a, s.Audit, s.Audit.Close)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if err := recording.Record(ctx, log, c.Operation); err != nil {
		return err
	}
	err = c.apply()
	if !errors.Is(err, idempotency.ErrFenced) {
		return err
	}
	return errors.Join(c.conflict(err), recording.Record(ctx, log, operation.Refused(c.Operation, operation.FencedRecord)))
}

// conflict explains a change that was refused because the record has changed. Other errors it returns as they are.
func (c change) conflict(err error) error {
	if errors.Is(err, idempotency.ErrFenced) {
		return cli.Fail(cli.ExitConflict, fmt.Errorf("the record of %q has changed, or its claim is live; look again", c.IdempotencyKey))
	}
	return err
}

func recordGetCommand(a *cli.App) *cobra.Command {
	f := &recordTarget{}
	cmd := &cobra.Command{
		Use: "get KEY", Short: "Show the record of a key", Args: cobra.ExactArgs(1),
		Example: "  tenet idempotency get invoice-4711 --store sqlite:records.db",
	}
	f.add(cmd, false)
	result := cmd.Flags().Bool("result", false, "show the stored result too; it may contain secrets")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		return f.with(cmd.Context(), a, args[0], func(_ *open.RecordStore, r idempotency.Record) error {
			o := operation.OnRecord("idempotency.get", r)
			if *result {
				o.Detail = "with its result"
			}
			if err := recording.Put(cmd.Context(), a, f.audit, o); err != nil {
				return err
			}
			return a.Print(form, shown(r, *result), func(w io.Writer) { describeRecord(w, r, *result) })
		})
	})
}

func describeRecord(w io.Writer, r idempotency.Record, withResult bool) {
	line := func(name, format string, args ...any) {
		cli.Fprintf(w, "%-12s %s\n", name, cli.Textf(format, args...))
	}
	line("key", "%s", r.Key)
	if r.Tenant != "" || r.Operation != "" {
		line("scope", "tenant %q, operation %q", r.Tenant, r.Operation)
	}
	line("state", "%s", r.State)
	line("attempts", "%d", r.Attempts)
	line("owner", "%s, fence %d", r.Owner, r.Fence)
	line("created", "%s", cli.Clock(r.Created))
	switch {
	case r.State == idempotency.InFlight:
		line("lease", "until %s", cli.Clock(r.Lease))
	case !r.Completed.IsZero():
		line("completed", "%s", cli.Clock(r.Completed))
	}
	if !r.Expires.IsZero() {
		line("expires", "%s", cli.Clock(r.Expires))
	}
	if r.Failure != nil {
		line("failure", "%s: %s", r.Failure.Type, cli.OneLine(r.Failure.Message))
	}
	switch {
	case r.HasResult && withResult:
		line("result", "%s", r.Result)
	case r.HasResult:
		line("result", "%d bytes; --result shows them", len(r.Result))
	}
}

func recordResolveCommand(a *cli.App) *cobra.Command {
	f := &recordTarget{}
	as := ""
	cmd := &cobra.Command{
		Use: "resolve KEY --as completed|failed|released", Short: "Set the outcome of an effect whose outcome is unknown", Args: cobra.ExactArgs(1),
		Long: `Set the outcome of an effect whose owner was killed. Find out what happened first, for example in the other system's log.

  completed  it happened; callers get --result, or nothing
  failed     it did not happen and must not; callers get an error with --message
  released   it did not happen; the next caller runs it

An audit log records the change before it is made.`,
		Example: `  tenet idempotency resolve invoice-4711 --as completed --store sqlite:records.db
  tenet idempotency resolve 0198c2… --operation email:send --as released --store postgres://localhost/app`,
	}
	f.add(cmd, true)
	flags := cmd.Flags()
	flags.Var(cli.OneOf(&as, string(idempotency.Completed), string(idempotency.Failed), string(idempotency.Released)), "as", "outcome of the effect: completed, failed or released")
	result := flags.String("result", "", "result that callers get, with --as completed; as the operation would have stored it, usually JSON")
	message := flags.String("message", "resolved by an operator", "error that callers get, with --as failed")
	ttl := open.JobTTL // the longest default of the commands that write records
	flags.Lookup("yes").Usage = "accepted as in clear; this command never asks, because --as states the outcome"
	flags.Var(cli.Duration(&ttl), "ttl", "how long to keep the record from now on: longer than callers and requeued jobs keep trying")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		ctx := cmd.Context()
		s := idempotency.Settlement{State: idempotency.State(as), TTL: ttl}
		switch {
		case as == "":
			return cli.Usagef("--as is missing: completed, failed or released")
		case as == string(idempotency.Completed) && flags.Changed("result"):
			s.HasResult, s.Result = true, []byte(*result)
		case flags.Changed("result"):
			return cli.Usagef("--result goes with --as completed")
		case as == string(idempotency.Failed):
			s.Failure = &idempotency.Failure{Type: "operator", Message: *message}
		}
		return f.with(ctx, a, args[0], func(store *open.RecordStore, r idempotency.Record) error {
			if r.State != idempotency.Unknown && (r.State != idempotency.InFlight || r.Live(time.Now())) {
				return cli.Fail(cli.ExitConflict, fmt.Errorf("the record of %q is %s; only an unknown outcome, or a claim that has lapsed, can be resolved", r.Key, r.State))
			}
			if f.dryRun {
				return a.Print(form, shown(r, false), cli.AsLine("%s would be resolved as %s", r.Key, as))
			}
			o := operation.OnRecord("idempotency.resolve", r)
			o.To = as
			err := f.recorded(ctx, a, store, change{o, func() error { return store.Resolve(ctx, r.Claim(), s) }})
			if err != nil {
				return err
			}
			if r, err = store.Get(ctx, r.ID); err != nil {
				return err
			}
			return a.Print(form, shown(r, false), cli.AsLine("%s resolved as %s", r.Key, as))
		})
	})
}

func recordClearCommand(a *cli.App) *cobra.Command {
	f := &recordTarget{}
	cmd := &cobra.Command{
		Use: "clear KEY", Short: "Remove the record of a key, so that its effect can run again", Args: cobra.ExactArgs(1),
		Long: `Remove the record of a key. The next caller runs the effect again, whether it has happened or not. A record whose
claim is live cannot be removed. An audit log records the change before it is made.`,
		Example: "  tenet idempotency clear invoice-4711 --store sqlite:records.db --yes",
	}
	f.add(cmd, true)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		ctx := cmd.Context()
		return f.with(ctx, a, args[0], func(store *open.RecordStore, r idempotency.Record) error {
			if r.Live(time.Now()) {
				return cli.Fail(cli.ExitConflict, fmt.Errorf("the record of %q is in flight until %s", r.Key, cli.Clock(r.Lease)))
			}
			if f.dryRun {
				return a.Print(form, shown(r, false), cli.AsLine("%s (%s) would be removed", r.Key, r.State))
			}
			if err := a.Confirm(ctx, f.yes, "Remove the record of %s (%s), so that the next caller runs the effect again?", r.Key, r.State); err != nil {
				return err
			}
			err := f.recorded(ctx, a, store, change{operation.OnRecord("idempotency.clear", r), func() error { return store.Clear(ctx, r.Claim()) }})
			if err != nil {
				return err
			}
			return a.Print(form, shown(r, false), cli.AsLine("%s removed", r.Key))
		})
	})
}
