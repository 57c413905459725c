package dlq

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
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
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) error {
		f, err := filter.Filter(job.Dead)
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			if !*grouped {
				return jobs.Print(cmd.Context(), a, s, jobs.Listing{Filter: f, Hidden: hidden, After: *after, Limit: *limit, Form: form})
			}
			groups := errorGroups{}
			for r, err := range jobs.All(cmd.Context(), s, f, *after) {
				if err != nil {
					return err
				}
				groups.add(r)
			}
			list := groups.list()
			return a.Print(form, list, cli.AsTable("COUNT\tFIRST SEEN\tLAST SEEN\tSAMPLE\tERROR", list, func(g errorGroup) []any {
				return []any{g.Count, cli.Clock(g.FirstSeen), cli.Clock(g.LastSeen), g.SampleID, cli.OneLine(g.Fingerprint)}
			}))
		})
	})
}

func purgeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge", Short: "Remove dead jobs with their history", Args: cobra.NoArgs,
		Long:    "Remove dead jobs with their history: those that the filters select, or else all. This cannot be undone.",
		Example: "  tenet dlq purge --created-before 720h --dry-run\n  tenet dlq purge --type http --error 'status 410' --yes",
	}
	b := jobs.Bulk{Action: job.ActionDelete, Operation: "dlq.purge", From: job.Dead,
		Noun: "dead job", Done: "removed", Counted: "purged", Question: "Remove %s with all history?"}
	store, filter, audit := open.JobsFlag(cmd), jobs.AddFilterFlags(cmd), recording.OperatorFlag(cmd)
	cmd.Flags().BoolVar(&b.DryRun, "dry-run", false, "count the jobs without removing them")
	cmd.Flags().BoolVar(&b.Yes, "yes", false, "do not ask")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, _ []string, form string) (err error) {
		if b.Filter, err = filter.Filter(job.Dead); err != nil {
			return err
		}
		b.Audit, b.Form = *audit, form
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error { return b.Run(cmd.Context(), a, s) })
	})
}
