package main

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

	deliveries "github.com/tenetdev/tenet/examples/demo"
	"github.com/tenetdev/tenet/internal/demo"
	"github.com/tenetdev/tenet/policyfile"
)

type demoFlags struct {
	seed           uint64
	n, concurrency int
	policy         string
	printPolicy    bool
}

const maxConcurrency = 1000

func (a *app) demoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{
		Use: "demo", Short: "Deliver a thousand webhooks to an endpoint that misbehaves", Args: cobra.NoArgs,
		Long: `Deliver a thousand webhooks to an endpoint on this machine that fails, throttles, hangs, is slow and resets
connections on a seeded schedule, and report what happened and why. Nothing leaves the machine.

Retries, hedges and breakers follow a built-in policy document, or another one (--policy, with the keys
hooks.QUEUE). The same seed means the same faults and the same waits; what deliveries share (budget, breakers)
also depends on their order. Exits with 1 if a delivery is unaccounted for, or if the endpoint counted more
requests than the document's retry ratio allows.`,
		Example: `  tenet demo
  tenet demo --seed 7 -n 200 -o json
  tenet demo --print-policy > mine.yaml && tenet demo --policy mine.yaml`,
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the endpoint's faults")
	flags.IntVarP(&f.n, "count", "n", 1000, "number of deliveries")
	flags.IntVar(&f.concurrency, "concurrency", 16, "deliveries at a time")
	flags.StringVar(&f.policy, "policy", "", "policy document to use instead of the built-in one; - is stdin")
	flags.BoolVar(&f.printPolicy, "print-policy", false, "print the built-in policy document and deliver nothing")
	form := outputFlag(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		if f.printPolicy {
			_, err := io.WriteString(a.stdout, demo.Policy())
			return err
		}
		return a.demo(cmd.Context(), f, *form)
	})
	return cmd
}

func (a *app) demo(ctx context.Context, f *demoFlags, form string) error {
	all, err := demo.ParseDeliveries(deliveries.Deliveries())
	if err != nil {
		return err
	}
	switch {
	case f.n < 1 || f.n > len(all):
		return usage("-n: %d is not between 1 and %d", f.n, len(all))
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return usage("--concurrency: %d is not between 1 and %d", f.concurrency, maxConcurrency)
	}
	document, err := a.demoDocument(ctx, f.policy)
	if err != nil {
		return err
	}
	o := demo.Options{Seed: f.seed, Deliveries: all[:f.n], Concurrency: f.concurrency, Set: document.Set}
	clear := func() {}
	if isTerminal(a.stderr) {
		o.Progress, clear = a.progress()
	}
	report, err := demo.Run(ctx, o)
	clear()
	if err != nil {
		return err
	}
	if err := a.print(form, report, func(w io.Writer) { a.writeReport(w, &report) }); err != nil {
		return err
	}
	if !report.Good() {
		return errors.New("the demo did not keep its promises: see unexplained deliveries and the amplification bound")
	}
	return nil
}

func (a *app) demoDocument(ctx context.Context, path string) (*policyfile.Document, error) {
	if path != "" {
		return a.load(ctx, path)
	}
	return policyfile.Parse("demo.yaml", []byte(demo.Policy()), policyfile.Options{})
}

// progress returns a function that draws a bar, and one that takes it away.
func (a *app) progress() (draw func(done, total int), clear func()) {
	const width, interval = 40, 50 * time.Millisecond
	var drawn time.Time
	draw = func(done, total int) {
		if now := time.Now(); done == total || now.Sub(drawn) >= interval {
			drawn = now
			full := width * done / total
			fmt.Fprintf(a.stderr, "\r%s%s %d of %d", a.paint(a.stderr, cyan, strings.Repeat("█", full)), strings.Repeat("░", width-full), done, total)
		}
	}
	return draw, func() { fmt.Fprint(a.stderr, "\r\x1b[K") }
}

// writeReport writes the report for people.
func (a *app) writeReport(w io.Writer, r *demo.Report) {
	head := fmt.Sprintf("%d of %d deliveries arrived in %s", r.Delivered, r.Deliveries, inSeconds(r.Elapsed))
	fmt.Fprintf(w, "%s  %s\n\n", a.paint(a.stdout, bold, head), a.paint(a.stdout, faint, fmt.Sprintf("seed %d, %d at a time", r.Seed, r.Concurrency)))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-14s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("failed", "%d  %s", r.Failed, tally(r.FailedByReason))
	line("attempts", "%d: %s, %s (%d won), %d refused by budget or breaker", r.Attempts, countOf(r.Retries, "retry", "retries"), count(r.Hedges, "hedge"), r.HedgeWins, r.Denied)
	line("endpoint", "%s, %d of them repeats that it recognised", count(r.Requests, "request"), r.Duplicates)
	line("faults", "%s", tally(r.Faults))
	if b := r.Bound; b != nil {
		verdict := a.paint(a.stdout, green, "kept")
		if !b.Kept {
			verdict = a.paint(a.stdout, red, "BROKEN")
		}
		line("amplification", "%.3f requests per delivery; bound %.3f = 1 + %g + %g/%d: %s", r.Amplification, b.Max, b.Ratio, b.Burst, r.Deliveries, verdict)
	} else {
		line("amplification", "%.3f requests per delivery; the policies promise no bound", r.Amplification)
	}
	l := r.Latency
	line("latency", "p50 %s, p95 %s, p99 %s, max %s", inSeconds(l.P50), inSeconds(l.P95), inSeconds(l.P99), inSeconds(l.Max))
	line("decisions", "%s", r.Digest)
	for _, id := range r.Unexplained {
		line(a.paint(a.stdout, red, "unexplained"), "%s", id)
	}
	for _, t := range r.Timelines {
		fmt.Fprintf(w, "\n%s\n%s", a.paint(a.stdout, bold, t.Why), t.Timeline)
	}
}

func inSeconds(s float64) string { return brief(time.Duration(s * float64(time.Second))) }

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

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
