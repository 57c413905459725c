package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	_ "time/tzdata" // time zones also where the system has none

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/jobline"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
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

func (a *app) periodicCommand() *cobra.Command {
	cmd := group("periodic", "List periodic jobs, or enqueue one now", `Periodic jobs stand in a file that workers are given (tenet worker --periodic FILE). Each tick is enqueued once,
however many workers have the same file. The file is a list:

  - name: nightly-report
    cron: 0 3 * * *              # five fields, or @hourly, @daily, @every 10m
    time_zone: Europe/Berlin     # default UTC
    missed: once                 # ticks that passed while no worker ran: skip (default), once, all
    job: {type: http, payload: {url: "https://example.com/report"}, queue: reports}

The job has the fields of a job line except unique_key and run_at, which are the tick's.`, a.periodicListCommand(), a.periodicRunCommand())
	return cmd
}

// periodicOf reads a file of periodic jobs. No file is none of them.
func (a *app) periodicOf(ctx context.Context, path string) ([]job.Periodic, error) {
	_, list, err := a.readPeriodic(ctx, path)
	return list, err
}

// readPeriodic reads and checks the entries of a file and what they mean.
func (a *app) readPeriodic(ctx context.Context, path string) ([]periodicEntry, []job.Periodic, error) {
	if path == "" {
		return nil, nil, nil
	}
	text, err := a.readFile(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	entries, err := parsePeriodic(path, text)
	if err != nil {
		return nil, nil, err
	}
	list := make([]job.Periodic, len(entries))
	for i, e := range entries {
		if list[i], err = e.periodic(); err != nil {
			return nil, nil, &failure{exitInvalid, fmt.Errorf("%s: entry %d %q: %w", path, i+1, e.Name, err)}
		}
		if slices.ContainsFunc(list[:i], func(p job.Periodic) bool { return p.Name == e.Name }) {
			return nil, nil, &failure{exitInvalid, fmt.Errorf("%s: entry %d: name %q was used before", path, i+1, e.Name)}
		}
	}
	return entries, list, nil
}

func parsePeriodic(path string, text []byte) ([]periodicEntry, error) {
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, &failure{exitInvalid, fmt.Errorf("%s: %w", path, err)}
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, &failure{exitInvalid, fmt.Errorf("%s: %w", path, err)}
	}
	var entries []periodicEntry
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&entries); err != nil {
		return nil, &failure{exitInvalid, fmt.Errorf("%s: expected a list of {name, cron, time_zone, missed, job}: %w", path, err)}
	}
	return entries, nil
}

func (e periodicEntry) periodic() (job.Periodic, error) {
	p := job.Periodic{Name: e.Name, Cron: e.Cron}
	var err error
	switch {
	case e.Name == "":
		return p, errors.New("name: missing")
	case e.Job.UniqueKey != "" || !e.Job.RunAt.IsZero():
		return p, errors.New("job: unique_key and run_at are the tick's; leave them out")
	}
	if p.Location, err = time.LoadLocation(e.TimeZone); err != nil {
		return p, fmt.Errorf("time_zone: %q is no time zone such as Europe/Berlin", e.TimeZone)
	}
	if _, err = p.Next(time.Now()); err != nil {
		return p, err
	}
	switch e.Missed {
	case "", "skip":
	case "once", "all":
		p.Missed = job.Missed(e.Missed)
	default:
		return p, fmt.Errorf("missed: %q is not skip, once or all", e.Missed)
	}
	if p.Request, err = e.Job.Request(); err != nil {
		return p, fmt.Errorf("job: %w", err)
	}
	return p, nil
}

func fileFlag(cmd *cobra.Command) *string {
	file := cmd.Flags().String("file", "", "file of periodic jobs; - is stdin")
	_ = cmd.MarkFlagRequired("file") // the flag exists
	return file
}

func (a *app) periodicListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list --file FILE", Short: "Check a file of periodic jobs and show their next ticks", Args: cobra.NoArgs,
		Example: "  tenet periodic list --file nightly.yaml",
	}
	file, hidden := fileFlag(cmd), secretFlags(cmd)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		entries, periodic, err := a.readPeriodic(cmd.Context(), *file)
		if err != nil {
			return err
		}
		list := make([]periodicJSON, len(entries))
		for i, e := range entries {
			next, err := periodic[i].Next(time.Now())
			if err != nil {
				return err
			}
			e.Job.Payload = hidden.payload(e.Job.Payload)
			list[i] = periodicJSON{e, next}
		}
		return a.print(*form, list, func(w io.Writer) {
			table(w, "NAME\tCRON\tTIME ZONE\tMISSED\tNEXT\tTYPE", list, func(p periodicJSON) []any {
				zone, missed := p.TimeZone, p.Missed
				if zone == "" {
					zone = "UTC"
				}
				if missed == "" {
					missed = "skip"
				}
				return []any{p.Name, p.Cron, zone, missed, clock(p.Next), p.Job.Type}
			})
		})
	})
	return cmd
}

func (a *app) periodicRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run NAME --file FILE", Short: "Enqueue a periodic job now, beside its schedule", Args: cobra.ExactArgs(1),
		Example: "  tenet periodic run nightly-report --file nightly.yaml --store sqlite:jobs.db",
	}
	store, file, log := storeFlag(cmd), fileFlag(cmd), operatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "say what would be enqueued, and store nothing")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		list, err := a.periodicOf(cmd.Context(), *file)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(p job.Periodic) bool { return p.Name == args[0] })
		if i < 0 {
			return &failure{exitNotFound, fmt.Errorf("%s has no periodic job %q", *file, args[0])}
		}
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			if *dryRun {
				return a.print(formText, nil, func(w io.Writer) { fprintf(w, "would enqueue %s of %s\n", list[i].Request.Type, args[0]) })
			}
			request := list[i].Request
			queue := cmp.Or(request.Queue, job.DefaultQueue)
			err := a.putOnRecord(cmd.Context(), *log, audit.Operation{
				Action: "periodic.run", Key: policy.JobKey(queue, request.Type), Attributes: map[string]string{"name": args[0], "queue": queue},
			})
			if err != nil {
				return err
			}
			receipt, err := job.NewClient(s).Enqueue(cmd.Context(), request)
			if err != nil {
				return err
			}
			return a.print(*form, enqueueResult{receipt.ID, receipt.Existed, receipt.Durability}, func(w io.Writer) { fprintln(w, receipt.ID) })
		})
	})
	return cmd
}
