package periodic

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/job"
)

// changeJSON is the output of a change.
type changeJSON struct {
	Name   string `json:"name"`
	Change string `json:"change"` // set, deleted or document
}

func periodicSetCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME --cron EXPRESSION --job JSON", Short: "Add or change a periodic job while workers run", Args: cobra.ExactArgs(1),
		Long: `Add a periodic job to the store, or put it in place of the one of that name that workers have from a file or from code.
Workers follow within a second. --document brings the workers' own back.

Ticks up to two seconds after the change follow the former definition, later ones the new one, on all workers: each tick is enqueued
once. A second change of the same job within these two seconds waits for their end.`,
		Example: `  tenet periodic set nightly-report --cron '0 3 * * *' --time-zone Europe/Berlin --job '{"type":"http","payload":{"url":"https://example.com/report"}}'
  tenet periodic set nightly-report --document --store sqlite:jobs.db`,
	}
	e := periodicEntry{}
	flags := cmd.Flags()
	flags.StringVar(&e.Cron, "cron", "", "five fields, or @hourly, @daily, @every 10m")
	flags.StringVar(&e.TimeZone, "time-zone", "", "of the expression, for example Europe/Berlin (default UTC)")
	flags.Var(cli.OneOf(&e.Missed, "skip", "once", "all"), "missed", "ticks that passed while no worker ran: skip (default), once, all")
	text := flags.String("job", "", "job line of each tick, without unique_key and run_at")
	document := flags.Bool("document", false, "follow the workers' own definition again")
	change := changeFlags(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		e.Name = args[0]
		if *document {
			if e.Cron != "" || *text != "" {
				return cli.Usagef("--document goes without --cron and --job")
			}
			return change.make(cmd.Context(), a, job.Setting{Kind: job.SettingPeriodic, Name: e.Name}, "document")
		}
		x, err := e.setting(*text)
		if err != nil {
			return err
		}
		return change.make(cmd.Context(), a, x, "set")
	})
}

// setting returns the setting of an entry with a job in JSON.
func (e *periodicEntry) setting(text string) (job.Setting, error) {
	if text == "" {
		return job.Setting{}, cli.Usagef(`--job is missing; write a job line such as {"type":"http","payload":{"url":"https://example.com/"}}`)
	}
	var err error
	if e.Job, err = jobline.Read([]byte(text)); err != nil {
		return job.Setting{}, cli.Usagef("--job: %w", err)
	}
	p, problems := e.periodic()
	if len(problems) > 0 {
		return job.Setting{}, cli.Usagef("%s", problems[0])
	}
	x, err := job.PeriodicSetting(p)
	if err != nil {
		return x, cli.AsUsage(err)
	}
	return x, nil
}

func periodicDeleteCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "End a periodic job while workers run", Args: cobra.ExactArgs(1),
		Long: `End a periodic job, whether it was made by "tenet periodic set" or workers have it from a file or from code; "tenet periodic set
NAME --document" brings the latter back. Exits with 5 for a name that neither the store nor --file knows, because it may be
mistyped.`,
		Example: "  tenet periodic delete nightly-report --store sqlite:jobs.db\n  tenet periodic delete nightly-report --file nightly.yaml",
	}
	file := fileFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	change := changeFlags(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		defaults, err := Read(cmd.Context(), a, *file)
		if err != nil {
			return err
		}
		x := job.DeletedPeriodicSetting(args[0])
		if err := x.Check(); err != nil {
			return cli.AsUsage(err)
		}
		change.known = func(ctx context.Context, s open.JobStore) error {
			list, _, err := s.Settings(ctx, -1)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(job.PeriodicJobs(defaults, list), func(p job.PeriodicState) bool { return p.Name == x.Name }) {
				return cli.Fail(cli.ExitNotFound, fmt.Errorf("periodic job %q: the store has none of this name; if workers have it from a file, name the file with --file", x.Name))
			}
			if *change.dryRun {
				return nil
			}
			return a.Confirm(ctx, *yes, "End the periodic job %s?", x.Name)
		}
		return change.make(cmd.Context(), a, x, "deleted")
	})
}

// settingChange is a command that changes a setting.
type settingChange struct {
	store, log, form *string
	dryRun           *bool
	known            func(context.Context, open.JobStore) error // nil if any name will do
}

func changeFlags(cmd *cobra.Command) *settingChange {
	return &settingChange{
		store: open.JobsFlag(cmd), log: recording.OperatorFlag(cmd), form: cli.OutputFlag(cmd),
		dryRun: cmd.Flags().Bool("dry-run", false, "print what would be done, without doing it"),
	}
}

func (c *settingChange) make(ctx context.Context, a *cli.App, x job.Setting, done string) error {
	if err := x.Check(); err != nil {
		return cli.AsUsage(err)
	}
	return open.WithJobs(ctx, a, open.Options{URL: *c.store}, func(s open.JobStore) error {
		if c.known != nil {
			if err := c.known(ctx, s); err != nil {
				return err
			}
		}
		verb := "would be"
		if !*c.dryRun {
			verb = "is"
			if err := recording.Set(ctx, a, s, recording.Change{Setting: x, Log: *c.log}); err != nil {
				return err
			}
		}
		return a.Print(*c.form, changeJSON{x.Name, done}, func(w io.Writer) {
			if done == "document" {
				cli.Fprintf(w, "%s %s as the workers have it themselves\n", x.Name, verb)
			} else {
				cli.Fprintf(w, "%s %s %s\n", x.Name, verb, done)
			}
		})
	})
}
