package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/job"
)

func (a *app) jobsCommand() *cobra.Command {
	cmd := group("jobs", "Store, list, inspect and change jobs", "", a.enqueueCommand(), a.jobsImportCommand(), a.listCommand(), a.inspectCommand(),
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

func addFilterFlags(cmd *cobra.Command) *filterFlags {
	f := &filterFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "only jobs of this queue")
	flags.StringVar(&f.jobType, "type", "", "only jobs of this type")
	flags.StringVar(&f.err, "error", "", "only jobs whose last error contains this")
	flags.StringVar(&f.before, "created-before", "", "only jobs created before this time, or that long ago (24h)")
	flags.StringVar(&f.after, "created-after", "", "only jobs created after this time, or within that long (24h)")
	return f
}

func (f *filterFlags) filter(states ...job.State) (job.Filter, error) {
	out := job.Filter{Queue: f.queue, Type: f.jobType, ErrorContains: f.err, States: states}
	for _, s := range f.states {
		if !slices.Contains(job.States(), job.State(s)) {
			return out, usage("--state %q: write one of %v", s, job.States())
		}
		out.States = append(out.States, job.State(s))
	}
	var err error
	if out.CreatedBefore, err = moment("created-before", f.before); err != nil {
		return out, err
	}
	out.CreatedAfter, err = moment("created-after", f.after)
	return out, err
}

// moment reads a time, or a duration back from now. Empty is zero.
func moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usage("--%s %q: write a time such as 2026-03-02T08:00:00Z, or a duration such as 24h", flag, text)
	}
	return t, nil
}

// any reports whether the flags narrow the selection at all.
func (f *filterFlags) any() bool {
	return f.queue != "" || f.jobType != "" || f.err != "" || f.before != "" || f.after != "" || len(f.states) > 0
}

const pageSize = 1000

// eachJob goes through the jobs that match, by ID, until f returns false.
func eachJob(ctx context.Context, s jobStore, filter job.Filter, after string, f func(*job.Record) bool) error {
	for {
		page, err := s.List(ctx, filter, after, pageSize)
		if err != nil {
			return err
		}
		for _, r := range page {
			if !f(r) {
				return nil
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs in the order in which they were created", Args: cobra.NoArgs,
		Long: `List jobs in the order in which they were created, 100 unless --limit says otherwise. The ID of the last line,
given to --after, continues the list.`,
		Example: "  tenet jobs list --queue mail --state ready --state running\n  tenet jobs list --limit 0 -o jsonl > jobs.jsonl",
	}
	store, filter := storeFlag(cmd), addFilterFlags(cmd)
	cmd.Flags().StringSliceVar(&filter.states, "state", nil, "only jobs in this state; may be repeated")
	hidden := secretFlags(cmd)
	after := cmd.Flags().String("after", "", "only jobs after this ID")
	limit := cmd.Flags().Int("limit", 100, "jobs at most; 0 is all")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		f, err := filter.filter()
		if err != nil {
			return err
		}
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			return a.printJobs(cmd.Context(), s, f, hidden, *after, *limit, *form)
		})
	})
	return cmd
}

func (a *app) printJobs(ctx context.Context, s jobStore, f job.Filter, hidden *secrets, after string, limit int, form string) error {
	list := []jobJSON{}
	if after != "" && uuid.Validate(after) != nil {
		return usage("--after %q: write the ID of a job", after)
	}
	err := eachJob(ctx, s, f, after, func(r *job.Record) bool {
		list = append(list, newJobJSON(hidden.hide(r)))
		return len(list) != limit
	})
	if err != nil {
		return err
	}
	return a.print(form, list, func(w io.Writer) {
		table(w, "ID\tTYPE\tQUEUE\tSTATE\tATTEMPTS\tRUN AT\tLAST ERROR", list, func(j jobJSON) []any {
			return []any{j.ID, j.Type, j.Queue, stateOf(j), j.Attempts, clock(j.RunAt), oneLine(j.LastError)}
		})
	})
}

// stateOf is a job's state in a list.
func stateOf(j jobJSON) string {
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

// table writes rows in columns below a heading. The last column is cut to what a line can show.
func table[T any](w io.Writer, heading string, rows []T, cells func(T) []any) {
	if len(rows) == 0 {
		fprintln(w, "none")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fprintln(t, safe(heading))
	for _, r := range rows {
		for i, cell := range cells(r) {
			if i > 0 {
				fprintf(t, "\t")
			}
			fprintf(t, "%v", cell)
		}
		fprintln(t)
	}
	_ = t.Flush() // it writes to a buffer
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// oneLine is the beginning of a text.
func oneLine(s string) string {
	const most = 80
	s = wholeLine(s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// wholeLine is a text with its lines joined.
func wholeLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect ID", Short: "Show a job with the history of its attempts", Args: cobra.ExactArgs(1),
		Example: "  tenet jobs inspect 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db",
	}
	store, hidden := storeFlag(cmd), secretFlags(cmd)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			r, history, err := s.Get(cmd.Context(), args[0])
			if err != nil {
				return notFound(args[0], err)
			}
			r = hidden.hide(r)
			return a.print(*form, newJobJSON(r).withHistory(history), func(w io.Writer) { a.writeJob(w, r, history) })
		})
	})
	return cmd
}

func notFound(id string, err error) error {
	if errors.Is(err, job.ErrNotFound) {
		return fail(exitNotFound, fmt.Errorf("job %s: not found", id))
	}
	return err
}

func (a *app) writeJob(w io.Writer, r *job.Record, history []job.Attempt) {
	fprintf(w, "%s  %s in %s: %s", a.paint(a.stdout, bold, r.ID), r.Type, r.Queue, a.paintState(r.State))
	if r.Reason != "" {
		fprintf(w, ", %s", r.Reason)
	}
	fprintln(w)
	line := func(name, text string) {
		if text != "" && text != "-" {
			fprintf(w, "  %-17s%s\n", name, text)
		}
	}
	line("created", clock(r.CreatedAt))
	line("run at", clock(r.RunAt))
	line("finished", clock(r.FinishedAt))
	line("asked to cancel", clock(r.CancelRequestedAt))
	line("attempts", attemptsOf(r))
	line("unique key", r.UniqueKey)
	if r.State == job.Running {
		line("worker", r.Worker+", lease until "+clock(r.LeaseUntil))
	}
	line("payload", oneLine(string(r.Payload)))
	line("output", oneLine(string(r.Output)))
	line("last error", wholeLine(r.LastError))
	writeHistory(w, history)
}

func writeHistory(w io.Writer, history []job.Attempt) {
	if len(history) == 0 {
		return
	}
	table(w, "  #\tSTARTED\tTOOK\tOUTCOME\tREASON\tTHEN WAITED\tERROR", history, func(h job.Attempt) []any {
		wait, outcome := "-", string(h.Outcome)
		if h.Delay > 0 {
			wait = brief(h.Delay)
		}
		if h.Outcome == job.AttemptRefused && h.Count > 1 {
			outcome += fmt.Sprintf(" %d×", h.Count)
		}
		return []any{fmt.Sprintf("  %d", h.Number), h.Started.UTC().Format("15:04:05.000"), brief(max(h.Finished.Sub(h.Started), 0)), outcome, h.Reason, wait, wholeLine(h.Error)}
	})
}

func (a *app) paintState(s job.State) safe {
	color := map[job.State]string{job.Completed: green, job.Dead: red, job.Cancelled: yellow, job.Running: cyan}[s]
	if color == "" {
		return textf("%s", s)
	}
	return a.paint(a.stdout, color, s)
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
	store, audit := storeFlag(cmd), operatorFlag(cmd)
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
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, ids []string) error {
		c.wait = *wait
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			if c.destructive && !*dryRun {
				if err := a.confirm(cmd.Context(), *yes, "Remove %s with all history?", count(len(ids), "job")); err != nil {
					return err
				}
			}
			return a.change(cmd.Context(), s, c, ids, *audit, *dryRun, *form)
		})
	})
	return cmd
}

func (a *app) change(ctx context.Context, s jobStore, c change, ids []string, audit string, dryRun bool, form string) error {
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
		o, err := onRecords("jobs."+c.name, apt)
		if err != nil {
			return err
		}
		if err := a.putOnRecord(ctx, audit, o); err != nil {
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
	err := a.print(form, result, func(w io.Writer) {
		verb := c.done
		if dryRun {
			verb = "would be " + verb
		}
		for _, id := range result.Changed {
			if outcome := result.Outcomes[id]; outcome != "" {
				fprintln(w, cancelText(id, outcome))
			} else {
				fprintln(w, id, verb)
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
		return fail(exitNotFound, err)
	case len(result.Conflict) > 0:
		return fail(exitConflict, err)
	}
	return err
}

func (a *app) statsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats", Short: "Count jobs by queue and state", Args: cobra.NoArgs,
		Example: "  tenet jobs stats --store sqlite:jobs.db\n  tenet jobs stats -o json",
	}
	store := storeFlag(cmd)
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd.Context(), *store, opening{}, func(s jobStore) error {
			stats, err := s.Stats(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(*form, newStatsJSON(stats), func(w io.Writer) {
				table(w, "QUEUE\tSCHEDULED\tREADY\tRUNNING\tCOMPLETED\tDEAD\tCANCELLED\tOLDEST READY", slices.Sorted(maps.Keys(stats)), func(name string) []any {
					q := stats[name]
					return []any{name, q.Scheduled, q.Ready, q.Running, q.Completed, q.Dead, q.Cancelled, brief(q.OldestReady)}
				})
			})
		})
	})
	return cmd
}
