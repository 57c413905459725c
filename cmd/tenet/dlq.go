package main

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

	"github.com/tenetdev/tenet/job"
)

func (a *app) dlqCommand() *cobra.Command {
	return group("dlq", "The dead-letter queue: jobs that have failed for good", "", a.dlqListCommand(), a.requeueCommand(), a.purgeCommand())
}

func (a *app) dlqListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List dead jobs, or what they died of", Args: cobra.NoArgs,
		Long: `List dead jobs. With --group list what they died of: errors that differ only in numbers, hexadecimal strings,
UUIDs and quoted texts count as one, with how often and when it was seen and a sample.`,
		Example: "  tenet dlq list --group --store sqlite:jobs.db\n  tenet dlq list --error 'connection refused' -o jsonl",
	}
	store, filter := storeFlag(cmd), addFilterFlags(cmd)
	grouped := cmd.Flags().Bool("group", false, "group by kind of error")
	hidden := secretFlags(cmd)
	after := cmd.Flags().String("after", "", "only jobs after this ID")
	limit := cmd.Flags().Int("limit", 100, "jobs at most; 0 is all; groups always count all")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		f, err := filter.filter(job.Dead)
		if err != nil {
			return err
		}
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			if !*grouped {
				return a.printJobs(cmd.Context(), s, f, hidden, *after, *limit, *form)
			}
			groups := errorGroups{}
			if err := eachJob(cmd.Context(), s, f, *after, func(r *job.Record) bool { groups.add(r); return true }); err != nil {
				return err
			}
			list := groups.list()
			return a.print(*form, list, func(w io.Writer) {
				table(w, "COUNT\tFIRST SEEN\tLAST SEEN\tSAMPLE\tERROR", list, func(g errorGroup) []any {
					return []any{g.Count, clock(g.FirstSeen), clock(g.LastSeen), g.SampleID, oneLine(g.Fingerprint)}
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
}

// requeueResult is what "dlq requeue" prints.
type requeueResult struct {
	Requeued int            `json:"requeued"`
	Canary   map[string]int `json:"canary,omitempty"` // jobs by state, when --canary was over
}

func (a *app) requeueCommand() *cobra.Command {
	f := &requeueFlags{canaryWait: 10 * time.Minute}
	cmd := &cobra.Command{
		Use: "requeue [ID…]", Short: "Run dead jobs again", Args: cobra.ArbitraryArgs,
		Long: `Run dead jobs again, with their attempts counted from 0: those with the given IDs or that the filters select.
Without either it asks before it runs all of them, or needs --yes. Each job is taken once, also if it fails again
meanwhile.

--rate spreads them out, so that what has just recovered is not run over. --canary N runs N of them first and
waits until they have finished; if one is dead again the others stay where they are, and the exit code is 4.`,
		Example: `  tenet dlq requeue --error 'connection refused' --canary 10 --rate 50/s --store sqlite:jobs.db
  tenet dlq requeue 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55`,
	}
	store, filter, audit := storeFlag(cmd), addFilterFlags(cmd), operatorFlag(cmd)
	cmd.Flags().StringVar(&f.rate, "rate", "", "jobs at most in a time, for example 10/s or 500/m")
	cmd.Flags().IntVar(&f.canary, "canary", 0, "jobs to run first, and to wait for")
	cmd.Flags().Var(duration(&f.canaryWait), "canary-wait", "how long these may take")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "count the jobs and change nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before all dead jobs are run again")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, ids []string) error {
		every, err := parseRate(f.rate)
		if err != nil {
			return err
		}
		if f.canary < 0 {
			return usage("--canary: %d is negative", f.canary)
		}
		selected, err := filter.filter(job.Dead)
		if err != nil {
			return err
		}
		selected.IDs, f.audit, f.all = ids, *audit, len(ids) == 0 && !filter.any()
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			return a.requeue(cmd.Context(), s, f, selected, every, *form)
		})
	})
	return cmd
}

// parseRate is the time between two jobs of a rate such as 10/s; 0 is no limit.
func parseRate(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per := map[string]time.Duration{"s": time.Second, "sec": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour}[unit]
	if err != nil || per == 0 || !(n > 0) || n > 1e6 || n < 1e-3 {
		return 0, usage("--rate %q: write a number of jobs and a time, for example 10/s or 500/m", text)
	}
	return time.Duration(float64(per) / n), nil
}

func (a *app) requeue(ctx context.Context, s jobStore, f *requeueFlags, filter job.Filter, every time.Duration, form string) error {
	var ids []string // found before anything changes: what dies again must not be taken again
	if err := eachJob(ctx, s, filter, "", func(r *job.Record) bool { ids = append(ids, r.ID); return true }); err != nil {
		return err
	}
	for _, id := range filter.IDs {
		if !slices.Contains(ids, id) {
			return fail(exitNotFound, fmt.Errorf("job %s is not in the dead-letter queue; nothing was changed", id))
		}
	}
	if f.dryRun {
		return a.print(form, requeueResult{Requeued: len(ids)}, func(w io.Writer) { fprintf(w, "%s would be requeued\n", count(len(ids), "job")) })
	}
	if f.all && len(ids) > 0 {
		if err := a.confirm(ctx, f.yes, "Run all jobs of the dead-letter queue again (%s)?", count(len(ids), "job")); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		o, err := onJobs("dlq.requeue", filter, len(ids))
		if err != nil {
			return err
		}
		o.From, o.To, o.Attributes["canary"] = string(job.Dead), string(job.Ready), strconv.Itoa(f.canary)
		if err := a.putOnRecord(ctx, f.audit, o); err != nil {
			return err
		}
	}
	result := requeueResult{}
	failed := a.requeueAll(ctx, s, f, ids, every, &result)
	err := a.print(form, result, func(w io.Writer) { fprintf(w, "%s requeued\n", count(result.Requeued, "job")) })
	return errors.Join(failed, err)
}

func (a *app) requeueAll(ctx context.Context, s jobStore, f *requeueFlags, ids []string, every time.Duration, result *requeueResult) (err error) {
	if f.canary > 0 && len(ids) > 0 {
		first := ids[:min(f.canary, len(ids))]
		if result.Requeued, err = requeueIDs(ctx, s, first, every); err != nil {
			return err
		}
		if result.Canary, err = awaitCanary(ctx, s, first, f.canaryWait); err != nil {
			return err
		}
		if bad := len(first) - result.Canary[string(job.Completed)]; bad > 0 {
			return fail(exitThreshold, fmt.Errorf("canary: %d of %s did not complete; the other %d stay dead", bad, count(len(first), "job"), len(ids)-len(first)))
		}
		ids = ids[len(first):]
	}
	n, err := requeueIDs(ctx, s, ids, every)
	result.Requeued += n
	return err
}

// requeueIDs retries dead jobs, one each time, or all at once where every is 0.
func requeueIDs(ctx context.Context, s jobStore, ids []string, every time.Duration) (done int, err error) {
	// Faster than a hundred times a second, several go together.
	const fastest = 10 * time.Millisecond
	together := pageSize
	if every > 0 {
		together = max(1, int(fastest/every))
	}
	for chunk := range slices.Chunk(ids, together) {
		if done > 0 && !sleep(ctx, every*time.Duration(together)) {
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
func awaitCanary(ctx context.Context, s jobStore, ids []string, limit time.Duration) (map[string]int, error) {
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
		if !sleep(ctx, poll) {
			return states, context.Cause(ctx)
		}
	}
}

// sleep waits, and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *app) purgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge", Short: "Remove dead jobs with their history", Args: cobra.NoArgs,
		Long:    "Remove dead jobs with their history: those that the filters select, or else all. This cannot be undone.",
		Example: "  tenet dlq purge --created-before 720h --dry-run\n  tenet dlq purge --type http --error 'status 410' --yes",
	}
	store, filter, audit := storeFlag(cmd), addFilterFlags(cmd), operatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "count the jobs and remove nothing")
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		f, err := filter.filter(job.Dead)
		if err != nil {
			return err
		}
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			return a.purge(cmd.Context(), s, f, *audit, *dryRun, *yes, *form)
		})
	})
	return cmd
}

type purgeResult struct {
	Purged int `json:"purged"`
}

func (a *app) purge(ctx context.Context, s jobStore, f job.Filter, audit string, dryRun, yes bool, form string) error {
	var ids []string
	if err := eachJob(ctx, s, f, "", func(r *job.Record) bool { ids = append(ids, r.ID); return true }); err != nil {
		return err
	}
	if dryRun {
		return a.print(form, purgeResult{len(ids)}, func(w io.Writer) { fprintf(w, "%s would be removed\n", count(len(ids), "dead job")) })
	}
	if err := a.confirm(ctx, yes, "Remove %s with all history?", count(len(ids), "dead job")); err != nil {
		return err
	}
	if len(ids) > 0 {
		o, err := onJobs("dlq.purge", f, len(ids))
		if err != nil {
			return err
		}
		o.From = string(job.Dead)
		if err := a.putOnRecord(ctx, audit, o); err != nil {
			return err
		}
	}
	result := purgeResult{}
	for chunk := range slices.Chunk(ids, pageSize) {
		gone, err := s.Change(ctx, job.ActionDelete, job.Filter{IDs: chunk, States: f.States}, len(chunk))
		result.Purged += len(gone)
		if err != nil {
			return err
		}
	}
	return a.print(form, result, func(w io.Writer) { fprintf(w, "%s removed\n", count(result.Purged, "dead job")) })
}
