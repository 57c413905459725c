package queues

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// settingJSON is a value with its origin.
type settingJSON struct {
	Queue       string `json:"queue"`
	Concurrency int    `json:"concurrency,omitempty"`
	Source      string `json:"source"` // operator or document
}

func setCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set QUEUE concurrency=N", Short: "Change the settings of a queue while workers run", Args: cobra.MinimumNArgs(2),
		Long: `Change how many jobs of a queue each worker runs at once. Workers follow within a second; those without --queue also begin
to serve the queue. The setting goes before the workers' documents and flags, until concurrency=document brings these back.
Running jobs continue if the number becomes smaller. To stop a queue, pause it.

"tenet queues list" shows where each value comes from.`,
		Example: "  tenet queues set mail concurrency=5 --store sqlite:jobs.db\n  tenet queues set mail concurrency=document",
	}
	store, log := open.JobsFlag(cmd), recording.OperatorFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be done, without doing it")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		x, err := parseSetting(args[0], args[1:])
		if err != nil {
			return err
		}
		return open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			verb := "would be set"
			if !*dryRun {
				verb = "is set"
				if err := recording.Set(cmd.Context(), a, s, recording.Change{Setting: x, Log: *log}); err != nil {
					return err
				}
			}
			n, set := x.Concurrency()
			out := settingJSON{Queue: x.Name, Concurrency: n, Source: api.SourceDocument}
			if set {
				out.Source = api.SourceOperator
			}
			return a.Print(form, out, func(w io.Writer) {
				if set {
					cli.Fprintf(w, "the concurrency of %s %s to %d\n", x.Name, verb, n)
				} else {
					cli.Fprintf(w, "the concurrency of %s %s to that of the workers' documents and flags\n", x.Name, verb)
				}
			})
		})
	})
}

func parseSetting(queue string, terms []string) (x job.Setting, err error) {
	for _, term := range terms {
		name, text, ok := strings.Cut(term, "=")
		switch {
		case !ok || name != "concurrency":
			return x, cli.Usagef("%q: write concurrency=N, or concurrency=document for the workers' own", term)
		case x.Kind != "":
			return x, cli.Usagef("concurrency is given twice")
		case text == "document":
			x = job.Setting{Kind: job.SettingConcurrency, Name: queue}
			err = x.Check()
		default:
			n, failed := strconv.Atoi(text)
			if failed != nil {
				return x, cli.Usagef("concurrency: %q: write a number from 1 to 100000, or document for the workers' own", text)
			}
			x, err = job.ConcurrencySetting(queue, n)
		}
		if err != nil {
			return x, cli.AsUsage(err)
		}
	}
	return x, nil
}
