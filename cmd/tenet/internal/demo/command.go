package demo

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/lists"
)

type demoFlags struct {
	seed           uint64
	n, concurrency int
	policy, store  string
	printPolicy    bool
	ui             bool
	listen         string
	form           *string
	deliveries     []Delivery
}

// Command returns "tenet demo".
func Command(a *cli.App) *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{
		Use: "demo", Short: "Deliver a thousand webhooks to a faulty endpoint, and kill a worker halfway", Args: cobra.NoArgs,
		Long: `Deliver a thousand webhooks to an endpoint on this machine that fails, throttles, hangs, is slow and resets
connections on a seeded schedule, and report what happened and why. No traffic leaves the machine.

The deliveries are imported as jobs into a new SQLite store, in a temporary folder unless --store names one. Two
workers, each in its own process, deliver them. Halfway one is killed (SIGKILL) and another one started. When
all jobs have finished, the store is compared with the endpoint's own ledger, and the workers' audit log, which is
kept in the same store, is verified and replayed. Exits with 1 if a delivery has neither arrived nor reached the
dead-letter queue for a reason, if the endpoint counted more requests than the document's retry ratio allows, or if
the log has a fault or a decision does not follow from the record.

With --ui a server shows the jobs at http://127.0.0.1:7070/ui/ while they run, and until Ctrl-C afterwards: the endpoint still
answers and a worker still runs, so that dead deliveries can be redriven.

--policy replaces the built-in document. It must have policies for the job type http.`,
		Example: `  tenet demo
  tenet demo --ui
  tenet demo --seed 7 -n 200 -o json
  tenet demo --store sqlite:demo.db && tenet dlq list --group --store sqlite:demo.db
  tenet demo --print-policy > mine.yaml && tenet demo --policy mine.yaml`,
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the endpoint's faults")
	flags.IntVarP(&f.n, "count", "n", 1000, "number of deliveries")
	flags.IntVar(&f.concurrency, "concurrency", 3, "concurrent deliveries of each worker and queue")
	flags.StringVar(&f.policy, "policy", "", "policy document to use instead of the built-in one; - is stdin")
	flags.StringVar(&f.store, "store", "", "new store to use and keep: "+open.UseJobs.Forms())
	flags.BoolVar(&f.printPolicy, "print-policy", false, "print the built-in policy document and exit")
	flags.BoolVar(&f.ui, "ui", false, "show it live in the web UI, and stay there until a signal")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "address of the web UI, as host:port; port 0 is any free one")
	cli.ExplicitFlags(cmd, "store", "policy")
	f.form = cli.OutputFlag(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, _ []string) error {
		if f.printPolicy {
			_, err := io.WriteString(a.Stdout, Policy())
			return err
		}
		all, err := Deliveries()
		if err != nil {
			return err
		}
		switch {
		case f.n < 1 || f.n > len(all):
			return cli.Usagef("-n: %d is not between 1 and %d", f.n, len(all))
		case f.concurrency < 1 || f.concurrency > cli.MaxConcurrency:
			return cli.Usagef("--concurrency: %d is not between 1 and %d", f.concurrency, cli.MaxConcurrency)
		}
		f.deliveries = all[:f.n]
		return deliver(cmd.Context(), a, f)
	})
}

// countDone returns a function that draws a progress bar on a terminal, nil elsewhere, and one that removes it.
func countDone(a *cli.App) (draw func(done, total int), clear func()) {
	if !cli.IsTerminal(a.Stderr) {
		return nil, func() {}
	}
	bar, clear := a.Bar()
	return func(done, total int) { bar(int64(done), int64(total), fmt.Sprintf("%d of %d", done, total)) }, clear
}

// tally lists counts, the highest first.
func tally[K ~string](counts map[K]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(x, y K) int {
		return cmp.Or(counts[y]-counts[x], cmp.Compare(x, y))
	})
	return strings.Join(lists.Map(names, func(name K) string { return fmt.Sprintf("%s %d", name, counts[name]) }), ", ")
}
