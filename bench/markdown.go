package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/bench/outage"
)

const header = `# Benchmarks

Written by ` + "`%s`" + `; do not edit by hand. Run it again to bring it up to date.

Numbers are medians of %d interleaved rounds of about %s each, all in one process, through testing.Benchmark. They tell how
the libraries compare on one machine, not what they cost on another. Where an operation takes a millisecond or more, none of
the differences on this page matters: choose by features. Peers are set up once, outside the measurement, in the cheapest
way that still does the scenario's work; ` + "`bench/peers.go`" + ` says how. All calls get a context that can be cancelled.

- Machine: %s
- Load average when the run began: %s
- Date: %s
%s
"Alone" is one goroutine; "in parallel" is one goroutine per processor, and its time is wall time per call over all of them.
With %d processors that do not hinder each other "in parallel / alone" is %.2f; above 1 they wait for each other. What is
heavy on memory stays above the ideal, because processors share caches and the garbage collector.
A counter shared by all callers, such as a token bucket or a limit, moves from one processor's cache to another's with each call;
where each processor has a core of its own, these moves take as long as the rest of a fast call.

`

// shownLoad is the load of the grid's rows in the document.
const shownLoad = 100

// writeDocument writes docs/benchmarks.md.
func writeDocument(w io.Writer, o settings, started string, r Results, grid outage.Grid) {
	var modules strings.Builder
	for _, v := range versions() {
		fmt.Fprintf(&modules, "- %s\n", v)
	}
	fmt.Fprintf(w, header, o.command(), o.rounds, o.each, bars.Machine(), started, time.Now().UTC().Format(time.DateOnly), modules.String(),
		processors(), 1/float64(processors()))
	fmt.Fprint(w, "## Bars\n\nWhat the project holds itself to.\n\n")
	writeBars(w, r)
	fmt.Fprint(w, "## Scenarios\n\n\"Relative\" is the time alone over Tenet's.\n\n")
	writeScenarios(w, r)
	fmt.Fprint(w, "## Outage grid\n\n")
	fmt.Fprintf(w, "Shown is the grid at %d calls per second; `go run . -grid` prints the other loads too. The bars are over all of it.\n\n", shownLoad)
	writeGrid(w, grid, shownLoad)
}
