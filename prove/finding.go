package prove

import (
	"slices"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policyfile"
)

// Severity says what a violation means.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the document contradicts itself: servers refuse it
	Warning Severity = "warning" // the document is unsafe or has parts without effect
	Note    Severity = "note"    // numbers; the verdict is always that the property holds
)

// Verdict is the answer to whether a property holds.
type Verdict string

// The verdicts.
const (
	Holds    Verdict = "holds"
	Violated Verdict = "violated"
)

// Finding is the verdict on one property.
type Finding struct {
	// Code of the rule.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Path is the place in the document: for a violation that of the field to change, else that of the object.
	Path string `json:"path"`
	// Line and Column count from 1; columns count characters.
	Line    int     `json:"line"`
	Column  int     `json:"column"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message"`
	// Counterexample shows a violation; nil if the property holds.
	Counterexample *Counterexample `json:"counterexample,omitempty"`
	// Suppressed is the reason for which the document accepts the violation.
	Suppressed string `json:"suppressed,omitempty"`

	// Fault is the finding as a fault of the document, with the line of the text.
	Fault policyfile.Fault `json:"-"`
}

// Broken reports whether the finding is a violation that the document does not accept.
func (f *Finding) Broken() bool { return f.Verdict == Violated && f.Suppressed == "" }

// Violations returns the violations that the document does not accept.
func Violations(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return !f.Broken() })
}

// Faults returns the violations that the document does not accept, as faults. Those that are not errors are marked as warnings.
func Faults(findings []Finding) []policyfile.Fault {
	return lists.Map(Violations(findings), func(f Finding) policyfile.Fault { return f.Fault })
}
