package decision_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

var errBase = errors.New("base")

func TestC2EachRule(t *testing.T) {
	network := []policy.Class{policy.ClassNetwork}
	dns := []classify.Match{{Class: policy.ClassDNS}}
	custom := []classify.Match{{Class: "flaky_peer", Parent: policy.ClassNetwork}}
	retryable := &classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonHTTPStatus, Pushback: time.Second}
	named := &classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_503", Reason: policy.ReasonHTTPStatus}
	business := &classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: policy.ReasonHTTPStatus}
	success := &classify.Outcome{Kind: classify.Success, Reason: policy.ReasonHTTPStatus}
	cases := map[string]struct {
		policy policy.Retry
		facts  decision.Facts
		want   classify.Outcome
		rule   decision.Rule
	}{
		"success": {
			want: classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}, rule: decision.RuleSuccess,
		},
		"success after the caller cancelled": {
			facts: decision.Facts{Ended: policy.ReasonCanceled},
			want:  classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}, rule: decision.RuleSuccess,
		},
		"success by the classifier": {facts: decision.Facts{Classified: success}, want: *success, rule: decision.RuleSuccess},
		"success by the classifier after the caller cancelled": {
			facts: decision.Facts{Classified: success, Ended: policy.ReasonCanceled}, want: *success, rule: decision.RuleSuccess,
		},
		"an error that the classifier calls a success": {
			facts: decision.Facts{Failed: true, Classified: success}, want: *success, rule: decision.RuleClassifier,
		},
		"the caller cancelled": {
			facts: decision.Facts{Failed: true, Ended: policy.ReasonCanceled},
			want:  classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonCanceled}, rule: decision.RuleContext,
		},
		"the caller's deadline": {
			facts: decision.Facts{Failed: true, Ended: policy.ReasonDeadlineExceeded},
			want:  classify.Outcome{Kind: classify.Abort, Category: classify.CategoryTimeout, Reason: policy.ReasonDeadlineExceeded}, rule: decision.RuleContext,
		},
		"the overall timeout": {
			facts: decision.Facts{Failed: true, Ended: policy.ReasonOverallTimeout, TimedOut: true},
			want:  classify.Outcome{Kind: classify.Abort, Category: classify.CategoryTimeout, Reason: policy.ReasonOverallTimeout}, rule: decision.RuleContext,
		},
		"a bad value after the caller cancelled": {
			facts: decision.Facts{Classified: retryable, Ended: policy.ReasonCanceled},
			want:  classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonCanceled}, rule: decision.RuleContext,
		},
		"permanent": {
			facts: decision.Facts{Failed: true, Mark: classify.MarkPermanent, TimedOut: true},
			want:  classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonPermanent}, rule: decision.RuleMark,
		},
		"business": {
			facts: decision.Facts{Failed: true, Mark: classify.MarkBusiness},
			want:  classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: policy.ReasonBusiness}, rule: decision.RuleMark,
		},
		"after": {
			facts: decision.Facts{Failed: true, Mark: classify.MarkAfter, Pushback: time.Minute},
			want:  classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonRetryAfter, Pushback: time.Minute}, rule: decision.RuleMark,
		},
		"after a timeout": {
			facts: decision.Facts{Failed: true, Mark: classify.MarkAfter, TimedOut: true},
			want:  classify.Outcome{Kind: classify.Retryable, Category: classify.CategoryTimeout, Reason: policy.ReasonRetryAfter}, rule: decision.RuleMark,
		},
		"after is not narrowed": {
			policy: policy.Retry{RetryOn: []policy.Class{policy.ClassSQL}},
			facts:  decision.Facts{Failed: true, Mark: classify.MarkAfter, Pushback: 1, Classes: dns},
			want:   classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonRetryAfter, Pushback: 1}, rule: decision.RuleMark,
		},
		"abort_on": {
			policy: policy.Retry{AbortOn: []policy.Class{policy.ClassSQL, policy.ClassNetwork}},
			facts:  decision.Facts{Failed: true, Classes: dns},
			want:   classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Class: policy.ClassNetwork, Reason: policy.ReasonAbortOn}, rule: decision.RuleAbortOn,
		},
		"abort_on after a timeout": {
			policy: policy.Retry{AbortOn: []policy.Class{policy.ClassTimeout}},
			facts:  decision.Facts{Failed: true, TimedOut: true, Classes: []classify.Match{{Class: policy.ClassTimeout}}},
			want:   classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryTimeout, Class: policy.ClassTimeout, Reason: policy.ReasonAbortOn}, rule: decision.RuleAbortOn,
		},
		"abort_on with a class that the classifier found in the value": {
			policy: policy.Retry{AbortOn: []policy.Class{policy.ClassHTTP5xx}},
			facts:  decision.Facts{Classified: named},
			want:   classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Class: policy.ClassHTTP5xx, Reason: policy.ReasonAbortOn}, rule: decision.RuleAbortOn,
		},
		"abort_on with another class": {
			policy: policy.Retry{AbortOn: []policy.Class{policy.ClassEOF}},
			facts:  decision.Facts{Failed: true, Classes: dns},
			want:   classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}, rule: decision.RuleDefault,
		},
		"classifier retries":                 {facts: decision.Facts{Failed: true, Classified: retryable, TimedOut: true}, want: *retryable, rule: decision.RuleClassifier},
		"classifier refuses a value":         {facts: decision.Facts{Classified: business}, want: *business, rule: decision.RuleClassifier},
		"classifier refuses, retry_on lists": {policy: policy.Retry{RetryOn: network}, facts: decision.Facts{Failed: true, Classified: business, Classes: dns}, want: *business, rule: decision.RuleClassifier},
		"default": {
			facts: decision.Facts{Failed: true, Classes: dns},
			want:  classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}, rule: decision.RuleDefault,
		},
		"default timeout": {
			facts: decision.Facts{Failed: true, TimedOut: true},
			want:  classify.Outcome{Kind: classify.Retryable, Category: classify.CategoryTimeout, Reason: policy.ReasonAttemptTimeout}, rule: decision.RuleDefault,
		},
		"retry_on lists the parent": {
			policy: policy.Retry{RetryOn: []policy.Class{policy.ClassSQL, policy.ClassNetwork}},
			facts:  decision.Facts{Failed: true, Classes: dns},
			want:   classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: policy.ClassNetwork, Reason: policy.ReasonError}, rule: decision.RuleDefault,
		},
		"retry_on lists the parent of a custom class": {
			policy: policy.Retry{RetryOn: network},
			facts:  decision.Facts{Failed: true, Classes: custom},
			want:   classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: policy.ClassNetwork, Reason: policy.ReasonError}, rule: decision.RuleDefault,
		},
		"retry_on keeps the classifier's class": {
			policy: policy.Retry{RetryOn: []policy.Class{policy.ClassHTTP5xx}},
			facts:  decision.Facts{Classified: named}, want: *named, rule: decision.RuleClassifier,
		},
		"retry_on lists something else": {
			policy: policy.Retry{RetryOn: []policy.Class{policy.ClassSQL}},
			facts:  decision.Facts{Failed: true, Classes: dns},
			want:   classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonNotInRetryOn}, rule: decision.RuleRetryOn,
		},
		"retry_on narrows the classifier": {
			policy: policy.Retry{RetryOn: network},
			facts:  decision.Facts{Failed: true, Classified: retryable},
			want:   classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonNotInRetryOn}, rule: decision.RuleRetryOn,
		},
		"retry_on and an error without class": {
			policy: policy.Retry{RetryOn: network},
			facts:  decision.Facts{Failed: true, TimedOut: true},
			want:   classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryTimeout, Reason: policy.ReasonNotInRetryOn}, rule: decision.RuleRetryOn,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, rule := decision.Judge(&c.policy, &c.facts)
			if diff := cmp.Diff(c.want, got); diff != "" || rule != c.rule {
				t.Errorf("rule %s, want %s: %s", rule, c.rule, diff)
			}
		})
	}
}

// TestC2OrderOfRules goes through all combinations: the first rule that applies decides.
func TestC2OrderOfRules(t *testing.T) {
	classified := []*classify.Outcome{nil}
	for _, kind := range allKinds {
		classified = append(classified, &classify.Outcome{Kind: kind, Reason: policy.ReasonHTTPStatus})
	}
	eof := []classify.Match{{Class: policy.ClassDNS}, {Class: policy.ClassEOF}}
	for _, failed := range []bool{false, true} {
		for _, answer := range classified {
			for _, ended := range []policy.Reason{"", policy.ReasonCanceled, policy.ReasonDeadlineExceeded, policy.ReasonOverallTimeout} {
				for _, mark := range []classify.Mark{classify.Unmarked, classify.MarkPermanent, classify.MarkBusiness, classify.MarkAfter} {
					for _, abortOn := range [][]policy.Class{nil, {"tls"}, {"tls", "eof"}} {
						for _, retryOn := range [][]policy.Class{nil, {"sql"}, {"sql", "dns"}} {
							f := decision.Facts{Failed: failed, Classified: answer, Ended: ended, Mark: mark, Classes: eof}
							r := policy.Retry{AbortOn: abortOn, RetryOn: retryOn}
							result := classify.Retryable
							if answer != nil {
								result = answer.Kind
							}
							var kind classify.Kind
							var rule decision.Rule
							switch {
							case !failed && (answer == nil || result == classify.Success):
								kind, rule = classify.Success, decision.RuleSuccess
							case ended != "":
								kind, rule = classify.Abort, decision.RuleContext
							case mark == classify.MarkAfter:
								kind, rule = classify.Retryable, decision.RuleMark
							case mark != classify.Unmarked:
								kind, rule = classify.NonRetryable, decision.RuleMark
							case len(abortOn) == 2:
								kind, rule = classify.NonRetryable, decision.RuleAbortOn
							case result == classify.Retryable && len(retryOn) == 1:
								kind, rule = classify.NonRetryable, decision.RuleRetryOn
							case answer != nil:
								kind, rule = result, decision.RuleClassifier
							default:
								kind, rule = classify.Retryable, decision.RuleDefault
							}
							if got, by := decision.Judge(&r, &f); got.Kind != kind || by != rule {
								t.Fatalf("%+v under %v, %v: %s by %s, want %s by %s", f, abortOn, retryOn, got.Kind, by, kind, rule)
							}
						}
					}
				}
			}
		}
	}
}

func TestC2JudgeLeavesTheClassifiersAnswerAlone(t *testing.T) {
	answer := classify.Outcome{Kind: classify.Retryable, Pushback: time.Second, Attributes: map[string]string{"detail": "x"}}
	before := answer
	r := policy.Retry{RetryOn: []policy.Class{policy.ClassSQL}}
	got, _ := decision.Judge(&r, &decision.Facts{Failed: true, Classified: &answer})
	if got.Kind != classify.NonRetryable || got.Attributes["detail"] != "x" {
		t.Errorf("outcome %+v", got)
	}
	if diff := cmp.Diff(before, answer); diff != "" {
		t.Errorf("the answer was changed: %s", diff)
	}
}

// TestC3MarksDecideThroughWrapping goes from a real error to a judgement, as runners do.
func TestC3MarksDecideThroughWrapping(t *testing.T) {
	wraps := map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"%w":       func(err error) error { return fmt.Errorf("load: %w", err) },
		"Join":     func(err error) error { return errors.Join(io.EOF, err) },
		"both":     func(err error) error { return fmt.Errorf("all: %w", errors.Join(context.DeadlineExceeded, err)) },
	}
	marks := map[policy.Reason]error{
		policy.ReasonPermanent:  classify.Permanent(errBase),
		policy.ReasonBusiness:   classify.Business(errBase),
		policy.ReasonRetryAfter: classify.After(errBase, time.Minute),
		policy.ReasonAbortOn:    errBase,
	}
	r := policy.Retry{AbortOn: []policy.Class{"flaky_peer"}}
	known := append(classify.Builtin(), classify.Custom("flaky_peer", policy.ClassNetwork, classify.Is(errBase)))
	for how, wrap := range wraps {
		for want, marked := range marks {
			err := wrap(marked)
			f := decision.Facts{Failed: true, Classes: known.Of(err)}
			f.Mark, f.Pushback = classify.MarkOf(err)
			o, _ := decision.Judge(&r, &f)
			if o.Reason != want || (o.Pushback == time.Minute) != (want == policy.ReasonRetryAfter) {
				t.Errorf("%s, %s: %+v", how, want, o)
			}
		}
	}
}
