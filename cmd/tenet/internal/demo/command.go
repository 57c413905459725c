package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/policyfile"
)

type demoFlags struct {
	seed           uint64
	n, concurrency int
	policy, store  string
	printPolicy    bool
	calls          bool
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

With --calls there is no store: this process makes the deliveries as calls, with hedging. The same seed then gives
the same faults and the same waits.

--policy replaces the built-in document. It must have policies for the job type http, or with --calls for the keys
hooks.QUEUE.`,
		Example: `  tenet demo
  tenet demo --seed 7 -n 200 -o json
  tenet demo --store sqlite:demo.db && tenet dlq list --group --store sqlite:demo.db
  tenet demo --print-policy > mine.yaml && tenet demo --policy mine.yaml
  tenet demo --calls`,
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the endpoint's faults")
	flags.IntVarP(&f.n, "count", "n", 1000, "number of deliveries")
	flags.IntVar(&f.concurrency, "concurrency", 0, "concurrent deliveries: in all with --calls (default 16), otherwise for each worker and queue (default 3)")
	flags.StringVar(&f.policy, "policy", "", "policy document to use instead of the built-in one; - is stdin")
	flags.StringVar(&f.store, "store", "", "new store to use and keep: "+open.UseJobs.Forms())
	flags.BoolVar(&f.printPolicy, "print-policy", false, "print the built-in policy document and exit")
	flags.BoolVar(&f.calls, "calls", false, "make the deliveries as calls of this process, without a store")
	cli.ExplicitFlags(cmd, "store", "policy")
	f.form = cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, _ []string) error {
		if f.printPolicy {
			text := JobsPolicy()
			if f.calls {
				text = Policy()
			}
			_, err := io.WriteString(a.Stdout, text)
			return err
		}
		all, err := Deliveries()
		if err != nil {
			return err
		}
		set := cmd.Flags().Changed("concurrency")
		switch {
		case f.n < 1 || f.n > len(all):
			return cli.Usagef("-n: %d is not between 1 and %d", f.n, len(all))
		case set && (f.concurrency < 1 || f.concurrency > cli.MaxConcurrency):
			return cli.Usagef("--concurrency: %d is not between 1 and %d", f.concurrency, cli.MaxConcurrency)
		}
		f.deliveries = all[:f.n]
		if f.calls {
			return demoCalls(cmd.Context(), a, f)
		}
		return demoJobs(cmd.Context(), a, f)
	})
	return cmd
}

func demoCalls(ctx context.Context, a *cli.App, f *demoFlags) error {
	document, err := demoDocument(ctx, a, f.policy, Policy())
	if err != nil {
		return err
	}
	if f.concurrency == 0 {
		f.concurrency = 16
	}
	o := Options{Seed: f.seed, Deliveries: f.deliveries, Concurrency: f.concurrency, Set: document.Set}
	var clear func()
	o.Progress, clear = countDone(a)
	report, err := Run(ctx, o)
	clear()
	if err != nil {
		return err
	}
	if err := a.Print(*f.form, report, func(w io.Writer) { writeReport(a, w, &report) }); err != nil {
		return err
	}
	if !report.Good() {
		return errors.New("the demo failed: see unexplained deliveries and the amplification bound")
	}
	return nil
}

// demoDocument returns the document at path, or else the built-in one.
func demoDocument(ctx context.Context, a *cli.App, path, builtin string) (*policyfile.Document, error) {
	if path != "" {
		return a.Load(ctx, path)
	}
	return policyfile.Parse("demo.yaml", []byte(builtin), policyfile.Options{})
}

// countDone returns a function that draws a progress bar on a terminal, nil elsewhere, and one that removes it.
func countDone(a *cli.App) (draw func(done, total int), clear func()) {
	if !cli.IsTerminal(a.Stderr) {
		return nil, func() {}
	}
	bar, clear := a.Bar()
	return func(done, total int) { bar(int64(done), int64(total), fmt.Sprintf("%d of %d", done, total)) }, clear
}

// writeReport writes the report for people.
func writeReport(a *cli.App, w io.Writer, r *Report) {
	head := fmt.Sprintf("%d of %d deliveries arrived in %s", r.Delivered, r.Deliveries, inSeconds(r.Elapsed))
	cli.Fprintf(w, "%s  %s\n\n", a.Paint(a.Stdout, cli.Bold, head), a.Paint(a.Stdout, cli.Faint, fmt.Sprintf("seed %d, %d at a time", r.Seed, r.Concurrency)))
	line := func(name any, format string, args ...any) {
		cli.Fprintf(w, "  %-14s%s\n", name, cli.Textf(format, args...))
	}
	line("failed", "%d  %s", r.Failed, tally(r.FailedByReason))
	line("attempts", "%d: %s, %s (%d won), %d refused by budget or breaker", r.Attempts, cli.Plural(r.Retries, "retry", "retries"), cli.Count(r.Hedges, "hedge"), r.HedgeWins, r.Denied)
	line("endpoint", "%s, %d of them recognised as repeats", cli.Count(r.Requests, "request"), r.Duplicates)
	line("faults", "%s", tally(r.Faults))
	if b := r.Bound; b != nil {
		verdict := a.Paint(a.Stdout, cli.Green, "kept")
		if !b.Kept {
			verdict = a.Paint(a.Stdout, cli.Red, "BROKEN")
		}
		line("amplification", "%.3f requests per delivery; bound %.3f = 1 + %g + %g/%d: %s", r.Amplification, b.Max, b.Ratio, b.Burst, r.Deliveries, verdict)
	} else {
		line("amplification", "%.3f requests per delivery; the policies set no bound", r.Amplification)
	}
	l := r.Latency
	line("latency", "p50 %s, p95 %s, p99 %s, max %s", inSeconds(l.P50), inSeconds(l.P95), inSeconds(l.P99), inSeconds(l.Max))
	line("decisions", "%s", r.Digest)
	for _, id := range r.Unexplained {
		line(a.Paint(a.Stdout, cli.Red, "unexplained"), "%s", id)
	}
	for _, t := range r.Timelines {
		cli.Fprintf(w, "\n%s\n%s", a.Paint(a.Stdout, cli.Bold, t.Why), cli.Safe(t.Timeline.String()))
	}
}

func inSeconds(s float64) string { return cli.Brief(time.Duration(s * float64(time.Second))) }

// tally lists counts, the highest first.
func tally[K ~string](counts map[K]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(x, y K) int {
		if counts[x] != counts[y] {
			return counts[y] - counts[x]
		}
		return strings.Compare(string(x), string(y))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(parts, ", ")
}
