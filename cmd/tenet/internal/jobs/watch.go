package jobs

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/client"
)

func watchCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch [FILTER]", Short: "Print what workers do with jobs, as it happens", Args: cobra.ArbitraryArgs,
		Long: `Print a line for each transition that a worker makes, in whatever process: it starts a job, settles an attempt, or takes
back a job whose lease has expired. Jobs that are enqueued, and changes by operators, are not printed.

The filter is that of "tenet jobs list", by id, state (the new one), queue, type, error and meta. The command begins with what
happens from now on; workers that run already notice it within half a second. If the store or the server is away, the
command says so, goes on when it is back, and has missed nothing if that took less than a minute. A line says how many transitions
are missing where there were too many of them.

Ctrl-C ends the command, with exit code 0.`,
		Example: "  tenet jobs watch --store sqlite:jobs.db\n  tenet jobs watch state:dead queue:mail --json --server https://tenet.example.com",
	}
	store := open.JobsFlag(cmd)
	hidden := SecretFlags(cmd)
	lines := cmd.Flags().Bool("json", false, "print JSON lines, as -o jsonl does")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, terms []string, form string) error {
		f, err := job.ParseFilter(strings.Join(terms, " "), time.Now())
		if err == nil {
			err = job.CheckWatch(f)
		}
		if err != nil {
			return cli.AsUsage(err)
		}
		p := &eventPrinter{app: a, form: form, hidden: hidden}
		if *lines || slices.Contains([]string{cli.FormJSON, cli.FormYAML}, form) {
			p.form = cli.FormJSONL // an endless list never closes
		}
		err = open.WithJobs(cmd.Context(), a, open.Options{URL: *store}, func(s open.JobStore) error {
			return p.watch(cmd.Context(), s, job.WatchOptions{Filter: f, After: -1})
		})
		if cmd.Context().Err() != nil {
			return nil //nolint:nilerr // the person has ended the watch
		}
		return err
	})
}

// eventPrinter prints the events of jobs.
type eventPrinter struct {
	app    *cli.App
	form   string
	hidden *Secrets
}

func (p *eventPrinter) watch(ctx context.Context, s open.JobStore, o job.WatchOptions) error {
	o.Failing = func(err error) {
		if err != nil {
			p.app.Warn("no answer; asking again until there is one: %v", err)
		} else {
			p.app.Warn("there are answers again")
		}
	}
	switch s := s.(type) {
	case *client.Jobs:
		return s.Watch(ctx, o, p.print)
	case job.Relay:
		return job.Watch(ctx, s, o, p.print)
	default:
		return errors.New("this store does not pass on what workers do")
	}
}

func (p *eventPrinter) print(e job.Event) error {
	e.Meta = p.hidden.Map(e.Meta)
	return p.app.Print(p.form, e, func(w io.Writer) {
		if e.Lost > 0 {
			cli.Fprintf(w, "%s  %d transitions are missing here\n", cli.Clock(e.Time), e.Lost)
		}
		if e.ID == "" {
			return
		}
		cli.Fprintf(w, "%s  %s  %s in %s: %s -> %s", cli.Clock(e.Time), e.ID, e.Type, e.Queue, e.From, paintState(p.app, e.To))
		if e.To == job.Running {
			cli.Fprintf(w, ", attempt %d by %s", e.Attempts+1, e.Worker)
		} else if e.Reason != "" {
			cli.Fprintf(w, ", %s", e.Reason)
		}
		if e.Error != "" {
			cli.Fprintf(w, ": %s", cli.OneLine(e.Error))
		}
		cli.Fprintln(w)
	})
}
