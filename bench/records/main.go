package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"
)

// Case is one thing that is measured. It returns a figure in the case's unit.
type Case struct {
	Name, Unit string
	Run        func(ctx context.Context, env *environment) (float64, error)
}

// Bar is a goal.
type Bar struct {
	Measure, Goal string
	// Check tells what was measured and whether it is good enough.
	Check func(m map[string]float64) (how string, ok bool)
}

func main() {
	rounds := flag.Int("rounds", 3, "how often each case is measured; medians count")
	events := flag.Int("events", 1_000_000, "events of the log that is verified and replayed")
	markdown := flag.String("markdown", "", "write everything into this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *events, *markdown); err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, events int, markdown string) (err error) {
	env, err := newEnvironment(ctx, events)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.close()) }()
	all := map[string][]float64{}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
		for _, c := range Cases() {
			runtime.GC()
			v, err := c.Run(ctx, env)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			all[c.Name] = append(all[c.Name], v)
		}
	}
	medians := map[string]float64{}
	for name, list := range all {
		slices.Sort(list)
		medians[name] = list[len(list)/2]
	}
	var out bytes.Buffer
	report(&out, env, medians)
	if markdown == "" {
		_, err = os.Stdout.Write(out.Bytes())
		return err
	}
	head := "# Benchmarks of idempotency and audit\n\nWritten by `go run -C bench ./records " +
		fmt.Sprintf("-rounds %d -events %d -markdown ../docs/benchmarks-records.md`; do not edit by hand.\n\n", rounds, events)
	return os.WriteFile(markdown, append([]byte(head), out.Bytes()...), 0o644)
}

func report(w io.Writer, env *environment, m map[string]float64) {
	fmt.Fprintf(w, "- %s/%s, %s, %d processors\n- %s\n- Date: %s\n- The log that is verified and replayed has %d events, %d MB.\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.GOMAXPROCS(0), env.server, time.Now().Format(time.DateOnly), env.events, env.size>>20)
	fmt.Fprint(w, "| measure | bar | measured | |\n|---|---|---|---|\n")
	for _, b := range Bars() {
		how, ok := b.Check(m)
		mark := "pass"
		if !ok {
			mark = "FAIL"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.Measure, b.Goal, how, mark)
	}
	fmt.Fprint(w, "\n| case | median |\n|---|---|\n")
	for _, c := range Cases() {
		fmt.Fprintf(w, "| %s | %s |\n", c.Name, figure(m[c.Name], c.Unit))
	}
}

func figure(v float64, unit string) string {
	switch {
	case v >= 10_000:
		return fmt.Sprintf("%.0fk %s", v/1000, unit)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}
