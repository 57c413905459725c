package tenettest

import (
	"os"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
)

// Replayed is a recorded piece of work beside what the policies of a test decide for it.
type Replayed struct {
	*audit.Comparison
	t testing.TB
}

// Replay walks through a case, which tenet audit extract wrote, under the policies of a set: the recorded outcome of each
// attempt goes through the decision functions that the executor uses. No operation runs and no time passes. Where the decisions
// differ from the recorded ones, Replay logs both. The test fails at once if the case cannot be read.
//
// The record limits what can be known: [audit.WhatIf] says how. [audit.Unknown] in an end names the limit that was met.
func Replay(t testing.TB, path string, set *policy.Set) *Replayed {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("tenettest: replay: %v", err)
	}
	c, err := audit.ParseCase(text)
	if err != nil {
		t.Fatalf("tenettest: replay: %s: %v", path, err)
	}
	compared, err := c.Compare(set)
	if err != nil {
		t.Fatalf("tenettest: replay: %s: %v", path, err)
	}
	if !compared.Same() {
		t.Logf("the decisions differ from those of %s:\n%s", path, compared)
	}
	return &Replayed{compared, t}
}

// AssertSame fails the test if a decision, a wait or an end differs from the record, or cannot be known.
func (r *Replayed) AssertSame() {
	r.t.Helper()
	if !r.Same() {
		r.t.Error("the policies do not decide as recorded; the differences are logged above")
	}
}

// End returns the end of the call or job under the policies of the test; of a transaction, that of its last step.
func (r *Replayed) End() audit.End { return r.Parts[len(r.Parts)-1].Now }
