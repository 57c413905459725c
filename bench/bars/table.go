package bars

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table is a Markdown table that is also aligned in a terminal.
type Table struct {
	Head []string
	rows [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Write writes the table and an empty line, and nothing for a table without rows.
func (t *Table) Write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	for _, row := range slices.Concat([][]string{t.Head, rule}, t.rows) {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
	}
	fmt.Fprintln(w)
}

// Mark says whether a bar is met.
func Mark(pass bool) string {
	if pass {
		return "pass"
	}
	return "FAIL"
}
