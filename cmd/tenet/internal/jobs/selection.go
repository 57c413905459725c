package jobs

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Selected returns the IDs of the jobs that a filter selects. It is called before any of them is changed: a job that returns
// to its state meanwhile must not be changed twice.
func Selected(ctx context.Context, s open.JobStore, f job.Filter) (ids []string, err error) {
	err = EachJob(ctx, s, Range{Filter: f}, func(r *job.Record) bool { ids = append(ids, r.ID); return true })
	return ids, err
}

// Change applies an action to those of the jobs that are still in one of the states, and returns the IDs of the changed ones,
// also with an error.
func Change(ctx context.Context, s open.JobStore, action job.Action, f job.Filter) (changed []string, err error) {
	for chunk := range slices.Chunk(f.IDs, PageSize) {
		done, err := s.Change(ctx, action, job.Filter{IDs: chunk, States: f.States}, len(chunk))
		if changed = append(changed, done...); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// selectionResult is the output of a change with --filter.
type selectionResult struct {
	Matched int `json:"matched"` // jobs that the filter selects, in a state that the action applies to
	Changed int `json:"changed"`
	// Outcomes counts the outcomes of a cancellation, as changeResult names them. A job that was deleted meanwhile counts as
	// cancelled.
	Outcomes map[string]int `json:"outcomes,omitempty"`
}

// unasked are the states of jobs that a retry changes if its filter names neither states nor IDs.
var unasked = []job.State{job.Scheduled, job.Dead, job.Cancelled}

// selects explains the arguments and --filter.
func (c *change) selects() string {
	text := `The jobs are those with the given IDs, or those that --filter selects, which the command counts first. It then asks, or
needs --yes where there is no terminal.`
	if c.action == job.ActionRetry {
		text += ` A filter without a state or an ID leaves ready and completed jobs alone.`
	}
	return text + "\n\n" + grammar
}

// filter returns the filter of --filter, for jobs in states that the action applies to.
func (c *change) filter(text string) (f job.Filter, err error) {
	if strings.TrimSpace(text) == "" {
		return f, cli.Usagef("--filter is empty; to change all jobs, write --filter before:0s")
	}
	if f, err = job.ParseFilter(text, time.Now()); err != nil {
		return f, cli.Usagef("%w", err)
	}
	named := f.States
	if len(named) == 0 {
		if f.States = job.States(); c.action == job.ActionRetry && len(f.IDs) == 0 {
			f.States = unasked
		}
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s job.State) bool { return !c.action.Applies(s) })
	if len(f.States) == 0 {
		return f, cli.Usagef("--filter: jobs in the state %s cannot be %s", joined(named, " or "), c.done)
	}
	return f, nil
}

// joined lists states.
func joined(states []job.State, between string) string {
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = string(s)
	}
	return strings.Join(texts, between)
}

// selected applies a change to the jobs that a filter selects.
func (c *change) selected(ctx context.Context, a *cli.App, s open.JobStore, f job.Filter) error {
	ids, err := Selected(ctx, s, f)
	if err != nil {
		return err
	}
	result := selectionResult{Matched: len(ids)}
	if c.dryRun {
		return a.Print(c.form, result, func(w io.Writer) { cli.Fprintf(w, "%s would be %s\n", cli.Count(len(ids), "job"), c.done) })
	}
	if len(ids) > 0 {
		if err := a.Confirm(ctx, c.yes, c.question, cli.Count(len(ids), "job")); err != nil {
			return err
		}
		o, err := operation.OnJobs("jobs."+c.name, f, len(ids))
		if err != nil {
			return cli.AsUsage(err)
		}
		o.Attributes["states"] = joined(f.States, ",")
		if err := recording.Put(ctx, a, c.audit, o); err != nil {
			return err
		}
	}
	changed, failed := Change(ctx, s, c.action, job.Filter{IDs: ids, States: f.States})
	result.Changed = len(changed)
	switch {
	case c.action != job.ActionCancel:
	case failed != nil:
		result.Outcomes = map[string]int{cancelPending: len(changed)}
	default:
		result.Outcomes, failed = outcomes(ctx, s, changed, c.wait)
	}
	return errors.Join(failed, a.Print(c.form, result, func(w io.Writer) { result.write(w, c.done) }))
}

// outcomes counts the outcomes of requested cancellations. If waits is set, it waits for the running jobs to end. If it
// returns an error, jobs whose outcome is not known count as pending.
func outcomes(ctx context.Context, s open.JobStore, ids []string, waits bool) (map[string]int, error) {
	counts := map[string]int{string(job.Cancelled): len(ids)}
	count := func(outcome string, n int) {
		if n > 0 {
			counts[outcome] += n
			counts[string(job.Cancelled)] -= n
		}
	}
	others := slices.DeleteFunc(job.States(), func(s job.State) bool { return s == job.Cancelled })
	for {
		var running []string
		ended := map[string]int{}
		for chunk := range slices.Chunk(ids, PageSize) {
			err := EachJob(ctx, s, Range{Filter: job.Filter{IDs: chunk, States: others}}, func(r *job.Record) bool {
				if r.State == job.Running {
					running = append(running, r.ID)
				} else {
					ended[string(r.State)]++
				}
				return true
			})
			if err != nil {
				count(cancelPending, len(ids))
				return counts, err
			}
		}
		for state, n := range ended {
			count(state, n)
		}
		if len(running) == 0 || !waits {
			count(cancelPending, len(running))
			return counts, nil
		}
		if ids = running; wait.For(ctx, cancelPoll) != nil {
			count(cancelPending, len(running))
			return counts, context.Cause(ctx)
		}
	}
}

// write prints how many jobs were changed, and the outcomes of the others.
func (r *selectionResult) write(w io.Writer, done string) {
	pending, ended := r.Outcomes[cancelPending], 0
	for _, state := range job.States() {
		if state != job.Cancelled {
			ended += r.Outcomes[string(state)]
		}
	}
	cli.Fprintf(w, "%s %s\n", cli.Count(r.Changed-pending-ended, "job"), done)
	if pending > 0 {
		cli.Fprintf(w, "%s (--wait waits for the end)\n", cli.Plural(pending, "job pending: its worker was asked to cancel it", "jobs pending: their workers were asked to cancel them"))
	}
	for _, state := range job.States() {
		if n := r.Outcomes[string(state)]; n > 0 && state != job.Cancelled {
			cli.Fprintf(w, "%s %s before the cancellation\n", cli.Count(n, "job"), state)
		}
	}
	if left := r.Matched - r.Changed; left > 0 {
		cli.Fprintf(w, "%s left alone, in a state that has changed meanwhile\n", cli.Count(left, "job"))
	}
}
