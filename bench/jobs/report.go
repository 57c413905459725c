package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

const header = `# Benchmarks of jobs

Written by ` + "`%s`" + `; do not edit by hand. Run it again to bring it up to date.

Numbers are medians of %d interleaved rounds, each case on an empty database of its own; latency, claim cost and the
long-open transaction are measured in the first round only. They tell how the systems compare on one machine that also
runs the database server, not what they reach on another. ` + "`bench/jobs`" + ` says how each system is set up.

- Machine: %s
- Load average when the run began: %s. Whatever else ran, ran beside all cases alike.
- Date: %s
- PostgreSQL, the same server for all: %s
%s
goqite and River's SQLite driver are the newest releases that could be had here; there may be newer ones. That driver
needs another version of River than the PostgreSQL driver does, and is measured in a process of its own.

`

// writeDocument writes the measurements as docs/benchmarks-jobs.md.
func writeDocument(ctx context.Context, w io.Writer, o settings, env *environment, started string, rounds int, r Results) error {
	server, err := env.describe(ctx)
	if err != nil {
		return err
	}
	var modules strings.Builder
	measured := []string{
		"github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5", "maragu.dev/goqite", "github.com/jackc/pgx/v5", "modernc.org/sqlite",
	}
	for _, v := range bars.Modules(func(path string) bool { return slices.Contains(measured, path) }) {
		fmt.Fprintf(&modules, "- %s\n", v)
	}
	if len(env.versions) > 0 {
		fmt.Fprintf(&modules, "- River SQLite, in its own process: %s\n", strings.Join(env.versions, ", "))
	}
	fmt.Fprintf(w, header, o.command(), rounds, bars.Machine(), started, time.Now().UTC().Format(time.DateOnly), server, modules.String())
	fmt.Fprint(w, "## Bars\n\nWhat the project holds itself to.\n\n")
	writeBars(w, r)
	fmt.Fprint(w, "## Scenarios\n\n\"Relative\" is Tenet's rate over the other's. Processor time is per job: of the process, and of the database server beside it.\n\n")
	for _, s := range selected(o) {
		writeScenario(w, o, s, r[s.Name])
	}
	return nil
}

func writeScenario(w io.Writer, o settings, s Scenario, results map[string]Result) {
	fmt.Fprintf(w, "### %s\n\n%s\n\n", s.Name, s.Note)
	var t bars.Table
	switch {
	case s.Name == pgLong:
		t = bloatTable(s, results)
	case s.Task.Kind == measure.Latency:
		t = latencyTable(s, results)
	case s.Name == pgClaim || s.Name == liteClaim:
		t = claimTable(backlogs(o), s, results)
	case s.Name == pgBlocked || s.Name == liteBlocked:
		t = claimTable(blocked(o), s, results)
	default:
		t = rateTable(s, results)
	}
	t.Write(w)
}

func rateTable(s Scenario, results map[string]Result) bars.Table {
	t := bars.Table{Head: []string{"", "jobs/s", "relative", "CPU", "server's CPU", "jobs"}}
	mine := results[peerTenet].Rate
	for _, c := range s.Cases {
		r := results[c.Peer]
		busy := "-"
		if r.Server > 0 && strings.HasPrefix(s.Name, "PostgreSQL") {
			busy = short(r.Server)
		}
		t.Add(c.Peer, number(r.Rate), fmt.Sprintf("%.2f", mine/r.Rate), short(r.CPU), busy, number(float64(r.Jobs)))
	}
	return t
}

func latencyTable(s Scenario, results map[string]Result) bars.Table {
	t := bars.Table{Head: []string{"", "p50", "p99", "samples"}}
	for _, c := range s.Cases {
		r := results[c.Peer]
		t.Add(c.Peer, short(r.P50), short(r.P99), strconv.Itoa(r.Samples))
	}
	return t
}

func claimTable(sizes []int, s Scenario, results map[string]Result) bars.Table {
	t := bars.Table{Head: []string{""}}
	for _, backlog := range sizes {
		t.Head = append(t.Head, number(float64(backlog)))
	}
	t.Head = append(t.Head, "largest / smallest")
	for _, c := range s.Cases {
		claims := results[c.Peer].Claims
		row := []string{c.Peer}
		for _, d := range claims {
			row = append(row, short(d))
		}
		t.Add(append(row, fmt.Sprintf("%.2f", float64(claims[len(claims)-1])/float64(claims[0])))...)
	}
	return t
}

func bloatTable(s Scenario, results map[string]Result) bars.Table {
	t := bars.Table{Head: []string{"", "jobs", "jobs/s", "dead rows", "dead rows per job", "size", "bytes per job"}}
	for _, c := range s.Cases {
		r := results[c.Peer]
		jobs := float64(max(r.Jobs, 1))
		t.Add(c.Peer, number(jobs), number(r.Rate), number(float64(r.Dead)), fmt.Sprintf("%.1f", float64(r.Dead)/jobs),
			fmt.Sprintf("%.0f MiB", float64(r.Size)/(1<<20)), number(float64(r.Size)/jobs))
	}
	return t
}

// number groups digits: 1,234,567.
func number(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func perSecond(rate float64) string { return number(rate) + "/s" }

// short prints a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f µs", float64(d)/1e3)
}
