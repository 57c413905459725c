package policyimport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
)

// Fidelity is how well a policy says what a field of the input says.
type Fidelity string

// The fidelities.
const (
	Exact       Fidelity = "exact"
	Approximate Fidelity = "approximate"
	Lost        Fidelity = "lost"
)

// Note is what became of one field of the input. A note without a fidelity is a remark on a part of the input.
type Note struct {
	Path     string   `json:"path"`
	Fidelity Fidelity `json:"fidelity,omitempty"`
	Message  string   `json:"message,omitempty"`
}

// String returns "path: message".
func (n Note) String() string {
	if n.Path == "" {
		return n.Message
	}
	return n.Path + ": " + n.Message
}

// reader collects notes and faults of an input.
type reader struct {
	notes   []Note
	noted   map[Note]bool
	faults  []Note
	faulty  map[string]bool // paths that have a fault
	numbers map[string]int  // the last number that was added to a name

	placeholders func(text, path string) string // replaces those in a string; nil if the system has none
}

func newReader() *reader {
	return &reader{noted: map[Note]bool{}, faulty: map[string]bool{}, numbers: map[string]int{}}
}

func (r *reader) add(n Note) {
	if !r.noted[n] {
		r.noted[n] = true
		r.notes = append(r.notes, n)
	}
}

// approximate notes a field whose meaning a policy has only nearly.
func (r *reader) approximate(path, format string, args ...any) {
	r.add(Note{path, Approximate, fmt.Sprintf(format, args...)})
}

// lost notes a field without an equivalent.
func (r *reader) lost(path, format string, args ...any) {
	r.add(Note{path, Lost, fmt.Sprintf(format, args...)})
}

// remark notes what no field of the input says.
func (r *reader) remark(path, format string, args ...any) {
	r.add(Note{Path: path, Message: fmt.Sprintf(format, args...)})
}

// report returns the notes. A field that was read is exact unless another note is about it, a part of it or what it is a part of.
func (r *reader) report() []Note {
	inexact, holders := map[string]bool{}, map[string]bool{}
	for _, n := range r.notes {
		if n.Fidelity == Exact || n.Fidelity == "" {
			continue
		}
		inexact[n.Path] = true
		for _, path := range enclosing(n.Path) {
			holders[path] = true
		}
	}
	return slices.DeleteFunc(r.notes, func(n Note) bool {
		return n.Fidelity == Exact && (holders[n.Path] || slices.ContainsFunc(enclosing(n.Path), func(path string) bool { return inexact[path] }))
	})
}

// enclosing lists a path and those of what it is a part of.
func enclosing(path string) []string {
	list := []string{path}
	for i := range path {
		if path[i] == '.' || path[i] == '[' {
			list = append(list, path[:i])
		}
	}
	return list
}

// fault reports a field once: a field that could not be read is not reported as missing too.
func (r *reader) fault(path, format string, args ...any) {
	if !r.faulty[path] {
		r.faulty[path] = true
		r.faults = append(r.faults, Note{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

func (r *reader) err(what string) error {
	if len(r.faults) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", what, strings.Join(lists.Map(r.faults, Note.String), "; "))
}
