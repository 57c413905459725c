package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// RedrivesCommand returns "tenet redrives".
func RedrivesCommand(a *cli.App) *cobra.Command {
	return cli.Group("redrives", "Follow and change redrives, which run dead jobs again a part at a time", `"tenet dlq requeue" makes a redrive when it is given a plan, such as --rate or --canary.`,
		redrivesListCommand(a), redriveInspectCommand(a),
		redriveCommand(a, job.RedrivePause, "Release no jobs until the redrive is resumed", ""),
		redriveCommand(a, job.RedriveResume, "Release the jobs of a paused redrive", ""),
		redriveCommand(a, job.RedriveAbort, "Release no further jobs", "The jobs that have not been released stay dead. Released jobs run."),
		redriveCommand(a, job.RedriveUndo, "Abort a redrive and put back what has not run",
			"Release no further jobs, and make the released jobs that no worker has claimed dead again, with their reason and history as\nthey were."),
		redriveRateCommand(a))
}

// printRedrive prints one redrive.
func printRedrive(a *cli.App, form string, r job.Redrive) error {
	out := api.NewRedriveState(r)
	return a.Print(form, out, func(w io.Writer) {
		cli.Fprintf(w, "redrive %s %s", out.ID, out.State)
		if out.Reason != "" {
			cli.Fprintf(w, ": %s", cli.WholeLine(out.Reason))
		}
		cli.Fprintf(w, "\n")
		for _, line := range []struct {
			name  string
			value any
		}{
			{"filter", cli.OneLine(out.Filter)}, {"made", cli.Textf("%s by %s", cli.Clock(out.Created), out.Actor)}, {"plan", planText(r.RedrivePlan)}, {"phase", out.Phase},
			{"jobs", fmt.Sprintf("%d selected, %d released, %d skipped, %d left", out.Total, out.Released, out.Skipped, out.Left)},
			{"released", fmt.Sprintf("%d pending, %d completed, %d dead again, %d cancelled, %d removed, %d put back", out.Pending, out.Completed, out.Dead, out.Cancelled, out.Removed, out.Undone)},
		} {
			cli.Fprintf(w, "  %-9s%v\n", line.name, line.value)
		}
		for _, id := range out.DeadJobs {
			cli.Fprintf(w, "  dead again: %s\n", id)
		}
	})
}

func planText(p job.RedrivePlan) string {
	text := "no rate limit"
	if p.Rate > 0 {
		text = fmt.Sprintf("%g/s", p.Rate)
	}
	if p.Canary > 0 {
		text += fmt.Sprintf(", canary of %d", p.Canary)
	}
	if p.StopShare > 0 {
		text += fmt.Sprintf(", stops at %g%% and at least %d", 100*p.StopShare, p.StopLeast)
	}
	if p.MaxPending > 0 {
		text += fmt.Sprintf(", at most %d pending", p.MaxPending)
	}
	return text
}

func redrivesListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List redrives, newest first", Args: cobra.NoArgs,
		Example: "  tenet redrives list --active --store sqlite:jobs.db",
	}
	store := open.JobsFlag(cmd)
	active := cmd.Flags().Bool("active", false, "only redrives that are not over, or whose released jobs have not all ended")
	limit := cmd.Flags().Int("limit", 100, "maximum number of redrives, from 1 to 1000")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		if *limit < 1 || *limit > 1000 {
			return cli.Usagef("--limit %d: write a number from 1 to 1000", *limit)
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			found, err := s.Redrives(cmd.Context(), job.RedriveQuery{Active: *active, Limit: *limit})
			if err != nil {
				return err
			}
			list := lists.Map(found, api.NewRedriveState)
			return a.Print(form, list, cli.AsTable("ID\tSTATE\tPHASE\tTOTAL\tRELEASED\tCOMPLETED\tDEAD\tFILTER", list, func(r api.Redrive) []any {
				return []any{r.ID, r.State, r.Phase, r.Total, r.Released, r.Completed, r.Dead, cli.OneLine(r.Filter)}
			}))
		})
	})
}

// redrive returns a redrive. One that does not exist is exit code 5.
func redrive(ctx context.Context, s open.JobStore, id string) (job.Redrive, error) {
	r, err := s.Redrive(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return r, cli.Fail(cli.ExitNotFound, fmt.Errorf("redrive %s: not found; see: tenet redrives list", id))
	}
	return r, err
}

func redriveInspectCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect ID", Short: "Show a redrive with its progress", Args: cobra.ExactArgs(1),
		Example: "  tenet redrives inspect 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db",
	}
	store := open.JobsFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			r, err := redrive(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return printRedrive(a, form, r)
		})
	})
}

func redriveCommand(a *cli.App, action job.RedriveAction, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: string(action) + " ID", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "  tenet redrives " + string(action) + " 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db",
	}
	return redriveChange(a, cmd, func([]string) (job.RedriveChange, error) { return job.RedriveChange{Action: action}, nil })
}

func redriveRateCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rate ID RATE", Short: "Change the rate of a redrive", Args: cobra.ExactArgs(2),
		Long:    "Change the rate of a redrive, for example to 10/s or 500/m. The rate none removes the limit.",
		Example: "  tenet redrives rate 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 100/s --store sqlite:jobs.db",
	}
	return redriveChange(a, cmd, func(args []string) (job.RedriveChange, error) {
		c := job.RedriveChange{Action: job.RedriveSetRate}
		if args[1] == "none" {
			return c, nil
		}
		var err error
		if c.Rate, err = parseRate("RATE", args[1]); err != nil {
			err = cli.Usagef("%w; none removes the limit", err)
		}
		return c, err
	})
}

// redriveChange adds to cmd the flags and the run function that change a redrive.
func redriveChange(a *cli.App, cmd *cobra.Command, change func(args []string) (job.RedriveChange, error)) *cobra.Command {
	store, log := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be done, without doing it")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		c, err := change(args)
		if err != nil {
			return err
		}
		c.Actor = recording.Actor()
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			before, err := redrive(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			after := before
			if err := after.Apply(c, before.Created); err != nil {
				return err
			}
			if *dryRun {
				return printRedrive(a, form, after)
			}
			if err := recording.Put(cmd.Context(), a, *log, operation.OnRedriveChange(before, after, c)); err != nil {
				return err
			}
			r, err := s.UpdateRedrive(cmd.Context(), before.ID, c)
			if err == nil && r.Undo {
				r, err = undo(cmd.Context(), s, r)
			}
			if err != nil {
				return err
			}
			return printRedrive(a, form, r)
		})
	})
}

// undo puts jobs back where this command may do so: there may be no worker. A server does it itself.
func undo(ctx context.Context, s job.Redriver, r job.Redrive) (job.Redrive, error) {
	store, ok := s.(job.RedriveStepper)
	for ok && r.Undo {
		next, v, err := store.StepRedrive(ctx, r.ID, 0)
		if err != nil {
			return r, err
		}
		if r = next; r.Undo && wait.For(ctx, v.Wait) != nil {
			return r, context.Cause(ctx)
		}
	}
	return r, nil
}
