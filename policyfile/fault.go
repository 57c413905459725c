package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tenetdev/tenet/internal/fields"
)

// Fault is an error or a warning about a document.
type Fault struct {
	File         string
	Line, Column int    // from 1; columns count characters
	Path         string // dotted, for example policies.user-service.GetUser.retry.max_attempts; empty for the whole document
	Problem      string
	Remedy       string
	Warning      bool   // the document is accepted nevertheless
	source       string // the line of the fault
}

// String returns "file:line:column: path: problem; remedy".
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Problem)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// Width of the part of a long line that Caret shows, and how much of it comes before the caret.
const (
	caretWidth  = 100
	caretBefore = 60
)

// Caret returns the line of the fault and, on a second line, a caret below the place. Long lines are cut around it; tabs
// and control characters are shown as single spaces, so that the caret is in the right column.
func (f Fault) Caret() string {
	line := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, f.source))
	at := min(max(f.Column-1, 0), len(line))
	shown, indent := string(line), at
	if len(line) > caretWidth {
		start := max(min(at-caretBefore, len(line)-caretWidth), 0)
		end := min(start+caretWidth, len(line))
		shown, indent = string(line[start:end]), at-start
		if start > 0 {
			shown, indent = "…"+shown, indent+1
		}
		if end < len(line) {
			shown += "…"
		}
	}
	return shown + "\n" + strings.Repeat(" ", indent) + "^"
}

// Error holds all faults of a document that was refused, warnings included, in the order of their places.
type Error struct{ Faults []Fault }

// Error lists the faults that are not warnings, one per line.
func (e *Error) Error() string {
	var lines []string
	for _, f := range e.Faults {
		if !f.Warning {
			lines = append(lines, f.String())
		}
	}
	return strings.Join(lines, "\n")
}

// maxFaults is the maximum number of faults reported for one document.
const maxFaults = 1000

// faults collects the faults of one document.
type faults struct {
	file  string
	lines []string
	list  []Fault
	bad   map[string]bool // paths that already have an error
}

func newFaults(file, text string) *faults {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return &faults{file: file, lines: strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n"), bad: map[string]bool{}}
}

// EntryPath returns the path of the entry of that name in the object at path, for [Document.LocatePath], [Document.Line] and
// [Document.ValuesAt]. A dot of the name is written as NUL, which names cannot hold, so that the paths of two fields differ.
func EntryPath(path, name string) string {
	return fields.Join(path, strings.ReplaceAll(name, ".", "\x00"))
}

// shown returns a path as people read it.
func shown(path string) string { return strings.ReplaceAll(path, "\x00", ".") }

// place is a position in a document.
type place struct{ line, column int }

func (c *faults) add(at place, path, problem, remedy string) {
	c.bad[path] = true
	c.append(Fault{Path: path, Problem: problem, Remedy: remedy}, at)
}

func (c *faults) warn(at place, path, problem, remedy string) {
	c.append(Fault{Path: path, Problem: problem, Remedy: remedy, Warning: true}, at)
}

func (c *faults) append(f Fault, at place) {
	if c.full() {
		return
	}
	if len(c.list) == maxFaults {
		f = Fault{Problem: fmt.Sprintf("more than %d faults", maxFaults), Remedy: "mend those above first"}
		at = place{len(c.lines), 1}
	}
	f.File, f.Path, f.Line, f.Column = c.file, shown(f.Path), max(at.line, 1), max(at.column, 1)
	if f.Line <= len(c.lines) {
		f.source = c.lines[f.Line-1]
	}
	c.list = append(c.list, f)
}

// full reports that further faults are dropped.
func (c *faults) full() bool { return len(c.list) > maxFaults }

// failed reports whether any fault is more than a warning.
func (c *faults) failed() bool {
	return slices.ContainsFunc(c.list, func(f Fault) bool { return !f.Warning })
}

func (c *faults) sorted() []Fault {
	slices.SortStableFunc(c.list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return c.list
}
