package periodic

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for systems without time zone data

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// periodicEntry is an entry of a file of periodic jobs.
type periodicEntry struct {
	Name     string       `json:"name"`
	Cron     string       `json:"cron"`
	TimeZone string       `json:"time_zone"`
	Missed   string       `json:"missed"` // skip (default), once or all
	Job      jobline.Line `json:"job"`
}

// periodicJSON is an entry as "periodic list" prints it.
type periodicJSON struct {
	periodicEntry
	Next time.Time `json:"next"`
}

// Command returns "tenet periodic".
func Command(a *cli.App) *cobra.Command {
	cmd := cli.Group("periodic", "Check and list periodic jobs, or enqueue one now", `Workers read periodic jobs from a file (tenet worker --periodic FILE). Each tick is enqueued once,
however many workers use the same file. The file is a list:

  - name: nightly-report
    cron: 0 3 * * *              # five fields, or @hourly, @daily, @every 10m
    time_zone: Europe/Berlin     # default UTC
    missed: once                 # ticks that passed while no worker ran: skip (default), once, all
    job: {type: http, payload: {url: "https://example.com/report"}, queue: reports}

The job has the fields of a job line except unique_key and run_at, which the tick sets.`, periodicCheckCommand(a), periodicListCommand(a), periodicRunCommand(a))
	return cmd
}

// Read reads a file of periodic jobs. An empty path means that there are none.
func Read(ctx context.Context, a *cli.App, path string) ([]job.Periodic, error) {
	if path == "" {
		return nil, nil
	}
	_, list, err := readPeriodic(ctx, a, path)
	return list, err
}

// readPeriodic reads and checks a file, and returns its entries and their jobs.
func readPeriodic(ctx context.Context, a *cli.App, path string) ([]periodicEntry, []job.Periodic, error) {
	if path == "" {
		return nil, nil, cli.Usagef("no file of periodic jobs given; name it with --file FILE")
	}
	text, err := a.ReadFile(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	f := parsePeriodic(path, text)
	if len(f.faults) > 0 {
		a.PrintFaults(f.faults)
		return nil, nil, cli.Exit(cli.ExitInvalid)
	}
	return f.entries, f.jobs, nil
}

// periodic returns the job that an entry describes, and its problems by field.
func (e periodicEntry) periodic() (p job.Periodic, problems []string) {
	p = job.Periodic{Name: e.Name, Cron: e.Cron}
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if e.Name == "" {
		add("name: missing")
	}
	if e.Job.UniqueKey != "" || !e.Job.RunAt.IsZero() {
		add("job: leave out unique_key and run_at; each tick sets them")
	}
	var err error
	if p.Location, err = time.LoadLocation(e.TimeZone); err != nil {
		add("time_zone: %q is not a time zone such as Europe/Berlin", e.TimeZone)
		p.Location = time.UTC
	}
	if e.Cron == "" {
		add("cron: missing; write five fields, or @hourly, @daily, @every 10m")
	} else if _, err = p.Next(time.Now()); err != nil {
		_, why, _ := strings.Cut(err.Error(), strconv.Quote(e.Cron)+": ")
		add("cron: %q: %s", e.Cron, cmp.Or(why, err.Error()))
	}
	switch e.Missed {
	case "", "skip":
	case "once", "all":
		p.Missed = job.Missed(e.Missed)
	default:
		add("missed: %q is not skip, once or all", e.Missed)
	}
	if p.Request, err = e.Job.Request(); err != nil {
		add("job: %v", err)
	}
	return p, problems
}

func fileFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("file", "", "file of periodic jobs; - is stdin")
}

func periodicListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list --file FILE", Short: "Check a file of periodic jobs and show their next ticks", Args: cobra.NoArgs,
		Example: "  tenet periodic list --file nightly.yaml",
	}
	file, hidden := fileFlag(cmd), jobs.SecretFlags(cmd)
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, _ []string) error {
		entries, periodic, err := readPeriodic(cmd.Context(), a, *file)
		if err != nil {
			return err
		}
		list := make([]periodicJSON, len(entries))
		for i, e := range entries {
			next, err := periodic[i].Next(time.Now())
			if err != nil {
				return err
			}
			e.Job.Payload = hidden.Payload(e.Job.Payload)
			list[i] = periodicJSON{e, next}
		}
		return a.Print(*form, list, func(w io.Writer) {
			cli.Table(w, "NAME\tCRON\tTIME ZONE\tMISSED\tNEXT\tTYPE", list, func(p periodicJSON) []any {
				zone, missed := p.TimeZone, p.Missed
				if zone == "" {
					zone = "UTC"
				}
				if missed == "" {
					missed = "skip"
				}
				return []any{p.Name, p.Cron, zone, missed, cli.Clock(p.Next), p.Job.Type}
			})
		})
	})
	return cmd
}

func periodicRunCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run NAME --file FILE", Short: "Enqueue a periodic job now, in addition to its schedule", Args: cobra.ExactArgs(1),
		Example: "  tenet periodic run nightly-report --file nightly.yaml --store sqlite:jobs.db",
	}
	store, file, log := open.JobsFlag(cmd), fileFlag(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be enqueued, without storing it")
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, args []string) error {
		entries, list, err := readPeriodic(cmd.Context(), a, *file)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(p job.Periodic) bool { return p.Name == args[0] })
		if i < 0 {
			return cli.Fail(cli.ExitNotFound, fmt.Errorf("%s has no periodic job %q", *file, args[0]))
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			if *dryRun {
				return a.Print(*form, entries[i].Job, func(w io.Writer) { cli.Fprintf(w, "would enqueue %s of %s\n", list[i].Request.Type, args[0]) })
			}
			request := list[i].Request
			queue := cmp.Or(request.Queue, job.DefaultQueue)
			err := recording.Put(cmd.Context(), a, *log, operation.OnPeriodic(args[0], queue, request.Type))
			if err != nil {
				return err
			}
			receipt, err := job.NewClient(s).Enqueue(cmd.Context(), request)
			if err != nil {
				return err
			}
			return a.Print(*form, api.Receipt(receipt), func(w io.Writer) { cli.Fprintln(w, receipt.ID) })
		})
	})
	return cmd
}
