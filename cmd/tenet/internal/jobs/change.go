package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
)

// change is a command that changes jobs by their IDs, or those that a filter selects.
type change struct {
	Bulk
	name, short string
	ids         []string
}

// changeResult is the output of such a command.
type changeResult struct {
	Changed  []string `json:"changed"`
	Missing  []string `json:"missing"`
	Conflict []string `json:"conflict"` // in a state that the action cannot be applied to
	// Outcomes holds the outcome of each cancellation: cancelled, pending (the worker was asked), or the state that the job
	// ended in first (completed, dead).
	Outcomes map[string]string `json:"outcomes,omitempty"`

	done   string               // in words
	states map[string]job.State // of the jobs in Conflict, as they were found
}

func changeCommand(a *cli.App, c change) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.name + " [ID…]", Short: c.short,
		Long:    c.short + ".\n\n" + c.selects() + "\n\nExits with 5 if a job was not found, and with 7 if a job's state does not allow it to be " + c.Done + ".",
		Example: "  tenet jobs " + c.name + " 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db\n  tenet jobs " + c.name + " --filter 'queue:mail before:24h' --dry-run",
	}
	store, audit := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	text := cmd.Flags().String("filter", "", "change the jobs that this filter selects, such as 'queue:mail meta.tenant:acme'")
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "print what would be done, without doing it")
	cmd.Flags().BoolVar(&c.Yes, "yes", false, "do not ask")
	if c.Action == job.ActionCancel {
		cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until running jobs have ended, and print their outcomes")
		cmd.Long = c.short + `.

` + c.selects() + `

A waiting job is cancelled at once. For a running job the command asks its worker to cancel the handler's context, which
happens within a second, or within a third of the lease if the store cannot notify. If the handler finishes nevertheless,
the job keeps the handler's outcome, and the request stays on record (cancel_requested_at).

The output says which of the two happened, or that the request is pending.

Exits with 5 if a job was not found, and with 7 if one had already ended.`
		cmd.Example += "\n  tenet jobs cancel 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --wait"
	}
	form := cli.OutputFlag(cmd)
	filtered := func() bool { return cmd.Flags().Changed("filter") }
	cmd.Args = func(_ *cobra.Command, ids []string) error {
		if filtered() == (len(ids) > 0) {
			return cli.Usagef("write either the IDs of jobs or --filter")
		}
		return nil
	}
	return cli.WithRun(cmd, func(cmd *cobra.Command, ids []string) error {
		c.ids, c.Operation, c.Audit, c.Form = ids, "jobs."+c.name, *audit, *form
		if filtered() {
			var err error
			if c.Filter, err = c.filter(*text); err != nil {
				return err
			}
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			if filtered() {
				return c.Run(cmd.Context(), a, s)
			}
			if c.Action == job.ActionDelete && !c.DryRun {
				if err := c.Confirm(cmd.Context(), a, len(ids)); err != nil {
					return err
				}
			}
			return changeJobs(cmd.Context(), a, s, c)
		})
	})
}

// changeJobs applies a change to the jobs whose states allow it, and prints the result for all of them.
func changeJobs(ctx context.Context, a *cli.App, s open.JobStore, c change) error {
	result := changeResult{Changed: []string{}, Missing: []string{}, Conflict: []string{}, done: c.Done, states: map[string]job.State{}}
	allowed, err := result.look(ctx, s, c.Action, c.ids)
	if err != nil {
		return err
	}
	if c.DryRun {
		for _, r := range allowed {
			result.Changed = append(result.Changed, r.ID)
		}
		return errors.Join(a.Print(c.Form, result, func(w io.Writer) { result.write(w, "would be "+c.Done) }), result.failure())
	}
	if len(allowed) > 0 {
		o, err := operation.OnRecords(c.Operation, allowed)
		if err != nil {
			return cli.AsUsage(err)
		}
		if err := recording.Put(ctx, a, c.Audit, o); err != nil {
			return err
		}
	}
	failed := result.apply(ctx, s, c, allowed)
	return errors.Join(a.Print(c.Form, result, func(w io.Writer) { result.write(w, c.Done) }), cmp.Or(failed, result.failure()))
}

// look returns the jobs whose states allow an action, and records the others in the result.
func (c *changeResult) look(ctx context.Context, s open.JobStore, action job.Action, ids []string) (allowed []*job.Record, err error) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		r, _, err := s.Get(ctx, id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			c.Missing = append(c.Missing, id)
		case err != nil:
			return nil, err
		case !action.Applies(r.State):
			c.Conflict, c.states[id] = append(c.Conflict, id), r.State
		default:
			allowed = append(allowed, r)
		}
	}
	return allowed, nil
}

// apply changes the jobs one by one, up to the first error, and records the result of each.
func (c *changeResult) apply(ctx context.Context, s open.JobStore, what change, list []*job.Record) (err error) {
	for _, r := range list {
		var changed []string
		if changed, err = s.Change(ctx, what.Action, job.Filter{IDs: []string{r.ID}}, 1); err != nil {
			break
		}
		if len(changed) == 0 { // its state has changed meanwhile
			c.Conflict = append(c.Conflict, r.ID)
		} else {
			c.Changed = append(c.Changed, r.ID)
		}
	}
	if what.Action != job.ActionCancel {
		return err
	}
	c.Outcomes = map[string]string{}
	for _, id := range c.Changed {
		if c.Outcomes[id] = cancelPending; err == nil {
			c.Outcomes[id], err = cancelled(ctx, s, id, what.wait)
		}
	}
	return err
}

func (c *changeResult) write(w io.Writer, verb string) {
	for _, id := range c.Changed {
		if outcome := c.Outcomes[id]; outcome != "" {
			cli.Fprintln(w, cancelText(id, outcome))
		} else {
			cli.Fprintln(w, id, verb)
		}
	}
}

// failure returns nil if all jobs were changed.
func (c *changeResult) failure() error {
	var faults []error
	for _, id := range c.Missing {
		faults = append(faults, fmt.Errorf("job %s: not found", id))
	}
	for _, id := range c.Conflict {
		faults = append(faults, c.conflict(id))
	}
	switch {
	case len(c.Missing) > 0:
		return cli.Fail(cli.ExitNotFound, errors.Join(faults...))
	case len(c.Conflict) > 0:
		return cli.Fail(cli.ExitConflict, errors.Join(faults...))
	}
	return nil
}

// conflict says why a job was not changed.
func (c *changeResult) conflict(id string) error {
	switch state := c.states[id]; {
	case state == "":
		return fmt.Errorf("job %s: its state has changed meanwhile and does not allow this; see: tenet jobs inspect %[1]s", id)
	case state.Finished() && c.done == "cancelled":
		return fmt.Errorf("job %s: it has already ended: %s; see: tenet jobs inspect %[1]s", id, state)
	default:
		return fmt.Errorf("job %s: it is %s and cannot be %s; see: tenet jobs inspect %[1]s", id, state, c.done)
	}
}
