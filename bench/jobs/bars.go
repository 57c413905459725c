package main

import (
	"fmt"
	"io"
	"time"

	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/job"
)

// Bar is a goal: a measured number that must reach a limit.
type Bar struct {
	Path string
	Goal string
	// Measure returns whether the goal is reached and the derivation; ok is false if a case that it needs was not measured.
	Measure func(Results) (pass bool, how string, ok bool)
}

// times is the bar on a rate as a multiple of another peer's.
func times(scenario, peer string, least float64, other string) Bar {
	path := scenario
	if peer != peerTenet {
		path += " (" + peer + ")"
	}
	return Bar{Path: path, Goal: fmt.Sprintf("≥ %g × %s", least, other), Measure: func(r Results) (bool, string, bool) {
		mine, ok1 := r.of(scenario, peer)
		theirs, ok2 := r.of(scenario, other)
		ratio := mine.Rate / theirs.Rate
		return ratio >= least, fmt.Sprintf("%.2f × (%s / %s)", ratio, perSecond(mine.Rate), perSecond(theirs.Rate)), ok1 && ok2
	}}
}

// soonerThan is the bar on a quantile of Tenet's idle latency on PostgreSQL.
func soonerThan(peer, name string, of func(Result) time.Duration) Bar {
	path := pgLatency + ", " + name
	if peer != peerTenet {
		path += " (" + peer + ")"
	}
	return Bar{Path: path, Goal: "≤ " + peerRiver, Measure: func(r Results) (bool, string, bool) {
		mine, ok1 := r.of(pgLatency, peer)
		theirs, ok2 := r.of(pgLatency, peerRiver)
		a, b := of(mine), of(theirs)
		return a <= b, fmt.Sprintf("%.2f × (%s / %s)", float64(a)/float64(b), short(a), short(b)), ok1 && ok2
	}}
}

func p50(r Result) time.Duration { return r.P50 }
func p99(r Result) time.Duration { return r.P99 }

// flowStored is the bar on storing the largest flow.
func flowStored() Bar {
	const most = 5 * time.Second
	return Bar{Path: pgBulk + " (" + peerTenetFanOut + ")", Goal: fmt.Sprintf("100,000 jobs in ≤ %v", most), Measure: func(r Results) (bool, string, bool) {
		mine, ok := r.of(pgBulk, peerTenetFanOut)
		took := time.Duration(job.MaxFlowJobs / mine.Rate * float64(time.Second))
		return took <= most, short(took), ok
	}}
}

// flat is the bar on the cost of a claim at the largest backlog, beside that at the smallest.
func flat(scenario, smallest string) Bar {
	return Bar{Path: scenario, Goal: "largest backlog ≤ 2 × " + smallest, Measure: func(r Results) (bool, string, bool) {
		mine, ok := r.of(scenario, peerTenet)
		if !ok {
			return false, "", false
		}
		small, large := mine.Claims[0], mine.Claims[len(mine.Claims)-1]
		ratio := float64(large) / float64(small)
		return ratio <= 2, fmt.Sprintf("%.2f × (%s / %s)", ratio, short(large), short(small)), true
	}}
}

// Bars lists the goals.
func Bars() []Bar {
	return []Bar{
		times(pgBurn, peerTenet, 2, peerRiver),
		times(pgBurn, peerTenetByKey, 0.6, peerTenet),
		times(pgBurn, peerTenetByKey, 1, peerRiver),
		times(pgBurn, peerTenetFlows, 0.7, peerTenet),
		times(pgBurn, peerTenetFanOut, 0.7, peerTenet),
		flowStored(),
		times(pgBurnPlain, peerTenet, 10, peerRiver),
		times(pgBurnPlain, peerTenetSame, 10, peerRiver),
		times(pgInsertMany, peerTenet, 4, peerRiver),
		times(pgBulk, peerTenet, 1.5, peerRiver),
		times(liteBurn, peerTenet, 6, peerRiverSQLite),
		times(liteBurn, peerTenet, 6, peerGoqite),
		times(liteInsertMany, peerTenet, 8, peerRiverSQLite),
		soonerThan(peerTenet, "p50", p50), soonerThan(peerTenet, "p99", p99),
		soonerThan(peerTenetApart, "p50", p50), soonerThan(peerTenetApart, "p99", p99),
		flat(pgClaim, "1,000"),
		flat(pgBlocked, "none"),
		flat(liteClaim, "1,000"),
		flat(liteBlocked, "none"),
	}
}

// writeBars writes the bars whose paths were measured.
func writeBars(w io.Writer, r Results) {
	t := bars.Table{Head: []string{"measure", "bar", "measured", ""}}
	for _, b := range Bars() {
		if pass, how, ok := b.Measure(r); ok {
			t.Add(b.Path, b.Goal, how, bars.Mark(pass))
		}
	}
	t.Write(w)
}
