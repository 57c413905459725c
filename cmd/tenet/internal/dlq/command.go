package dlq

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/operation"
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
			return a.Print(*form, list, cli.AsTable("COUNT\tFIRST SEEN\tLAST SEEN\tSAMPLE\tERROR", list, func(g errorGroup) []any {
				return []any{g.Count, cli.Clock(g.FirstSeen), cli.Clock(g.LastSeen), g.SampleID, cli.OneLine(g.Fingerprint)}
			}))
		})
	})
	return cmd
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
	ids, err := jobs.Selected(ctx, s, f.filter)
	if err != nil {
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
	gone, failed := jobs.Change(ctx, s, job.ActionDelete, job.Filter{IDs: ids, States: f.filter.States})
	err = a.Print(f.form, purgeResult{len(gone)}, func(w io.Writer) { cli.Fprintf(w, "%s removed\n", cli.Count(len(gone), "dead job")) })
	return errors.Join(failed, err)
}
