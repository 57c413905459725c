package retry

import (
	"maps"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// judgement is the outcome of an attempt or group and how it was derived.
type judgement struct {
	outcome classify.Outcome
	rule    decision.Rule // "" if nothing was judged
	facts   decision.Facts
}

// notJudged returns the judgement of an attempt or call that was refused, cancelled or interrupted by a panic.
func notJudged(reason policy.Reason) judgement {
	return judgement{outcome: classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: reason}}
}

// succeeded is the judgement of an operation that returned no error, under a policy without a classifier. It is read-only.
var succeeded = judgement{outcome: decision.Succeeded(), rule: decision.RuleSuccess}

// resultOf returns what an outcome means to a breaker.
func resultOf(o classify.Outcome) circuit.Result {
	switch {
	case o.Kind == classify.Abort:
		return circuit.Ignored
	case o.Kind == classify.Success, o.Category == classify.CategoryBusiness:
		return circuit.Success
	}
	return circuit.Failure
}

// known returns a classifier's outcome with a reason of policy.Reasons. A reason of the classifier's own becomes the detail.
func known(o classify.Outcome) classify.Outcome {
	if o.Reason.Known() {
		return o
	}
	if o.Reason != "" {
		attributes := maps.Clone(o.Attributes) // classifiers may share theirs
		if attributes == nil {
			attributes = make(map[string]string, 1)
		}
		addDetail(attributes, string(o.Reason))
		o.Attributes = attributes
	}
	switch o.Kind {
	case classify.Success:
		o.Reason = policy.ReasonSuccess
	case classify.NonRetryable:
		o.Reason = policy.ReasonNonRetryable
	case classify.Abort:
		o.Reason = policy.ReasonAborted
	default:
		o.Reason = policy.ReasonError
	}
	return o
}
