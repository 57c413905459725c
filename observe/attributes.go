package observe

import (
	"encoding/json"
	"iter"
	"slices"
)

// Names of the attributes that executors set.
const (
	AttrPolicySource        = "policy_source"
	AttrPolicyError         = "policy_error"
	AttrPolicyFallback      = "policy_fallback" // "true" if the provider failed and the default policy is used instead
	AttrMissingPolicyMode   = "missing_policy_mode"
	AttrPolicyNormalized    = "policy_normalized" // "true" if fields of the policy were defaulted or clamped
	AttrPolicyDefaulted     = "policy_defaulted_fields"
	AttrPolicyClampedFields = "policy_clamped_fields"
	AttrPolicyWarnings      = "policy_warnings"
	AttrClassifierNotFound  = "classifier_not_found"
	AttrBudgetNotFound      = "budget_not_found"
	AttrTriggerNotFound     = "trigger_not_found"
	AttrClassNotFound       = "class_not_found"
	AttrNotShared           = "not_shared"    // budget, circuit or limit: asked for as shared, but the executor has no store for it
	AttrLimitStore          = "limit_store"   // of an attempt: "away" if it was admitted or denied by this process's own share of shared limits
	AttrBudgetReason        = "budget_reason" // a budget's own reason, if it is neither allowed nor budget_denied
	AttrDetail              = "detail"
	AttrLimitWait           = "limit_wait" // how long an attempt waited for its limit, such as 12ms; absent if it did not wait
	AttrFallback            = "fallback"   // of a timeline: "used" or "failed"; of a decision that stops a call with a fallback: "called"
)

// Attributes is an immutable list of named strings. The zero value is empty.
type Attributes struct{ pairs []attribute }

type attribute struct{ name, value string }

// With returns a copy with the value of name set.
func (a Attributes) With(name, value string) Attributes {
	pairs := slices.Clone(a.pairs)
	if i := slices.IndexFunc(pairs, func(p attribute) bool { return p.name == name }); i >= 0 {
		pairs[i].value = value
	} else {
		pairs = append(pairs, attribute{name, value})
	}
	return Attributes{pairs}
}

// Get returns the value of name, or "".
func (a Attributes) Get(name string) string {
	for _, p := range a.pairs {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// Len returns the number of attributes.
func (a Attributes) Len() int { return len(a.pairs) }

// All iterates over the attributes in the order in which they were set.
func (a Attributes) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, p := range a.pairs {
			if !yield(p.name, p.value) {
				return
			}
		}
	}
}

// MarshalJSON writes an object.
func (a Attributes) MarshalJSON() ([]byte, error) {
	m := make(map[string]string, len(a.pairs))
	for _, p := range a.pairs {
		m[p.name] = p.value
	}
	return json.Marshal(m)
}
