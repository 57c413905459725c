package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/bench/outage"
)

// writeGrid writes the outage grid and its checks, which cover all cells; load selects the shown rows, and 0 shows all.
func writeGrid(w io.Writer, g outage.Grid, load int) {
	fmt.Fprintf(w, `Calls arrive for %s of virtual time; an attempt takes %s and fails at the given rate; a call makes up to %d attempts.
Every budget meets the same arrivals and failures. A field is attempts per call and the share of calls that succeed. Tenet:
retry ratio of %g + burst of %d. failsafe-go: its default, 20 %% of what is in flight, at least 3. avast v5: its throttle's
defaults; without the throttle it has no budget. Finagle: 10 s, 10 retries per second, 20 %%. gRPC: 10 tokens, ratio 0.1.
The budgets of Tenet, failsafe-go and avast are the libraries' own; the other two are rebuilt from their published
arithmetic.

`, outage.Duration, outage.Latency, outage.MaxAttempts, outage.Ratio, outage.Burst)
	t := bars.Table{Head: append([]string{"backoff", "failing", "calls/s"}, g.Budgets...)}
	for _, row := range g.Rows {
		if load != 0 && row.Cell.Load != load {
			continue
		}
		cells := []string{row.Cell.Backoff.String(), fmt.Sprintf("%g %%", 100*row.Cell.Failure), strconv.Itoa(row.Cell.Load)}
		for _, name := range g.Budgets {
			o := row.Outcomes[name]
			cells = append(cells, fmt.Sprintf("%.2f  %5.1f %%", o.PerCall(), 100*o.Success()))
		}
		t.Add(cells...)
	}
	t.Write(w)
	writeGridBars(w, g)
}

// writeGridBars writes the two bars of the grid, each over all of its cells.
func writeGridBars(w io.Writer, g outage.Grid) {
	inBound, keepsUp, compared := 0, 0, 0
	excess, share := 0.0, 1.0
	broken := map[string]int{}
	for _, row := range g.Rows {
		if row.InBound() {
			inBound++
		}
		excess = max(excess, row.Outcomes[outage.Tenet].Excess)
		for _, name := range g.Budgets {
			if row.Outcomes[name].Excess > outage.Burst {
				broken[name]++
			}
		}
		if !row.Comparable() {
			continue
		}
		compared++
		if row.KeepsUp() {
			keepsUp++
		}
		share = min(share, row.Outcomes[outage.Tenet].Success()/row.Outcomes[outage.Failsafe].Success())
	}
	t := bars.Table{Head: []string{"outage grid", "bar", "measured", ""}}
	t.Add("Tenet's extra attempts, at any time", fmt.Sprintf("≤ %g · calls + %d", outage.Ratio, outage.Burst),
		fmt.Sprintf("%d of %d cells; at most %g · calls + %.1f", inBound, len(g.Rows), outage.Ratio, excess), bars.Mark(inBound == len(g.Rows)))
	t.Add("Tenet's success at 1 to 10 % failures", "≥ 0.95 × failsafe-go's",
		fmt.Sprintf("%d of %d cells; at least %.3f ×", keepsUp, compared, share), bars.Mark(keepsUp == compared))
	t.Write(w)
	fmt.Fprint(w, "Cells in which others exceed that bound:")
	separator := " "
	for _, name := range g.Budgets {
		if name != outage.Tenet {
			fmt.Fprintf(w, "%s%s %d", separator, name, broken[name])
			separator = ", "
		}
	}
	fmt.Fprint(w, ".\n")
}
