package jobs

import (
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

func searchCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "search FILTER", Short: "Find jobs, newest first", Args: cobra.MinimumNArgs(1),
		Long: `Find jobs, newest first, at most 100 unless --limit says otherwise.

` + grammar + `

Fields of payloads and metadata that are indexed (see "tenet migrate index") are found at once. For others the command looks
at one job after the other, from the newest to older ones, for at most the time of --within, and then says how far it got:
pass that ID to --below to go on.`,
		Example: "  tenet jobs search payload.order.id:42\n  tenet jobs search 'state:dead error:\"connection refused\" before:2h' -o json",
	}
	store, filter := open.JobsFlag(cmd), AddFilterFlags(cmd)
	cmd.Flags().StringSliceVar(&filter.states, "state", nil, "only jobs in this state; may be repeated")
	hidden := SecretFlags(cmd)
	q := job.Search{Within: 2 * time.Second}
	cmd.Flags().StringVar(&q.Below, "below", "", "only jobs before this ID")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "maximum number of jobs")
	cmd.Flags().Var(cli.Duration(&q.Within), "within", "how long to search")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, terms []string, form string) (err error) {
		filter.add(terms)
		if q.Filter, err = filter.Filter(); err != nil {
			return err
		}
		if q.Below != "" && uuid.Validate(q.Below) != nil {
			return cli.Usagef("--below %q: write the ID of a job", q.Below)
		}
		if q.Limit < 1 || q.Within <= 0 {
			return cli.Usagef("--limit and --within must be above 0")
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			found, err := s.Search(cmd.Context(), q)
			if err != nil {
				return err
			}
			shown := lists.Map(found.Jobs, func(r *job.Record) api.Job { return NewJSON(hidden.hide(r), nil) })
			out := api.JobFound{Jobs: shown, Next: found.Next, Unindexed: found.Unindexed}
			tellHowFar(a, found, q.Limit)
			return a.Print(form, out, func(w io.Writer) { writeTable(w, out.Jobs) })
		})
	})
}

// tellHowFar says on stderr what the search has not looked at, and why.
func tellHowFar(a *cli.App, found job.Found, limit int) {
	switch {
	case found.Next == "":
		return
	case len(found.Jobs) == limit:
		a.Note("", "there may be more: add --below %s", found.Next)
		return
	}
	a.Note("", "time ran out: jobs before %s were not searched; to go on, add --below %[1]s", found.Next)
	if len(found.Unindexed) > 0 {
		fields := strings.Join(found.Unindexed, " ")
		a.Note("", "not indexed: %s; to find it at once: tenet migrate index %[1]s", fields)
	}
}
