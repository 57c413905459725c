package records

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/server/api"
)

func recordListCommand(a *cli.App) *cobra.Command {
	f := &recordTarget{}
	state := ""
	cmd := &cobra.Command{
		Use: "list", Short: "List records by scope and key", Args: cobra.NoArgs,
		Long: `List records without their results, ordered by tenant, operation and key; at most 100 unless --limit says otherwise.

--state unknown lists the records that wait for an operator: those whose outcome is unknown, and those in flight whose
lease has ended. Inspect one with get, find out what happened, and set its outcome with resolve.`,
		Example: `  tenet idempotency list --state unknown --store postgres://localhost/app
  tenet idempotency list --operation charge --limit 0 --store sqlite:records.db -o jsonl`,
	}
	f.add(cmd, false)
	flags := cmd.Flags()
	flags.Var(cli.OneOf(&state, string(idempotency.Unknown), string(idempotency.InFlight), string(idempotency.Completed), string(idempotency.Failed),
		string(idempotency.Released)), "state", "only records in this state: unknown, in_flight, completed, failed or released")
	limit := flags.Int("limit", 100, "maximum number of records; 0 is all")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) (err error) {
		ctx := cmd.Context()
		if *limit < 0 {
			return cli.Usagef("--limit %d: write a positive number, or 0 for all", *limit)
		}
		s, err := open.Records(ctx, a, open.Ref{Flag: "store", URL: f.store, Use: open.UseRecords}, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if err := recording.Put(ctx, a, f.audit, audit.Operation{Action: "idempotency.list", TenantID: f.tenant, Operation: f.operation, Detail: state}); err != nil {
			return err
		}
		filter := idempotency.Filter{State: idempotency.State(state), Tenant: f.tenant, Operation: f.operation}
		list, more := []api.Record{}, false
		page := func(after idempotency.ID, most int) ([]idempotency.Record, error) {
			return s.List(ctx, filter, after, most)
		}
		for r, err := range paging.All(idempotency.ID{}, jobs.PageSize, page, func(r idempotency.Record) idempotency.ID { return r.ID }) {
			if err != nil {
				return err
			}
			if more = *limit > 0 && len(list) == *limit; more {
				break
			}
			list = append(list, api.NewRecord(&r, time.Now()))
		}
		if more {
			a.Note("", "only the first %d are listed; --limit 0 lists all", *limit)
		}
		return a.Print(form, list, cli.AsTable("KEY\tTENANT\tOPERATION\tSTATE\tATTEMPTS\tCREATED\tLEASE\tOWNER", list, func(r api.Record) []any {
			state := string(r.State)
			if r.Lapsed {
				state += " (lapsed)"
			}
			return []any{r.Key, r.TenantID, r.Operation, state, r.Attempts, cli.Clock(r.Created), cli.Clock(r.Lease), r.Owner}
		}))
	})
}
