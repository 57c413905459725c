package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// table is a Markdown table that is also aligned in a terminal.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
	}
	line(t.head)
	for _, width := range widths {
		fmt.Fprint(w, "|", strings.Repeat("-", width+2))
	}
	fmt.Fprintln(w, "|")
	for _, row := range t.rows {
		line(row)
	}
}

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
		t := table{head: []string{"", "one goroutine", "relative", "in parallel", "in parallel / alone", "allocations", "bytes"}}
		mine := r[s.Name][tenet]
		for _, c := range s.Cases {
			m := r[s.Name][c.Peer]
			t.add(c.Peer, nanos(m.Serial), fmt.Sprintf("%.2f", m.Serial/mine.Serial), nanos(m.Parallel),
				fmt.Sprintf("%.2f", m.Parallel/m.Serial), strconv.FormatInt(m.Allocs, 10), strconv.FormatInt(m.Bytes, 10))
		}
		t.write(w)
		fmt.Fprintln(w)
	}
}

func capitalized(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// writeBars writes the bars whose paths were measured.
func writeBars(w io.Writer, r Results) {
	t := table{head: []string{"path", "bar", "measured", ""}}
	for _, b := range Bars() {
		value, how, ok := b.Measure(r)
		if !ok {
			continue
		}
		t.add(b.Path, b.Goal, how, mark(value <= b.Limit))
	}
	t.write(w)
	fmt.Fprintln(w)
}

func mark(pass bool) string {
	if pass {
		return "pass"
	}
	return "FAIL"
}
