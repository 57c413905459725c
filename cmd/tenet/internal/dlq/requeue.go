package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// requeueFlags are what "dlq requeue" is asked for.
type requeueFlags struct {
	planFlags
	jobs.Bulk
	wait bool
}

// planFlags are the flags of a plan, as they are written.
type planFlags struct {
	rate, canary, stopAt  string
	stopLeast, maxPending int
}

func requeueCommand(a *cli.App) *cobra.Command {
	f := &requeueFlags{Bulk: jobs.Bulk{Action: job.ActionRetry, AllIDs: true, Operation: "dlq.requeue", From: job.Dead, To: job.Ready,
		Noun: "job", Done: "requeued", Counted: "requeued"}}
	cmd := &cobra.Command{
		Use: "requeue [ID…]", Short: "Run dead jobs again", Args: cobra.ArbitraryArgs,
		Long: `Run dead jobs again, with their attempts counted from 0: those with the given IDs or that the filters select.
Without either the command asks before it runs all of them, or needs --yes. Each job is requeued once, even if it fails
again in the meantime.

With --rate, --canary, --stop-at or --max-pending the command stores a redrive and prints it: the selection is counted and
fixed, and the workers of the store, or its server, release the jobs as the plan says. "tenet redrives" shows, pauses,
resumes, aborts and undoes redrives. --wait runs the redrive until all released jobs have ended; the exit code is 4
if it stopped. An interrupted command leaves the redrive to the workers.

--rate spreads the jobs out, so that a service that has just recovered is not overloaded. --canary N, or N%, releases N jobs
first; if one of them does not complete, the others stay dead. --stop-at 20% stops when a fifth of the jobs that have
ended died again.`,
		Example: `  tenet dlq requeue --error 'connection refused' --canary 10 --rate 50/s --stop-at 20% --store sqlite:jobs.db
  tenet dlq requeue 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55`,
	}
	store, filter, audit := open.JobsFlag(cmd), jobs.AddFilterFlags(cmd), recording.OperatorFlag(cmd)
	cmd.Flags().StringVar(&f.rate, "rate", "", "maximum rate, for example 10/s or 500/m")
	cmd.Flags().StringVar(&f.canary, "canary", "", "jobs that must complete before the others follow: a number, or a share such as 5%")
	cmd.Flags().StringVar(&f.stopAt, "stop-at", "", "stop when this share of the jobs that have ended died again, for example 20%")
	cmd.Flags().IntVar(&f.stopLeast, "stop-least", 0, "number of jobs that have to die again for --stop-at (default: 10, or the share if this is less)")
	cmd.Flags().IntVar(&f.maxPending, "max-pending", 0, "most released jobs that have not ended (default: 1000 with --stop-at)")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "run the redrive and wait until it ends")
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "count the jobs without changing them")
	cmd.Flags().BoolVar(&f.Yes, "yes", false, "do not ask before running all dead jobs again")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, ids []string, form string) error {
		for _, name := range []string{"rate", "canary", "stop-at", "stop-least", "max-pending"} {
			if flag := cmd.Flags().Lookup(name); flag.Changed && (flag.Value.String() == "" || flag.Value.String() == "0") {
				return cli.Usagef("--%s %q: write a value above 0, or leave the flag out", name, flag.Value)
			}
		}
		n, err := f.plan()
		if err != nil {
			return err
		}
		if f.Filter, err = filter.Filter(job.Dead); err != nil {
			return err
		}
		if len(ids) > 0 && len(f.Filter.IDs) > 0 {
			return cli.Usagef("name the jobs either as arguments or in --filter")
		}
		f.Filter.IDs = slices.Compact(slices.Sorted(slices.Values(append(f.Filter.IDs, ids...))))
		if f.Audit, f.Form = *audit, form; len(ids) == 0 && !filter.Any() {
			f.Question = "Run all jobs of the dead-letter queue again (%s)?"
		}
		if f.wait && f.planFlags == (planFlags{}) {
			return cli.Usagef("--wait waits for a redrive; give --rate, --canary, --stop-at or --max-pending too")
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			if f.planFlags == (planFlags{}) {
				return f.Run(cmd.Context(), a, s)
			}
			n.Filter = f.Filter
			return f.redrive(cmd.Context(), a, s, n)
		})
	})
}

// plan reads the flags of a plan.
func (f *planFlags) plan() (n job.NewRedrive, err error) {
	if f.rate != "" {
		if n.Rate, err = parseRate("--rate", f.rate); err != nil {
			return n, err
		}
	}
	if n.StopShare, err = parseShare("stop-at", f.stopAt); err != nil {
		return n, err
	}
	if strings.HasSuffix(f.canary, "%") {
		n.CanaryShare, err = parseShare("canary", f.canary)
	} else if f.canary != "" {
		if n.Canary, err = strconv.Atoi(f.canary); err != nil || n.Canary < 0 {
			err = cli.Usagef("--canary %q: write a number of jobs, or a share such as 5%%", f.canary)
		}
	}
	n.StopLeast, n.MaxPending = f.stopLeast, f.maxPending
	if n.StopLeast < 0 || n.MaxPending < 0 {
		return n, cli.Usagef("--stop-least and --max-pending: not below 0")
	}
	if n.StopLeast > 0 && n.StopShare == 0 {
		return n, cli.Usagef("--stop-least is for --stop-at; give that too")
	}
	return n, err
}

// parseRate returns the jobs per second of a rate such as 10/s. The name is that of its flag or argument.
func parseRate(name, text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per := map[string]time.Duration{"s": time.Second, "sec": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour}[unit]
	rate := n / per.Seconds()
	if err != nil || per == 0 || !(rate >= 1e-3) || rate > 1e6 {
		return 0, cli.Usagef("%s %q: write a number of jobs and a time, for example 10/s or 500/m, from 3.6/h to 1000000/s", name, text)
	}
	return rate, nil
}

// parseShare reads a share such as 20% or 0.2.
func parseShare(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0) || share > 1 {
		return 0, cli.Usagef("--%s %q: write a share such as 20%%", flag, text)
	}
	return share, nil
}

// redrive makes a redrive and, if it is asked to, runs it to its end.
func (f *requeueFlags) redrive(ctx context.Context, a *cli.App, s job.Redriver, n job.NewRedrive) error {
	groups, err := s.PreviewRedrive(ctx, n.Filter)
	if err != nil {
		return err
	}
	preview := api.NewRedrivePreview(groups)
	if missing := len(n.Filter.IDs) - preview.Total; missing > 0 {
		return cli.Fail(cli.ExitNotFound, fmt.Errorf("%s of %d are not in the dead-letter queue; nothing was changed", cli.Count(missing, "job"), len(n.Filter.IDs)))
	}
	if preview.Total == 0 {
		return cli.Fail(cli.ExitNotFound, errors.New("no dead job matches; nothing was changed"))
	}
	if f.DryRun {
		return a.Print(f.Form, preview, func(w io.Writer) {
			cli.Fprintf(w, "%s would be requeued\n", cli.Count(preview.Total, "job"))
			cli.Table(w, "JOBS\tQUEUE\tTYPE", preview.Groups, func(g job.RedriveGroup) []any { return []any{g.Jobs, g.Queue, g.Type} })
		})
	}
	if err := f.Confirm(ctx, a, preview.Total); err != nil {
		return err
	}
	n.ID, n.Actor = uuidv7.Next(), recording.Actor()
	o, err := operation.OnRedrive(n, preview.Total)
	if err != nil {
		return cli.AsUsage(err)
	}
	if err := recording.Put(ctx, a, f.Audit, o); err != nil {
		return err
	}
	made, err := s.CreateRedrive(ctx, n)
	switch {
	case errors.Is(err, job.ErrNotFound): // none is dead any more
		return cli.Fail(cli.ExitNotFound, errors.New("no dead job matches; nothing was changed"))
	case err != nil || !f.wait:
		return errors.Join(err, printRedrive(a, f.Form, made))
	}
	ended, err := follow(ctx, s, made.ID)
	if err != nil {
		return fmt.Errorf("redrive %s goes on where workers run: %w", made.ID, err)
	}
	if err := printRedrive(a, f.Form, ended); err != nil {
		return err
	}
	if ended.State == job.RedriveStopped {
		return cli.Fail(cli.ExitThreshold, fmt.Errorf("redrive %s stopped: %s; %s stay dead", made.ID, ended.Reason, cli.Count(ended.Left(), "other job")))
	}
	return nil
}

// follow runs a redrive to its end, or watches one that a server runs.
func follow(ctx context.Context, s job.Redriver, id string) (job.Redrive, error) {
	if store, ok := s.(job.RedriveStepper); ok {
		return job.NewRedriveRunner(store, job.RedriveRunnerOptions{Logger: slog.New(slog.DiscardHandler)}).Follow(ctx, id, nil)
	}
	const poll = time.Second
	for {
		r, err := s.Redrive(ctx, id)
		if err != nil || !r.Active() {
			return r, err
		}
		if wait.For(ctx, poll) != nil {
			return r, context.Cause(ctx)
		}
	}
}
