package flows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// Command returns "tenet flows".
func Command(a *cli.App) *cobra.Command {
	return cli.Group("flows", "List, inspect, cancel and retry flows: jobs that need each other", `"tenet jobs import" stores flows.`,
		listCommand(a), inspectCommand(a),
		change{
			action: job.ActionCancel, done: "cancelled", short: "Cancel the jobs of a flow that have not finished",
			long: "Waiting, scheduled and ready jobs are cancelled at once. The workers of running jobs are asked to stop them.\n\nExits with 7 if the flow has already ended.",
		}.command(a),
		change{
			action: job.ActionRetry, done: "retried", short: "Run the dead and cancelled jobs of a flow again",
			long: "Their attempts are counted from 0 again. Those whose needs have not been met wait for them; completed jobs are left alone.",
		}.command(a))
}

// missing says which flow does not exist, with exit code 5.
func missing(id string, err error) error {
	if errors.Is(err, job.ErrNotFound) {
		return cli.Fail(cli.ExitNotFound, fmt.Errorf("flow %s: not found; see: tenet flows list", id))
	}
	return err
}

func listCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List flows, newest first", Args: cobra.NoArgs,
		Example: "  tenet flows list --store sqlite:jobs.db",
	}
	url := open.JobsFlag(cmd)
	limit := cmd.Flags().Int("limit", 100, "maximum number of flows; 0 for all")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		if *limit < 0 {
			return cli.Usagef("--limit %d: write 0 or more", *limit)
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *url}, func(s open.JobStore) error {
			list, err := list(cmd.Context(), s, *limit)
			if err != nil {
				return err
			}
			return a.Print(form, list, cli.AsTable("FLOW\tSTATE\tJOBS\tOPEN\tCOMPLETED\tDEAD\tCANCELLED\tCREATED", list, func(f api.Flow) []any {
				return []any{cli.OneLine(f.ID), f.State, f.Jobs, f.Open, f.Completed, f.Dead, f.Cancelled, cli.Clock(f.CreatedAt)}
			}))
		})
	})
}

// list returns the newest flows, all of them for a limit of 0.
func list(ctx context.Context, s open.JobStore, limit int) ([]api.Flow, error) {
	flows := []api.Flow{}
	page := func(below int64, most int) ([]job.FlowInfo, error) {
		return s.Flows(ctx, job.FlowQuery{Below: below, Limit: most})
	}
	for f, err := range paging.All(0, min(cmp.Or(limit, api.MaxBatch), api.MaxBatch), page, func(f job.FlowInfo) int64 { return f.Cursor }) {
		if err != nil {
			return nil, err
		}
		if flows = append(flows, api.NewFlowInfo(f)); len(flows) == limit {
			break
		}
	}
	return flows, nil
}

// flowJSON is the output of inspect.
type flowJSON struct {
	api.FlowStatus
	Nodes []nodeJSON `json:"nodes"`
}

// nodeJSON is a job of a flow, with the names of its needs.
type nodeJSON struct {
	Node      string        `json:"node"`
	JobID     string        `json:"id"`
	Type      string        `json:"type"`
	State     job.State     `json:"state"`
	Layer     int           `json:"layer"`
	OnFailure job.OnFailure `json:"on_failure"`
	Unmet     int           `json:"unmet"`
	Needs     []string      `json:"needs"`
}

func inspectCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect FLOW", Short: "Show a flow with its jobs", Args: cobra.ExactArgs(1),
		Long:    "Show a flow: how many of its jobs are in each state, and its jobs in the order in which they were stored.\n\nExits with 5 if the flow does not exist.",
		Example: "  tenet flows inspect nightly-2026-03-02 --store sqlite:jobs.db",
	}
	url := open.JobsFlag(cmd)
	limit := cmd.Flags().Int("limit", 1000, "maximum number of jobs to show; 0 for all")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if *limit < 0 {
			return cli.Usagef("--limit %d: write 0 or more", *limit)
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *url}, func(s open.JobStore) error {
			f, err := inspect(cmd.Context(), s, args[0], *limit)
			if err != nil {
				return missing(args[0], err)
			}
			return a.Print(form, f, func(w io.Writer) { f.write(w) })
		})
	})
}

// inspect reads a flow and its first jobs, all of them for a limit of 0.
func inspect(ctx context.Context, s open.JobStore, id string, limit int) (f flowJSON, err error) {
	status, err := s.Flow(ctx, id)
	if err != nil {
		return f, err
	}
	if f.FlowStatus = api.NewFlowStatus(status); limit == 0 {
		limit = job.MaxFlowJobs
	}
	nodes, err := s.FlowNodes(ctx, job.NodeQuery{Flow: id, Limit: job.MaxFlowJobs})
	if err != nil {
		return f, err
	}
	names := make(map[int32]string, len(nodes)) // a need may stand behind the job that needs it
	for _, n := range nodes {
		names[int32(n.Position)] = n.Node
	}
	f.Nodes = make([]nodeJSON, 0, min(limit, len(nodes)))
	for _, n := range nodes[:min(limit, len(nodes))] {
		one := nodeJSON{Node: n.Node, JobID: n.JobID, Type: n.Type, State: n.State, Layer: n.Layer, OnFailure: n.OnFailure, Unmet: n.Unmet, Needs: []string{}}
		for _, at := range n.Needs {
			if name, kept := names[at]; kept {
				one.Needs = append(one.Needs, name)
			}
		}
		f.Nodes = append(f.Nodes, one)
	}
	return f, nil
}

func (f *flowJSON) write(w io.Writer) {
	cli.Fprintf(w, "flow %s  %s\n", cli.OneLine(f.ID), f.State)
	cli.Fprintf(w, "created %s  layers %d\n", cli.Clock(f.CreatedAt), f.Layers)
	cli.Fprintf(w, "jobs %d: waiting %d, scheduled %d, ready %d, running %d, completed %d, dead %d, cancelled %d\n\n",
		f.Jobs, f.Waiting, f.Scheduled, f.Ready, f.Running, f.Completed, f.Dead, f.Cancelled)
	const shown = 5
	cli.Table(w, "LAYER\tNODE\tSTATE\tJOB\tTYPE\tNEEDS", f.Nodes, func(n nodeJSON) []any {
		needs := strings.Join(n.Needs[:min(shown, len(n.Needs))], ", ")
		if len(n.Needs) > shown {
			needs += fmt.Sprintf(" and %d more", len(n.Needs)-shown)
		}
		return []any{n.Layer, cli.OneLine(n.Node), n.State, n.JobID, cli.OneLine(n.Type), cli.OneLine(needs)}
	})
	if more := f.Jobs - len(f.Nodes); more > 0 {
		cli.Fprintf(w, "and %s; --limit 0 shows all\n", cli.Count(more, "more job"))
	}
}

// changed is the output of cancel and retry.
type changed struct {
	Flow    string `json:"flow"`
	Changed int    `json:"changed"`
}

// change is a command that changes the jobs of a flow.
type change struct {
	action            job.Action
	done, short, long string
}

func (c change) command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: string(c.action) + " FLOW", Short: c.short, Args: cobra.ExactArgs(1),
		Long:    c.short + ".\n\n" + c.long + "\n\nExits with 5 if the flow does not exist.",
		Example: "  tenet flows " + string(c.action) + " nightly-2026-03-02 --store sqlite:jobs.db",
	}
	url, audit := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print how many jobs would be "+c.done+", without doing it")
	yes := new(bool)
	if c.action == job.ActionCancel {
		cmd.Example += " --yes"
		yes = cmd.Flags().Bool("yes", false, "do not ask")
	}
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *url}, func(s open.JobStore) error {
			status, err := s.Flow(cmd.Context(), args[0])
			if err != nil {
				return missing(args[0], err)
			}
			out := changed{Flow: args[0], Changed: status.Dead + status.Cancelled}
			if c.action == job.ActionCancel {
				if out.Changed = status.Open(); out.Changed == 0 {
					return cli.Fail(cli.ExitConflict, fmt.Errorf("the flow %s has already ended: it is %s", args[0], status.State()))
				}
			}
			verb := "would be " + c.done
			if !*dryRun {
				if verb = c.done; c.action == job.ActionCancel {
					if err := a.Confirm(cmd.Context(), *yes, "Cancel %s of the flow %s?", cli.Count(out.Changed, "job"), args[0]); err != nil {
						return err
					}
				}
				if out.Changed, err = c.apply(cmd.Context(), s, args[0], func(page []*job.Record) error {
					o, err := operation.OnRecords("flows."+string(c.action), page)
					if err != nil {
						return err
					}
					return recording.Put(cmd.Context(), a, *audit, o)
				}); err != nil {
					return err
				}
			}
			return a.Print(form, out, cli.AsLine("%s %s", cli.Count(out.Changed, "job"), verb))
		})
	})
}

// apply changes the jobs of a flow in pages, each of which is recorded first. It counts the jobs that a cancellation reached through
// their needs, too.
func (c change) apply(ctx context.Context, s open.JobStore, id string, record func([]*job.Record) error) (n int, err error) {
	f := job.Filter{Terms: filter.Terms{{Field: job.FieldFlow, Values: filter.Exactly(id)}}}
	for _, state := range job.States() {
		if c.action.Applies(state) && (c.action == job.ActionCancel || state == job.Dead || state == job.Cancelled) {
			f.States = append(f.States, state)
		}
	}
	before, err := s.Flow(ctx, id)
	if err != nil {
		return 0, err
	}
	for after := ""; ; {
		page, err := s.List(ctx, f, after, api.MaxBatch)
		if err != nil {
			return n, err
		}
		if len(page) == 0 {
			break
		}
		if err := record(page); err != nil {
			return n, err
		}
		ids := job.Filter{States: f.States}
		for _, r := range page {
			ids.IDs = append(ids.IDs, r.ID)
			after = r.ID
		}
		done, err := s.Change(ctx, c.action, ids, len(ids.IDs))
		n += len(done)
		if err != nil {
			return n, err
		}
	}
	if now, err := s.Flow(ctx, id); err == nil && c.action == job.ActionCancel {
		n = max(n, now.Cancelled-before.Cancelled)
	}
	return n, nil
}
