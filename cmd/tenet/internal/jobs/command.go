package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/job"
)

func (a *app) jobsCommand() *cobra.Command {
	cmd := cli.Group("jobs", "Store, list, inspect and change jobs", "", a.enqueueCommand(), a.jobsImportCommand(), a.listCommand(), a.inspectCommand(),
		a.changeCommand(change{job.ActionRetry, "retry", "Run jobs again at once, with their attempts counted from 0", "retried", false, false}),
		a.changeCommand(change{job.ActionCancel, "cancel", "Cancel jobs; of running ones, ask their worker to", "cancelled", false, false}),
		a.changeCommand(change{job.ActionDelete, "delete", "Remove jobs with their history", "deleted", true, false}), a.statsCommand())
	cmd.Example = "  tenet jobs import deliveries.jsonl --store sqlite:jobs.db\n  tenet jobs list --state dead\n  tenet jobs stats -o json"
	return cmd
}

// filterFlags select jobs.
type filterFlags struct {
	queue, jobType, err string
	before, after       string
	states              []string
}

func AddFilterFlags(cmd *cobra.Command) *filterFlags {
	f := &filterFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.jobType, "type", "", "only jobs of this type")
	flags.StringVar(&f.err, "error", "", "only jobs whose last error contains this")
	flags.StringVar(&f.before, "created-before", "", "only jobs created before this time, or that long ago (24h)")
	flags.StringVar(&f.after, "created-after", "", "only jobs created after this time, or within that long (24h)")
	return f
}

func (f *filterFlags) Filter(states ...job.State) (job.Filter, error) {
	out := job.Filter{Queue: f.queue, Type: f.jobType, ErrorContains: f.err, States: states}
	for _, s := range f.states {
		if !slices.Contains(job.States(), job.State(s)) {
			return out, cli.Usagef("--state %q: write one of %v", s, job.States())
		}
		out.States = append(out.States, job.State(s))
	}
	var err error
	if out.CreatedBefore, err = cli.Moment("created-before", f.before); err != nil {
		return out, err
	}
	out.CreatedAfter, err = cli.Moment("created-after", f.after)
	return out, err
}

// Any reports whether the flags narrow the selection at all.
func (f *filterFlags) Any() bool {
	return f.queue != "" || f.jobType != "" || f.err != "" || f.before != "" || f.after != "" || len(f.states) > 0
}

const PageSize = 1000

// EachJob goes through the jobs that match, by ID, until f returns false.
func EachJob(ctx context.Context, s open.JobStore, filter job.Filter, after string, f func(*job.Record) bool) error {
	page := func(after string, limit int) ([]*job.Record, error) { return s.List(ctx, filter, after, limit) }
	for r, err := range paging.All(after, PageSize, page, func(r *job.Record) string { return r.ID }) {
		if err != nil {
			return err
		}
		if !f(r) {
			return nil
		}
	}
	return nil
}

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs in the order in which they were created", Args: cobra.NoArgs,
		Long: `List jobs in the order in which they were created, 100 unless --limit says otherwise. The ID of the last line,
given to --after, continues the list.`,
		Example: "  tenet jobs list --queue mail --state ready --state running\n  tenet jobs list --limit 0 -o jsonl > jobs.jsonl",
	}
	store, filter := open.JobsFlag(cmd), AddFilterFlags(cmd)
	cmd.Flags().StringSliceVar(&filter.states, "state", nil, "only jobs in this state; may be repeated")
	hidden := SecretFlags(cmd)
	after := cmd.Flags().String("after", "", "only jobs after this ID")
	limit := cmd.Flags().Int("limit", 100, "jobs at most; 0 is all")
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, _ []string) error {
		f, err := filter.Filter()
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a.App, *store, open.Options{}, func(s open.JobStore) error {
			return Print(cmd.Context(), a.App, s, f, hidden, *after, *limit, *form)
		})
	})
	return cmd
}

func Print(ctx context.Context, a *cli.App, s open.JobStore, f job.Filter, hidden *Secrets, after string, limit int, form string) error {
	list := []JSON{}
	if after != "" && uuid.Validate(after) != nil {
		return cli.Usagef("--after %q: write the ID of a job", after)
	}
	err := EachJob(ctx, s, f, after, func(r *job.Record) bool {
		list = append(list, NewJSON(hidden.hide(r)))
		return len(list) != limit
	})
	if err != nil {
		return err
	}
	return a.Print(form, list, func(w io.Writer) {
		cli.Table(w, "ID\tTYPE\tQUEUE\tSTATE\tATTEMPTS\tRUN AT\tLAST ERROR", list, func(j JSON) []any {
			return []any{j.ID, j.Type, j.Queue, stateOf(j), j.Attempts, cli.Clock(j.RunAt), cli.OneLine(j.LastError)}
		})
	})
}

// stateOf is a job's state in a list.
func stateOf(j JSON) string {
	if j.State == job.Running && !j.CancelRequestedAt.IsZero() {
		return "running (asked to cancel)"
	}
	return string(j.State)
}

// attemptsOf tells the attempts made and, where they differ, those that count against the maximum.
func attemptsOf(r *job.Record) string {
	text := strconv.Itoa(r.Attempts())
	if r.Failures != r.Attempts() {
		text += fmt.Sprintf(" (%d failed)", r.Failures)
	}
	return text
}

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect ID", Short: "Show a job with the history of its attempts", Args: cobra.ExactArgs(1),
		Example: "  tenet jobs inspect 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db",
	}
	store, hidden := open.JobsFlag(cmd), SecretFlags(cmd)
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, args []string) error {
		return open.WithJobs(cmd.Context(), a.App, *store, open.Options{}, func(s open.JobStore) error {
			r, history, err := s.Get(cmd.Context(), args[0])
			if err != nil {
				return notFound(args[0], err)
			}
			r = hidden.hide(r)
			return a.Print(*form, NewJSON(r).WithHistory(history), func(w io.Writer) { Write(a.App, w, r, history) })
		})
	})
	return cmd
}

func notFound(id string, err error) error {
	if errors.Is(err, job.ErrNotFound) {
		return cli.Fail(cli.ExitNotFound, fmt.Errorf("job %s: not found", id))
	}
	return err
}

func Write(a *cli.App, w io.Writer, r *job.Record, history []job.Attempt) {
	cli.Fprintf(w, "%s  %s in %s: %s", a.Paint(a.Stdout, cli.Bold, r.ID), r.Type, r.Queue, paintState(a, r.State))
	if r.Reason != "" {
		cli.Fprintf(w, ", %s", r.Reason)
	}
	cli.Fprintln(w)
	line := func(name, text string) {
		if text != "" && text != "-" {
			cli.Fprintf(w, "  %-17s%s\n", name, text)
		}
	}
	line("created", cli.Clock(r.CreatedAt))
	line("run at", cli.Clock(r.RunAt))
	line("finished", cli.Clock(r.FinishedAt))
	line("asked to cancel", cli.Clock(r.CancelRequestedAt))
	line("attempts", attemptsOf(r))
	line("unique key", r.UniqueKey)
	if r.State == job.Running {
		line("worker", r.Worker+", lease until "+cli.Clock(r.LeaseUntil))
	}
	line("payload", cli.OneLine(string(r.Payload)))
	line("output", cli.OneLine(string(r.Output)))
	line("last error", cli.WholeLine(r.LastError))
	writeHistory(w, history)
}

func writeHistory(w io.Writer, history []job.Attempt) {
	if len(history) == 0 {
		return
	}
	cli.Table(w, "  #\tSTARTED\tTOOK\tOUTCOME\tREASON\tTHEN WAITED\tERROR", history, func(h job.Attempt) []any {
		wait, outcome := "-", string(h.Outcome)
		if h.Delay > 0 {
			wait = cli.Brief(h.Delay)
		}
		if h.Outcome == job.AttemptRefused && h.Count > 1 {
			outcome += fmt.Sprintf(" %d×", h.Count)
		}
		return []any{fmt.Sprintf("  %d", h.Number), h.Started.UTC().Format("15:04:05.000"), cli.Brief(max(h.Finished.Sub(h.Started), 0)), outcome, h.Reason, wait, cli.WholeLine(h.Error)}
	})
}

func paintState(a *cli.App, s job.State) cli.Safe {
	color := map[job.State]string{job.Completed: cli.Green, job.Dead: cli.Red, job.Cancelled: cli.Yellow, job.Running: cli.Cyan}[s]
	if color == "" {
		return cli.Textf("%s", s)
	}
	return a.Paint(a.Stdout, color, s)
}

// change is a command that does something to jobs by their IDs.
type change struct {
	action            job.Action
	name, short, done string
	destructive       bool
	wait              bool // cancel only: until what runs has ended
}

// changeResult is what such a command prints.
type changeResult struct {
	Changed  []string `json:"changed"`
	Missing  []string `json:"missing"`
	Conflict []string `json:"conflict"` // in a state that the action cannot be applied to
	// Outcomes says what became of each job that was to be cancelled: cancelled, pending (its worker was asked), or what it
	// ended in first: completed, dead.
	Outcomes map[string]string `json:"outcomes,omitempty"`
}

func (a *app) changeCommand(c change) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.name + " ID…", Short: c.short, Args: cobra.MinimumNArgs(1),
		Long:    c.short + ".\n\nExits with 5 if a job was not found, and with 7 if one is in a state in which it cannot be " + c.done + ".",
		Example: "  tenet jobs " + c.name + " 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db",
	}
	store, audit := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "say what would be done, and do nothing")
	yes := new(bool)
	if c.destructive {
		yes = cmd.Flags().Bool("yes", false, "do not ask")
	}
	wait := new(bool)
	if c.action == job.ActionCancel {
		wait = cmd.Flags().Bool("wait", false, "wait until running jobs have ended, and say how")
		cmd.Long = c.short + `.

A job that waits is cancelled at once. A running one is asked to end through its worker, which cancels the handler's
context: within a second, or where the store cannot notify within a third of the lease. If the handler finishes all
the same, the job ends as it says, and the request stays on record (cancel_requested_at).

Each line says which of the two happened, or that the request is pending.

Exits with 5 if a job was not found, and with 7 if one had ended already.`
		cmd.Example += "\n  tenet jobs cancel 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --wait"
	}
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, ids []string) error {
		c.wait = *wait
		return open.WithJobs(cmd.Context(), a.App, *store, open.Options{}, func(s open.JobStore) error {
			if c.destructive && !*dryRun {
				if err := a.Confirm(cmd.Context(), *yes, "Remove %s with all history?", cli.Count(len(ids), "job")); err != nil {
					return err
				}
			}
			return a.change(cmd.Context(), s, c, ids, *audit, *dryRun, *form)
		})
	})
	return cmd
}

func (a *app) change(ctx context.Context, s open.JobStore, c change, ids []string, audit string, dryRun bool, form string) error {
	result := changeResult{Changed: []string{}, Missing: []string{}, Conflict: []string{}}
	var apt []*job.Record
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		r, _, err := s.Get(ctx, id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			result.Missing = append(result.Missing, id)
			continue
		case err != nil:
			return err
		case !c.action.Applies(r.State):
			result.Conflict = append(result.Conflict, id)
			continue
		}
		apt = append(apt, r)
	}
	if !dryRun && len(apt) > 0 {
		o, err := recording.OnRecords("jobs."+c.name, apt)
		if err != nil {
			return err
		}
		if err := recording.Put(ctx, a.App, audit, o); err != nil {
			return err
		}
	}
	for _, r := range apt {
		if !dryRun {
			changed, err := s.Change(ctx, c.action, job.Filter{IDs: []string{r.ID}}, 1)
			if err != nil {
				return err
			}
			if len(changed) == 0 { // its state has changed meanwhile
				result.Conflict = append(result.Conflict, r.ID)
				continue
			}
		}
		result.Changed = append(result.Changed, r.ID)
	}
	if c.action == job.ActionCancel && !dryRun {
		result.Outcomes = map[string]string{}
		for _, id := range result.Changed {
			outcome, err := cancelled(ctx, s, id, c.wait)
			if err != nil {
				return err
			}
			result.Outcomes[id] = outcome
		}
	}
	err := a.Print(form, result, func(w io.Writer) {
		verb := c.done
		if dryRun {
			verb = "would be " + verb
		}
		for _, id := range result.Changed {
			if outcome := result.Outcomes[id]; outcome != "" {
				cli.Fprintln(w, cancelText(id, outcome))
			} else {
				cli.Fprintln(w, id, verb)
			}
		}
	})
	for _, id := range result.Missing {
		err = errors.Join(err, fmt.Errorf("job %s: not found", id))
	}
	for _, id := range result.Conflict {
		err = errors.Join(err, fmt.Errorf("job %s: its state does not allow this; see: tenet jobs inspect %s", id, id))
	}
	switch {
	case len(result.Missing) > 0:
		return cli.Fail(cli.ExitNotFound, err)
	case len(result.Conflict) > 0:
		return cli.Fail(cli.ExitConflict, err)
	}
	return err
}

func (a *app) statsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats", Short: "Count jobs by queue and state", Args: cobra.NoArgs,
		Example: "  tenet jobs stats --store sqlite:jobs.db\n  tenet jobs stats -o json",
	}
	store := open.JobsFlag(cmd)
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, _ []string) error {
		return open.WithJobs(cmd.Context(), a.App, *store, open.Options{}, func(s open.JobStore) error {
			stats, err := s.Stats(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(*form, newStatsJSON(stats), func(w io.Writer) {
				cli.Table(w, "QUEUE\tSCHEDULED\tREADY\tRUNNING\tCOMPLETED\tDEAD\tCANCELLED\tOLDEST READY", slices.Sorted(maps.Keys(stats)), func(name string) []any {
					q := stats[name]
					return []any{name, q.Scheduled, q.Ready, q.Running, q.Completed, q.Dead, q.Cancelled, cli.Brief(q.OldestReady)}
				})
			})
		})
	})
	return cmd
}
