package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Command returns "tenet dlq".
func Command(a *cli.App) *cobra.Command {
	return cli.Group("dlq", "List, requeue and purge dead jobs (the dead-letter queue)", "", dlqListCommand(a), requeueCommand(a), purgeCommand(a))
}

func dlqListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List dead jobs, or group them by error", Args: cobra.NoArgs,
		Long: `List dead jobs. With --group list their errors instead, with counts, times and a sample: errors that differ only in
numbers, hexadecimal strings, UUIDs and quoted texts count as one.`,
		Example: "  tenet dlq list --group --store sqlite:jobs.db\n  tenet dlq list --error 'connection refused' -o jsonl",
	}
	store, filter := open.JobsFlag(cmd), jobs.AddFilterFlags(cmd)
	grouped := cmd.Flags().Bool("group", false, "group by error")
	hidden := jobs.SecretFlags(cmd)
	after := cmd.Flags().String("after", "", "only jobs after this ID")
	limit := cmd.Flags().Int("limit", 100, "maximum number of jobs; 0 is all; groups always count all jobs")
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, _ []string) error {
		f, err := filter.Filter(job.Dead)
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			if !*grouped {
				return jobs.Print(cmd.Context(), a, s, jobs.Listing{Filter: f, Hidden: hidden, After: *after, Limit: *limit, Form: *form})
			}
			groups := errorGroups{}
			if err := jobs.EachJob(cmd.Context(), s, jobs.Range{Filter: f, After: *after}, func(r *job.Record) bool { groups.add(r); return true }); err != nil {
				return err
			}
			list := groups.list()
			return a.Print(*form, list, func(w io.Writer) {
				cli.Table(w, "COUNT\tFIRST SEEN\tLAST SEEN\tSAMPLE\tERROR", list, func(g errorGroup) []any {
					return []any{g.Count, cli.Clock(g.FirstSeen), cli.Clock(g.LastSeen), g.SampleID, cli.OneLine(g.Fingerprint)}
				})
			})
		})
	})
	return cmd
}

type requeueFlags struct {
	rate       string
	audit      string
	canary     int
	canaryWait time.Duration
	all        bool // no filter and no ID was given
	dryRun     bool
	yes        bool
	form       string
	filter     job.Filter
	every      time.Duration // between two jobs; 0 is no limit
}

// requeueResult is the output of "dlq requeue".
type requeueResult struct {
	Requeued int            `json:"requeued"`
	Canary   map[string]int `json:"canary,omitempty"` // jobs by state after the canary run
}

func requeueCommand(a *cli.App) *cobra.Command {
	f := &requeueFlags{canaryWait: 10 * time.Minute}
	cmd := &cobra.Command{
		Use: "requeue [ID…]", Short: "Run dead jobs again", Args: cobra.ArbitraryArgs,
		Long: `Run dead jobs again, with their attempts counted from 0: those with the given IDs or that the filters select.
Without either the command asks before it runs all of them, or needs --yes. Each job is requeued once, even if it fails
again in the meantime.

--rate spreads the jobs out, so that a service that has just recovered is not overloaded. --canary N runs N jobs first and
waits until they have finished; if one is dead again, the others stay dead and the exit code is 4.`,
		Example: `  tenet dlq requeue --error 'connection refused' --canary 10 --rate 50/s --store sqlite:jobs.db
  tenet dlq requeue 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55`,
	}
	store, filter, audit := open.JobsFlag(cmd), jobs.AddFilterFlags(cmd), recording.OperatorFlag(cmd)
	cmd.Flags().StringVar(&f.rate, "rate", "", "maximum rate, for example 10/s or 500/m")
	cmd.Flags().IntVar(&f.canary, "canary", 0, "number of jobs to run first and wait for")
	cmd.Flags().Var(cli.Duration(&f.canaryWait), "canary-wait", "how long the canary jobs may take")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "count the jobs without changing them")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before running all dead jobs again")
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, ids []string) error {
		var err error
		if f.every, err = parseRate(f.rate); err != nil {
			return err
		}
		if f.canary < 0 {
			return cli.Usagef("--canary: %d is negative", f.canary)
		}
		if f.filter, err = filter.Filter(job.Dead); err != nil {
			return err
		}
		if len(ids) > 0 && len(f.filter.IDs) > 0 {
			return cli.Usagef("name the jobs either as arguments or in --filter")
		}
		f.filter.IDs = append(f.filter.IDs, ids...)
		f.audit, f.form, f.all = *audit, *form, len(ids) == 0 && !filter.Any()
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			return requeue(cmd.Context(), a, s, f)
		})
	})
	return cmd
}

// parseRate returns the time between two jobs for a rate such as 10/s, or 0 for no limit.
func parseRate(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per := map[string]time.Duration{"s": time.Second, "sec": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour}[unit]
	if err != nil || per == 0 || !(n > 0) || n > 1e6 || n < 1e-3 {
		return 0, cli.Usagef("--rate %q: write a number of jobs and a time, for example 10/s or 500/m", text)
	}
	return time.Duration(float64(per) / n), nil
}

func requeue(ctx context.Context, a *cli.App, s open.JobStore, f *requeueFlags) error {
	var ids []string // listed before any change: a job that dies again must not be requeued again
	if err := jobs.EachJob(ctx, s, jobs.Range{Filter: f.filter}, func(r *job.Record) bool { ids = append(ids, r.ID); return true }); err != nil {
		return err
	}
	for _, id := range f.filter.IDs {
		if !slices.Contains(ids, id) {
			return cli.Fail(cli.ExitNotFound, fmt.Errorf("job %s is not in the dead-letter queue; nothing was changed", id))
		}
	}
	if f.dryRun {
		return a.Print(f.form, requeueResult{Requeued: len(ids)}, func(w io.Writer) { cli.Fprintf(w, "%s would be requeued\n", cli.Count(len(ids), "job")) })
	}
	if f.all && len(ids) > 0 {
		if err := a.Confirm(ctx, f.yes, "Run all jobs of the dead-letter queue again (%s)?", cli.Count(len(ids), "job")); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		o, err := operation.OnJobs("dlq.requeue", f.filter, len(ids))
		if err != nil {
			return cli.AsUsage(err)
		}
		o.From, o.To, o.Attributes["canary"] = string(job.Dead), string(job.Ready), strconv.Itoa(f.canary)
		if err := recording.Put(ctx, a, f.audit, o); err != nil {
			return err
		}
	}
	result, failed := requeueAll(ctx, s, f, ids)
	err := a.Print(f.form, result, func(w io.Writer) { cli.Fprintf(w, "%s requeued\n", cli.Count(result.Requeued, "job")) })
	return errors.Join(failed, err)
}

// requeueAll requeues the canary jobs first, and the others after those have completed.
func requeueAll(ctx context.Context, s open.JobStore, f *requeueFlags, ids []string) (result requeueResult, err error) {
	if f.canary > 0 && len(ids) > 0 {
		first := ids[:min(f.canary, len(ids))]
		if result.Requeued, err = requeueIDs(ctx, s, first, f.every); err != nil {
			return result, err
		}
		if result.Canary, err = awaitCanary(ctx, s, first, f.canaryWait); err != nil {
			return result, err
		}
		if bad := len(first) - result.Canary[string(job.Completed)]; bad > 0 {
			return result, cli.Fail(cli.ExitThreshold, fmt.Errorf("canary: %d of %s did not complete; the other %d stay dead", bad, cli.Count(len(first), "job"), len(ids)-len(first)))
		}
		ids = ids[len(first):]
	}
	n, err := requeueIDs(ctx, s, ids, f.every)
	result.Requeued += n
	return result, err
}

// requeueIDs retries dead jobs, one in each interval, or all at once if it is 0.
func requeueIDs(ctx context.Context, s open.JobStore, ids []string, every time.Duration) (done int, err error) {
	// Above a hundred jobs per second, each round retries several.
	const shortest = 10 * time.Millisecond
	chunkSize := jobs.PageSize
	if every > 0 {
		chunkSize = max(1, int(shortest/every))
	}
	for chunk := range slices.Chunk(ids, chunkSize) {
		if done > 0 && wait.For(ctx, every*time.Duration(chunkSize)) != nil {
			return done, context.Cause(ctx)
		}
		changed, err := s.Change(ctx, job.ActionRetry, job.Filter{IDs: chunk, States: []job.State{job.Dead}}, len(chunk))
		done += len(changed)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// awaitCanary waits until all jobs have finished, and counts them by state.
func awaitCanary(ctx context.Context, s open.JobStore, ids []string, limit time.Duration) (map[string]int, error) {
	const poll = 100 * time.Millisecond
	for end := time.Now().Add(limit); ; {
		states, finished := map[string]int{}, 0
		for _, id := range ids {
			r, _, err := s.Get(ctx, id)
			switch {
			case errors.Is(err, job.ErrNotFound):
				states["deleted"]++
				finished++
				continue
			case err != nil:
				return states, err
			}
			states[string(r.State)]++
			if r.State.Finished() {
				finished++
			}
		}
		if finished == len(ids) || states[string(job.Dead)] > 0 || !time.Now().Before(end) {
			return states, nil
		}
		if wait.For(ctx, poll) != nil {
			return states, context.Cause(ctx)
		}
	}
}

func purgeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge", Short: "Remove dead jobs with their history", Args: cobra.NoArgs,
		Long:    "Remove dead jobs with their history: those that the filters select, or else all. This cannot be undone.",
		Example: "  tenet dlq purge --created-before 720h --dry-run\n  tenet dlq purge --type http --error 'status 410' --yes",
	}
	store, filter, audit := open.JobsFlag(cmd), jobs.AddFilterFlags(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "count the jobs without removing them")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, _ []string) error {
		selected, err := filter.Filter(job.Dead)
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			return purge(cmd.Context(), a, s, purgeFlags{selected, *audit, *form, *dryRun, *yes})
		})
	})
	return cmd
}

type purgeResult struct {
	Purged int `json:"purged"`
}

type purgeFlags struct {
	filter      job.Filter
	audit, form string
	dryRun, yes bool
}

func purge(ctx context.Context, a *cli.App, s open.JobStore, f purgeFlags) error {
	var ids []string
	if err := jobs.EachJob(ctx, s, jobs.Range{Filter: f.filter}, func(r *job.Record) bool { ids = append(ids, r.ID); return true }); err != nil {
		return err
	}
	if f.dryRun {
		return a.Print(f.form, purgeResult{len(ids)}, func(w io.Writer) { cli.Fprintf(w, "%s would be removed\n", cli.Count(len(ids), "dead job")) })
	}
	if err := a.Confirm(ctx, f.yes, "Remove %s with all history?", cli.Count(len(ids), "dead job")); err != nil {
		return err
	}
	if len(ids) > 0 {
		o, err := operation.OnJobs("dlq.purge", f.filter, len(ids))
		if err != nil {
			return cli.AsUsage(err)
		}
		o.From = string(job.Dead)
		if err := recording.Put(ctx, a, f.audit, o); err != nil {
			return err
		}
	}
	result := purgeResult{}
	for chunk := range slices.Chunk(ids, jobs.PageSize) {
		gone, err := s.Change(ctx, job.ActionDelete, job.Filter{IDs: chunk, States: f.filter.States}, len(chunk))
		result.Purged += len(gone)
		if err != nil {
			return err
		}
	}
	return a.Print(f.form, result, func(w io.Writer) { cli.Fprintf(w, "%s removed\n", cli.Count(result.Purged, "dead job")) })
}
