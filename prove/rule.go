package prove

import (
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policy"
)

// Rule is one property that the package decides.
type Rule struct {
	Code     string
	Severity Severity
	// Property is what a verdict is about, in one sentence.
	Property string
	// Why says what goes wrong where the property does not hold, and what the verdict rests on.
	Why string
	// Remedy says how to mend a violation.
	Remedy string

	policy func(*subject) *answer // nil answer: the rule does not apply
	budget func(name string, b policy.Budget, users []subject) *answer
}

// Rules lists the rules in the order of the documentation.
func Rules() []Rule {
	return lists.Map(rules, func(r *Rule) Rule { return *r })
}

// codes lists the codes of the rules in the same order.
func codes() []string {
	return lists.Map(rules, func(r *Rule) string { return r.Code })
}

func ruleOf(code string) *Rule {
	for _, r := range rules {
		if r.Code == code {
			return r
		}
	}
	panic("prove: no rule " + code)
}

// answer is a rule's verdict on one subject.
type answer struct {
	message  string
	violated bool
	field    string // of the policy, at which a violation is reported
	example  *Counterexample
}

// breaks makes the answer a violation.
func (a *answer) breaks(field, message string) *answer {
	a.violated, a.field, a.message = true, field, message
	return a
}

// with adds the counterexample.
func (a *answer) with(c *Counterexample) *answer {
	a.example = c
	return a
}
