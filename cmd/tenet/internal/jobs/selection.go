package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Bulk is a change to all jobs that a filter selects: what distinguishes a command, then what its user asks for.
type Bulk struct {
	Action    job.Action
	AllIDs    bool      // change nothing unless every ID of the filter is a dead job
	Operation string    // the name of the operator's action
	From, To  job.State // recorded; without From all states of the filter are
	Noun      string    // "job" in text
	Done      string    // in words
	Question  string    // about a number of jobs; "" asks nothing
	Counted   string    // the JSON field of the count; "" writes a selectionResult

	Filter      job.Filter
	Audit, Form string
	DryRun, Yes bool
	wait        bool // cancel only: until the running jobs have ended
}

// Confirm asks before n jobs are changed.
func (b *Bulk) Confirm(ctx context.Context, a *cli.App, n int) error {
	if b.Question == "" || n == 0 {
		return nil
	}
	return a.Confirm(ctx, b.Yes, b.Question, cli.Count(n, b.Noun))
}

// Run applies the change to those of the selected jobs that are still in one of the filter's states, and prints how many were
// changed. With DryRun it only prints how many are selected. The jobs are selected before any of them is changed: one that
// returns to its state meanwhile must not be changed twice.
func (b *Bulk) Run(ctx context.Context, a *cli.App, s open.JobStore) error {
	var ids []string
	for r, err := range All(ctx, s, b.Filter, "") {
		if err != nil {
			return err
		}
		ids = append(ids, r.ID)
	}
	for _, id := range b.Filter.IDs {
		if b.AllIDs && !slices.Contains(ids, id) {
			return cli.Fail(cli.ExitNotFound, fmt.Errorf("job %s is not in the dead-letter queue; nothing was changed", id))
		}
	}
	result := selectionResult{Matched: len(ids)}
	if b.DryRun {
		return a.Print(b.Form, b.output(result, len(ids)), cli.AsLine("%s would be %s", cli.Count(len(ids), b.Noun), b.Done))
	}
	if err := b.Confirm(ctx, a, len(ids)); err != nil {
		return err
	}
	if len(ids) > 0 {
		o, err := operation.OnJobs(b.Operation, b.Filter, len(ids))
		if err != nil {
			return cli.AsUsage(err)
		}
		if o.From, o.To = string(b.From), string(b.To); b.From == "" {
			o.Attributes["states"] = joined(b.Filter.States, ",")
		}
		if err := recording.Put(ctx, a, b.Audit, o); err != nil {
			return err
		}
	}
	var changed []string
	var failed error
	result.unreached = len(ids)
	for chunk := range slices.Chunk(ids, PageSize) {
		var done []string
		done, failed = s.Change(ctx, b.Action, job.Filter{IDs: chunk, States: b.Filter.States}, len(chunk))
		if changed = append(changed, done...); failed != nil {
			result.unreached -= len(done)
			break
		}
		result.unreached -= len(chunk)
	}
	result.Changed = len(changed)
	switch {
	case b.Action != job.ActionCancel:
	case failed != nil:
		result.Outcomes = map[string]int{cancelPending: len(changed)}
	default:
		result.Outcomes, failed = outcomes(ctx, s, changed, b.wait)
	}
	return errors.Join(failed, a.Print(b.Form, b.output(result, len(changed)), func(w io.Writer) { result.write(w, b) }))
}

// output returns what JSON output says of n jobs.
func (b *Bulk) output(r selectionResult, n int) any {
	if b.Counted == "" {
		return r
	}
	return map[string]int{b.Counted: n}
}

// selectionResult is the output of a change with --filter.
type selectionResult struct {
	Matched int `json:"matched"` // jobs that the filter selects, in a state that the action applies to
	Changed int `json:"changed"`
	// Outcomes counts the outcomes of a cancellation, as changeResult names them. A job that was deleted meanwhile counts as
	// cancelled.
	Outcomes map[string]int `json:"outcomes,omitempty"`

	unreached int // after a failure
}

// unasked are the states of jobs that a retry changes if its filter names neither states nor IDs.
var unasked = []job.State{job.Scheduled, job.Dead, job.Cancelled}

// selects explains the arguments and --filter.
func (c *change) selects() string {
	text := `The jobs are those with the given IDs, or those that --filter selects, which the command counts first. It then asks, or
needs --yes where there is no terminal.`
	if c.Action == job.ActionRetry {
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
		if f.States = job.States(); c.Action == job.ActionRetry && len(f.IDs) == 0 {
			f.States = unasked
		}
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s job.State) bool { return !c.Action.Applies(s) })
	if len(f.States) == 0 {
		return f, cli.Usagef("--filter: jobs in the state %s cannot be %s", joined(named, " or "), c.Done)
	}
	return f, nil
}

// joined lists states.
func joined(states []job.State, between string) string {
	return strings.Join(lists.Texts(states), between)
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
			for r, err := range All(ctx, s, job.Filter{IDs: chunk, States: others}, "") {
				switch {
				case err != nil:
					count(cancelPending, len(ids))
					return counts, err
				case r.State == job.Running:
					running = append(running, r.ID)
				default:
					ended[string(r.State)]++
				}
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
func (r *selectionResult) write(w io.Writer, b *Bulk) {
	done := r.Changed
	if r.Outcomes != nil {
		done = r.Outcomes[string(job.Cancelled)]
	}
	cli.Fprintf(w, "%s %s\n", cli.Count(done, b.Noun), b.Done)
	if pending := r.Outcomes[cancelPending]; pending > 0 {
		cli.Fprintf(w, "%s (--wait waits for the end)\n", cli.Plural(pending, "job pending: its worker was asked to cancel it", "jobs pending: their workers were asked to cancel them"))
	}
	for _, state := range job.States() {
		if n := r.Outcomes[string(state)]; n > 0 && state != job.Cancelled {
			cli.Fprintf(w, "%s %s before the cancellation\n", cli.Count(n, "job"), state)
		}
	}
	if left := r.Matched - r.Changed - r.unreached; left > 0 {
		cli.Fprintf(w, "%s left alone, in a state that has changed meanwhile\n", cli.Count(left, b.Noun))
	}
	if r.unreached > 0 {
		cli.Fprintf(w, "%s not reached\n", cli.Count(r.unreached, b.Noun))
	}
}
