package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// queueJSON is the output for a queue.
type queueJSON struct {
	Queue   string    `json:"queue"`
	Paused  bool      `json:"paused"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until,omitzero"`
	Actor   string    `json:"actor,omitempty"`
	Ready   int       `json:"ready"`
	Running int       `json:"running"`
	// Concurrency of each worker, where an operator has set it; otherwise it is that of the workers' documents and flags.
	Concurrency int       `json:"concurrency,omitempty"`
	Source      string    `json:"source"` // of the concurrency: operator or document
	SetBy       string    `json:"set_by,omitempty"`
	SetAt       time.Time `json:"set_at,omitzero"`
}

// Command returns "tenet queues".
func Command(a *cli.App) *cobra.Command {
	return cli.Group("queues", "List, pause, resume and set queues", "", queuesListCommand(a), pauseCommand(a), resumeCommand(a), setCommand(a))
}

func queuesListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List queues that hold jobs, are paused or have settings", Args: cobra.NoArgs,
		Example: "  tenet queues list --store sqlite:jobs.db",
	}
	store := open.JobsFlag(cmd)
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			list, err := queues(cmd.Context(), s)
			if err != nil {
				return err
			}
			return a.Print(form, list, cli.AsTable("QUEUE\tREADY\tRUNNING\tPAUSED\tUNTIL\tBY\tREASON\tCONCURRENCY\tSET BY", list, func(q queueJSON) []any {
				paused := "no"
				if q.Paused {
					paused = "yes"
				}
				size, by := "document", "-"
				if q.Source == api.SourceOperator {
					size, by = strconv.Itoa(q.Concurrency), q.SetBy+" "+cli.Clock(q.SetAt)
				}
				return []any{q.Queue, q.Ready, q.Running, paused, cli.Clock(q.Until), cli.OneLine(q.Actor), cli.OneLine(q.Reason), size, cli.OneLine(by)}
			}))
		})
	})
}

// queues returns all queues with their settings and counts.
func queues(ctx context.Context, s open.JobStore) ([]queueJSON, error) {
	stats, err := s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	settings, _, err := s.Settings(ctx, -1)
	if err != nil {
		return nil, err
	}
	found := map[string]queueJSON{}
	for name, q := range stats {
		found[name] = queueJSON{Queue: name, Ready: q.Ready, Running: q.Running}
	}
	for _, state := range states {
		q := found[state.Queue]
		q.Queue = state.Queue
		if state.Holds(time.Now()) {
			q.Paused, q.Reason, q.Until, q.Actor = true, state.Reason, state.Until, state.Actor
		}
		found[state.Queue] = q
	}
	for _, x := range settings {
		if n, ok := x.Concurrency(); ok {
			q := found[x.Name]
			q.Queue, q.Concurrency, q.Source, q.SetBy, q.SetAt = x.Name, n, api.SourceOperator, x.By, x.At
			found[x.Name] = q
		}
	}
	list := make([]queueJSON, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		q := found[name]
		q.Source = cmp.Or(q.Source, api.SourceDocument)
		list = append(list, q)
	}
	return list, nil
}

func pauseCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pause QUEUE --reason TEXT", Short: "Stop starting jobs of a queue", Args: cobra.ExactArgs(1),
		Long: `Stop starting jobs of a queue, on all workers, until it is resumed or --for has passed. Running jobs continue, and jobs
can still be enqueued. A queue that has never held a job is paused only with --create; otherwise the command exits
with 5, because the name may be mistyped.`,
		Example: "  tenet queues pause mail --reason 'provider is down' --for 30m --store sqlite:jobs.db",
	}
	reason := cmd.Flags().String("reason", "", "why the queue is paused, for other operators")
	create := cmd.Flags().Bool("create", false, "pause the queue even if it has never held a job")
	var length time.Duration
	cmd.Flags().Var(cli.Duration(&length), "for", "resume automatically after this long (default: never)")
	return queueCommand(a, cmd, create, func(name string) (job.QueueState, error) {
		if *reason == "" {
			return job.QueueState{}, cli.Usagef("--reason is missing; say why, for other operators")
		}
		q := job.QueueState{Queue: name, Paused: true, Reason: *reason}
		if length > 0 {
			q.Until = time.Now().Add(length)
		}
		return q, nil
	})
}

func resumeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume QUEUE", Short: "Start jobs of a paused queue again", Args: cobra.ExactArgs(1),
		Example: "  tenet queues resume mail --store sqlite:jobs.db",
	}
	return queueCommand(a, cmd, new(bool), func(name string) (job.QueueState, error) { return job.QueueState{Queue: name}, nil })
}

// knownQueue returns an error for a queue without jobs or settings in the store.
func knownQueue(ctx context.Context, s open.JobStore, name string) error {
	list, err := queues(ctx, s)
	if err != nil {
		return err
	}
	names := lists.Map(list, func(q queueJSON) string { return q.Queue })
	if slices.Contains(names, name) {
		return nil
	}
	return cli.Fail(cli.ExitNotFound, fmt.Errorf("queue %q: the store has no such queue%s", name, cli.DidYouMean(cli.Near(name, names), "")))
}

// queueCommand adds to cmd the flags and the run function that store a queue's state. Unless create is set, the queue must be known.
func queueCommand(a *cli.App, cmd *cobra.Command, create *bool, state func(name string) (job.QueueState, error)) *cobra.Command {
	store, log := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be done, without doing it")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if args[0] == "" {
			return cli.Usagef("the queue's name is empty")
		}
		q, err := state(args[0])
		if err != nil {
			return err
		}
		if err, bad := errors.AsType[*job.SettingError](q.Check()); bad {
			return cli.Usagef("%s: %s", err.Field, err.Problem)
		}
		q.Actor = recording.Actor()
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			if !*create {
				if err := knownQueue(cmd.Context(), s, q.Queue); err != nil {
					return err
				}
			}
			verb := "would be"
			if !*dryRun {
				verb = "is"
				if err := recording.Put(cmd.Context(), a, *log, operation.OnQueue(q)); err != nil {
					return err
				}
				if err := s.SetQueue(cmd.Context(), q); err != nil {
					return err
				}
			}
			return a.Print(form, q, func(w io.Writer) {
				switch {
				case !q.Paused:
					cli.Fprintf(w, "%s %s resumed\n", q.Queue, verb)
				case q.Until.IsZero():
					cli.Fprintf(w, "%s %s paused until it is resumed: %s\n", q.Queue, verb, q.Reason)
				default:
					cli.Fprintf(w, "%s %s paused until %s: %s\n", q.Queue, verb, cli.Clock(q.Until), q.Reason)
				}
			})
		})
	})
}
