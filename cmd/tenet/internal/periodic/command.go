package periodic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/tenetdev/tenet/server/client"
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
	Next   time.Time `json:"next"`
	Source string    `json:"source"` // document (the file) or operator
	SetBy  string    `json:"set_by,omitempty"`
	SetAt  time.Time `json:"set_at,omitzero"`
}

// Command returns "tenet periodic".
func Command(a *cli.App) *cobra.Command {
	cmd := cli.Group("periodic", "Check, list and change periodic jobs, or enqueue one now", `Workers read periodic jobs from a file (tenet worker --periodic FILE) and from their store, where
"periodic set" and "periodic delete" change them while workers run. What is set in the store goes before the file. Each tick is enqueued
once, however many workers use the same file. The file is a list:

  - name: nightly-report
    cron: 0 3 * * *              # five fields, or @hourly, @daily, @every 10m
    time_zone: Europe/Berlin     # default UTC
    missed: once                 # ticks that passed while no worker ran: skip (default), once, all
    job: {type: http, payload: {url: "https://example.com/report"}, queue: reports}

The job has the fields of a job line except unique_key and run_at, which the tick sets.`, periodicCheckCommand(a), periodicListCommand(a), periodicRunCommand(a), periodicSetCommand(a), periodicDeleteCommand(a))
	return cmd
}

// Read reads a file of periodic jobs, and prints its faults to stderr. An empty path means that there are none.
func Read(ctx context.Context, a *cli.App, path string) ([]job.Periodic, error) {
	if path == "" {
		return nil, nil
	}
	text, err := a.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	f := parsePeriodic(path, text)
	if len(f.faults) > 0 {
		a.PrintFaults(f.faults)
		return nil, cli.Exit(cli.ExitInvalid)
	}
	return f.jobs, nil
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

// entryOf describes a periodic job as a file does, without secrets.
func entryOf(p job.Periodic, hidden *jobs.Secrets) (periodicEntry, error) {
	e := periodicEntry{Name: p.Name, Cron: p.Cron, Missed: string(p.Missed)}
	if p.Location != nil {
		e.TimeZone = p.Location.String()
	}
	r := p.Request
	e.Job = jobline.Line{Type: r.Type, Queue: r.Queue, MaxAttempts: r.MaxAttempts, Priority: r.Priority, Meta: hidden.Map(r.Meta)}
	if r.Timeout > 0 {
		e.Job.Timeout = jobline.Timeout(r.Timeout.String())
	}
	if r.Payload == nil {
		return e, nil
	}
	payload, err := json.Marshal(r.Payload)
	e.Job.Payload = hidden.JSON(payload)
	return e, err
}

// merged returns the periodic jobs of a file and a store. Without a store it returns those of the file.
func merged(ctx context.Context, a *cli.App, file string, s open.JobStore) ([]job.PeriodicState, error) {
	defaults, err := Read(ctx, a, file)
	var settings []job.Setting
	if err == nil && s != nil {
		settings, _, err = s.Settings(ctx, -1)
	}
	return job.PeriodicJobs(defaults, settings), err
}

func periodicListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [--file FILE]", Short: "Show periodic jobs with their next ticks and where they come from", Args: cobra.NoArgs,
		Long:    "Show the periodic jobs of a file, of a store, or of workers that have the file and use the store.",
		Example: "  tenet periodic list --file nightly.yaml\n  tenet periodic list --file nightly.yaml --store sqlite:jobs.db",
	}
	store, file, hidden := open.JobsFlag(cmd), fileFlag(cmd), jobs.SecretFlags(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		show := func(s open.JobStore) error {
			list, err := merged(cmd.Context(), a, *file, s)
			if err != nil {
				return err
			}
			return printList(a, list, hidden, form)
		}
		server, err := open.Target(cmd.Context())
		switch {
		case err != nil:
			return err
		case *store != "" || server != nil:
			return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, show)
		case *file == "":
			return cli.Usagef("no file of periodic jobs given; name it with --file FILE, or a store with --store")
		}
		return show(nil)
	})
}

func printList(a *cli.App, periodic []job.PeriodicState, hidden *jobs.Secrets, form string) error {
	list := make([]periodicJSON, len(periodic))
	for i := range periodic {
		p := &periodic[i]
		next, err := p.Next(time.Now())
		if err != nil {
			return err
		}
		e, err := entryOf(p.Periodic, hidden)
		if err != nil {
			return err
		}
		list[i] = periodicJSON{periodicEntry: e, Next: next, Source: api.SourceDocument}
		if p.Set.Value != nil {
			list[i].Source, list[i].SetBy, list[i].SetAt = api.SourceOperator, p.Set.By, p.Set.At
		}
	}
	return a.Print(form, list, cli.AsTable("NAME\tCRON\tTIME ZONE\tMISSED\tNEXT\tTYPE\tSET BY", list, func(p periodicJSON) []any {
		by := "document"
		if p.Source == api.SourceOperator {
			by = p.SetBy + " " + cli.Clock(p.SetAt)
		}
		return []any{p.Name, p.Cron, cmp.Or(p.TimeZone, "UTC"), cmp.Or(p.Missed, "skip"), cli.Clock(p.Next), p.Job.Type, by}
	}))
}

func periodicRunCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run NAME [--file FILE]", Short: "Enqueue a periodic job now, in addition to its schedule", Args: cobra.ExactArgs(1),
		Example: "  tenet periodic run nightly-report --file nightly.yaml --store sqlite:jobs.db",
	}
	store, file, log, hidden := open.JobsFlag(cmd), fileFlag(cmd), recording.OperatorFlag(cmd), jobs.SecretFlags(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be enqueued, without storing it")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			list, err := merged(cmd.Context(), a, *file, s)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(p job.PeriodicState) bool { return p.Name == args[0] })
			if i < 0 {
				return cli.Fail(cli.ExitNotFound, fmt.Errorf("the store and the file have no periodic job %q", args[0]))
			}
			entry, err := entryOf(list[i].Periodic, hidden)
			if err != nil {
				return err
			}
			if *dryRun {
				return a.Print(form, entry.Job, cli.AsLine("would enqueue %s of %s", list[i].Request.Type, args[0]))
			}
			request := list[i].Request
			queue := cmp.Or(request.Queue, job.DefaultQueue)
			err = recording.Put(cmd.Context(), a, *log, operation.OnPeriodic(args[0], queue, request.Type))
			if err != nil {
				return err
			}
			var receipt job.Receipt
			if server, ok := s.(*client.Jobs); ok && list[i].Set.Value != nil { // the settings that a server returns have no secrets
				receipt, err = server.RunPeriodic(cmd.Context(), args[0])
			} else {
				receipt, err = job.NewClient(s).Enqueue(cmd.Context(), request)
			}
			if err != nil {
				return err
			}
			return cli.Unprinted("job "+receipt.ID+" is stored", a.Print(form, api.Receipt(receipt), cli.AsLine("%s", receipt.ID)))
		})
	})
}
