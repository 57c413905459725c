package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/bench/bars"
)

func nanos(ns float64) string {
	if ns < 100 {
		return fmt.Sprintf("%.1f ns", ns)
	}
	return fmt.Sprintf("%.0f ns", ns)
}

// writeScenarios writes a table per scenario that was measured.
func writeScenarios(w io.Writer, r Results) {
	for _, s := range Scenarios() {
		if len(r[s.Name]) == 0 {
			continue
		}
		fmt.Fprintf(w, "### %s\n\n%s\n\n", capitalized(s.Name), s.Note)
		t := bars.Table{Head: []string{"", "one goroutine", "relative", "in parallel", "in parallel / alone", "allocations", "bytes"}}
		mine := r[s.Name][tenet]
		for _, c := range s.Cases {
			m := r[s.Name][c.Peer]
			t.Add(c.Peer, nanos(m.Serial), fmt.Sprintf("%.2f", m.Serial/mine.Serial), nanos(m.Parallel),
				fmt.Sprintf("%.2f", m.Parallel/m.Serial), strconv.FormatInt(m.Allocs, 10), strconv.FormatInt(m.Bytes, 10))
		}
		t.Write(w)
		fmt.Fprintln(w)
	}
}

func capitalized(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// writeBars writes the bars whose paths were measured.
func writeBars(w io.Writer, r Results) {
	t := bars.Table{Head: []string{"path", "bar", "measured", ""}}
	for _, b := range Bars() {
		value, how, ok := b.Measure(r)
		if !ok {
			continue
		}
		t.Add(b.Path, b.Goal, how, bars.Mark(value <= b.Limit))
	}
	t.Write(w)
}
