package jobs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

// Command returns "tenet jobs".
func Command(a *cli.App) *cobra.Command {
	cmd := cli.Group("jobs", "Store, list, inspect and change jobs", "",
		EnqueueCommand(a), jobsImportCommand(a), listCommand(a), searchCommand(a), watchCommand(a), inspectCommand(a),
		changeCommand(a, change{
			name: "retry", short: "Run jobs again at once, with their attempts counted from 0",
			Bulk: Bulk{Action: job.ActionRetry, Noun: "job", Done: "retried", Question: "Run %s again?"},
		}),
		changeCommand(a, change{
			name: "cancel", short: "Cancel jobs, waiting or running",
			Bulk: Bulk{Action: job.ActionCancel, Noun: "job", Done: "cancelled", Question: "Cancel %s?"},
		}),
		changeCommand(a, change{
			name: "delete", short: "Remove jobs with their history",
			Bulk: Bulk{Action: job.ActionDelete, Noun: "job", Done: "deleted", Question: "Remove %s with all history?"},
		}), statsCommand(a))
	cmd.Example = "  tenet jobs import deliveries.jsonl --store sqlite:jobs.db\n  tenet jobs list --state dead\n  tenet jobs stats -o json"
	return cmd
}

// PageSize is the number of jobs read from the store at a time.
const PageSize = 1000

// All yields the jobs that match a filter, by ID, and come after an ID, if that is not empty. An error is yielded last.
func All(ctx context.Context, s open.JobStore, f job.Filter, after string) iter.Seq2[*job.Record, error] {
	page := func(after string, limit int) ([]*job.Record, error) { return s.List(ctx, f, after, limit) }
	return paging.All(after, PageSize, page, func(r *job.Record) string { return r.ID })
}

func listCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [FILTER]", Short: "List jobs in the order in which they were created", Args: cobra.ArbitraryArgs,
		Long: `List jobs in the order in which they were created, at most 100 unless --limit says otherwise. To continue the list, pass
the ID of its last line to --after.

` + grammar,
		Example: "  tenet jobs list state:ready,running queue:mail\n  tenet jobs list --limit 0 -o jsonl > jobs.jsonl",
	}
	store, filter := open.JobsFlag(cmd), AddFilterFlags(cmd)
	cmd.Flags().StringSliceVar(&filter.states, "state", nil, "only jobs in this state; may be repeated")
	hidden := SecretFlags(cmd)
	after := cmd.Flags().String("after", "", "only jobs after this ID")
	limit := cmd.Flags().Int("limit", 100, "maximum number of jobs; 0 is all")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, terms []string, form string) error {
		filter.add(terms)
		f, err := filter.Filter()
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			return Print(cmd.Context(), a, s, Listing{f, hidden, *after, *limit, form})
		})
	})
}

// Listing selects jobs and how they are printed.
type Listing struct {
	Filter job.Filter
	Hidden *Secrets
	After  string // only jobs after this ID
	Limit  int    // 0 is all
	Form   string
}

// Print prints jobs of a store.
func Print(ctx context.Context, a *cli.App, s open.JobStore, l Listing) error {
	list := []api.Job{}
	switch {
	case l.After != "" && uuid.Validate(l.After) != nil:
		return cli.Usagef("--after %q: write the ID of a job", l.After)
	case l.Limit < 0:
		return cli.Usagef("--limit %d: write a positive number, or 0 for all", l.Limit)
	case l.Form == cli.FormJSONL:
		return printLines(ctx, a, s, l)
	}
	for r, err := range All(ctx, s, l.Filter, l.After) {
		if err != nil {
			return err
		}
		if list = append(list, NewJSON(l.Hidden.hide(r), nil)); len(list) == l.Limit {
			break
		}
	}
	return a.Print(l.Form, list, func(w io.Writer) { writeTable(w, list) })
}

// printLines prints each job as it is read: millions of them do not fit into memory.
func printLines(ctx context.Context, a *cli.App, s open.JobStore, l Listing) (err error) {
	out := bufio.NewWriter(a.Stdout)
	defer func() { err = cmp.Or(err, out.Flush()) }()
	lines := cli.Lines(out)
	n := 0
	for r, err := range All(ctx, s, l.Filter, l.After) {
		if err == nil {
			err = lines.Encode(NewJSON(l.Hidden.hide(r), nil))
		}
		if n++; err != nil || n == l.Limit {
			return err
		}
	}
	return nil
}

// writeTable prints a line for each job.
func writeTable(w io.Writer, list []api.Job) {
	cli.Table(w, "ID\tTYPE\tQUEUE\tSTATE\tATTEMPTS\tRUN AT\tLAST ERROR", list, func(j api.Job) []any {
		return []any{j.ID, j.Type, j.Queue, cli.OneLine(stateOf(j)), j.Attempts, cli.Clock(j.RunAt), cli.OneLine(j.LastError)}
	})
}

// stateOf formats a job's state for a list.
func stateOf(j api.Job) string {
	if j.State == job.Running && !j.CancelRequestedAt.IsZero() {
		return "running (asked to cancel)"
	}
	if j.State == job.Waiting && j.WaitsFor != "" {
		return "waiting for " + j.WaitsFor
	}
	return string(j.State)
}

// attemptsOf formats the attempts made and, if they differ, those that count against the maximum.
func attemptsOf(r *job.Record) string {
	text := strconv.Itoa(r.Attempts())
	if r.Failures != r.Attempts() {
		text += fmt.Sprintf(" (%d failed)", r.Failures)
	}
	return text
}

func inspectCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect ID", Short: "Show a job with the history of its attempts", Args: cobra.ExactArgs(1),
		Example: "  tenet jobs inspect 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --store sqlite:jobs.db",
	}
	store, hidden, keys := open.JobsFlag(cmd), SecretFlags(cmd), open.PayloadKeysFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		codec, err := open.Codec(cmd.Context(), a, *keys, func() *policy.Set { return nil })
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			r, history, err := s.Get(cmd.Context(), args[0])
			if errors.Is(err, job.ErrNotFound) {
				return cli.Fail(cli.ExitNotFound, fmt.Errorf("job %s: not found", args[0]))
			}
			if err != nil {
				return err
			}
			unseal(a, codec, r)
			places, err := placesOf(cmd.Context(), s, r)
			if err != nil {
				return err
			}
			known := *hidden.hide(r)
			return a.Print(form, NewJSON(&known, append([]job.Attempt{}, history...)), func(w io.Writer) {
				known.WaitsFor += places
				Write(a, w, &known, history)
			})
		})
	})
}

// unseal decodes the payload and output of a job where the codec can. It warns of those that nobody can decode.
func unseal(a *cli.App, codec job.Codec, r *job.Record) {
	for text, open := range map[*[]byte]func(job.Codec, string, []byte) ([]byte, error){&r.Payload: job.Open, &r.Output: job.OpenOutput} {
		plain, err := open(codec, r.Type, *text)
		if err == nil {
			*text = plain
		} else if !errors.Is(err, job.ErrNoKey) {
			a.Warn("%v", err)
		}
	}
}

// shown returns a payload or output on one line, and what is known of one that is encoded.
func shown(text []byte) string {
	if seal, ok := job.ReadSeal(text); ok {
		return cli.OneLine(seal.String())
	}
	return cli.OneLine(string(text))
}

// Write prints a job and its attempts.
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
	if r.State == job.Waiting {
		line("waits for", cli.WholeLine(r.WaitsFor))
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
	line("payload", shown(r.Payload))
	line("output", shown(r.Output))
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

func statsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats", Short: "Count jobs by queue and state", Args: cobra.NoArgs,
		Example: "  tenet jobs stats --store sqlite:jobs.db\n  tenet jobs stats -o json",
	}
	store := open.JobsFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			stats, err := s.Stats(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(form, api.NewStats(stats), cli.AsTable("QUEUE\tWAITING\tSCHEDULED\tREADY\tRUNNING\tCOMPLETED\tDEAD\tCANCELLED\tOLDEST READY", slices.Sorted(maps.Keys(stats)), func(name string) []any {
				q := stats[name]
				return []any{name, q.Waiting, q.Scheduled, q.Ready, q.Running, q.Completed, q.Dead, q.Cancelled, cli.Brief(q.OldestReady)}
			}))
		})
	})
}
