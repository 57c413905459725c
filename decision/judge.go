package decision

import (
	"slices"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Facts are what is known about an ended attempt.
type Facts struct {
	// Failed is set if the operation returned an error.
	Failed bool
	// Ended is why the work has to end: canceled, deadline_exceeded or overall_timeout; "" while neither the caller's
	// context nor the overall timeout has ended.
	Ended policy.Reason
	// TimedOut is set if the attempt's own timeout has passed.
	TimedOut bool
	// Mark is the outermost mark of the error, and Pushback the wait that came with it.
	Mark     classify.Mark
	Pushback time.Duration
	// Classes are the classes of the error.
	Classes []classify.Match
	// Classified is the answer of the policy's classifier; nil if the policy has none. The class that it names counts
	// in addition to Classes: a response can be an http_503 without an error.
	Classified *classify.Outcome
}

// Rule names the rule that decided a judgement.
type Rule string

// The rules, in their order of precedence.
const (
	RuleSuccess    Rule = "success"
	RuleContext    Rule = "context"
	RuleMark       Rule = "mark"
	RuleAbortOn    Rule = "abort_on"
	RuleClassifier Rule = "classifier"
	RuleDefault    Rule = "default"
	RuleRetryOn    Rule = "retry_on"
)

// Judge returns what an attempt's result means under policy r, and the rule that decided. The order is: success without a
// classifier; the end of the caller's context or of the overall timeout; a mark on the error; abort_on; the classifier
// or, without one, the default (errors are retryable); retry_on, which only narrows.
func Judge(r *policy.Retry, f *Facts) (classify.Outcome, Rule) {
	if !f.Failed && f.Classified == nil {
		return Succeeded(), RuleSuccess
	}
	if !f.Failed && f.Classified.Kind == classify.Success {
		return *f.Classified, RuleSuccess // an effect that completed stays completed, whatever became of the caller
	}
	if f.Ended != "" {
		return classify.Outcome{Kind: classify.Abort, Category: endCategory(f.Ended), Reason: f.Ended}, RuleContext
	}
	if o, ok := judgeMark(f); ok {
		return o, RuleMark
	}
	if i := slices.IndexFunc(r.AbortOn, f.within); i >= 0 {
		return classify.Outcome{
			Kind: classify.NonRetryable, Category: failureCategory(f), Class: r.AbortOn[i], Reason: policy.ReasonAbortOn,
		}, RuleAbortOn
	}
	o, rule := judgeResult(f)
	if o.Kind != classify.Retryable || len(r.RetryOn) == 0 {
		return o, rule
	}
	i := slices.IndexFunc(r.RetryOn, f.within)
	if i < 0 {
		o.Kind, o.Reason, o.Pushback = classify.NonRetryable, policy.ReasonNotInRetryOn, 0
		return o, RuleRetryOn
	}
	if o.Class == "" {
		o.Class = r.RetryOn[i]
	}
	return o, rule
}

// Succeeded is the outcome of an operation that returned no error and has no classifier.
func Succeeded() classify.Outcome {
	return classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}
}

// judgeMark applies the error's mark. A pushback counts as a reason to retry, so retry_on does not narrow it.
func judgeMark(f *Facts) (classify.Outcome, bool) {
	switch f.Mark {
	case classify.MarkPermanent:
		return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonPermanent}, true
	case classify.MarkBusiness:
		return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: policy.ReasonBusiness}, true
	case classify.MarkAfter:
		return classify.Outcome{
			Kind: classify.Retryable, Category: failureCategory(f), Reason: policy.ReasonRetryAfter, Pushback: f.Pushback,
		}, true
	}
	return classify.Outcome{}, false
}

// judgeResult returns the classifier's answer or, without one, the default.
func judgeResult(f *Facts) (classify.Outcome, Rule) {
	if f.Classified != nil {
		return *f.Classified, RuleClassifier
	}
	if f.TimedOut {
		return classify.Outcome{Kind: classify.Retryable, Category: classify.CategoryTimeout, Reason: policy.ReasonAttemptTimeout}, RuleDefault
	}
	return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}, RuleDefault
}

func failureCategory(f *Facts) classify.Category {
	if f.TimedOut {
		return classify.CategoryTimeout
	}
	return classify.CategorySystem
}

func endCategory(end policy.Reason) classify.Category {
	if end == policy.ReasonCanceled {
		return classify.CategorySystem
	}
	return classify.CategoryTimeout
}

// within reports whether the result belongs to the class wide.
func (f *Facts) within(wide policy.Class) bool {
	return f.Classified != nil && f.Classified.Class.Within(wide) ||
		slices.ContainsFunc(f.Classes, func(m classify.Match) bool { return m.Within(wide) })
}
