package prove

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// classNeverMatches takes each class out of its list and asks whether anything changes, and looks for classes of retry_on whose
// results the classifier never retries. An error that asks for a wait is retried whatever the lists say.
func classNeverMatches(s *subject) *answer {
	r := &s.policy.Retry
	if len(r.RetryOn)+len(r.AbortOn) == 0 {
		return nil
	}
	for _, c := range r.RetryOn {
		if a := s.neverRetried(c); a != nil {
			return a
		}
	}
	for _, list := range []struct {
		field   string
		classes []policy.Class
	}{{"retry.retry_on", r.RetryOn}, {"retry.abort_on", r.AbortOn}} {
		for i, c := range list.classes {
			rest := slices.Delete(slices.Clone(list.classes), i, i+1)
			if j := slices.IndexFunc(rest, c.Within); j >= 0 {
				return (&answer{}).breaks(list.field, fmt.Sprintf("%s: class %q has no effect beside %q, which includes it", s.key, c, rest[j])).
					with(s.example(Step{Ask: AskClass, Name: string(c)}))
			}
		}
	}
	return &answer{message: s.key.String() + ": " + matters(r)}
}

// neverRetried returns the violation of a class of retry_on whose results abort_on or the classifier always stops unless the error
// asks for a wait, or nil.
func (s *subject) neverRetried(c policy.Class) *answer {
	r := &s.policy.Retry
	if o, rule := judge(r, c); o.Kind == classify.NonRetryable && rule == decision.RuleAbortOn {
		return (&answer{}).breaks("retry.retry_on", fmt.Sprintf("%s: class %q is retried only where the error asks for a wait: abort_on holds %q", s.key, c, o.Class)).
			with(s.example(Step{Ask: AskClass, Name: string(c)}))
	}
	parts, owned := retriedBy(r.ClassifierName, c)
	if !owned {
		return nil
	}
	if len(parts) == 0 {
		return (&answer{}).breaks("retry.retry_on", fmt.Sprintf("%s: class %q is retried only where the error asks for a wait: classifier %q takes it for final", s.key, c, r.ClassifierName)).
			with(s.example(Step{Ask: AskClass, Name: string(c)}))
	}
	steps := make([]Step, len(parts))
	for i, part := range parts {
		if o, rule := judge(r, part); rule != decision.RuleAbortOn || o.Kind != classify.NonRetryable {
			return nil
		}
		steps[i] = Step{Ask: AskClass, Name: string(part)}
	}
	return (&answer{}).breaks("retry.retry_on", fmt.Sprintf("%s: class %q is retried only where the error asks for a wait: abort_on holds all of it that classifier %q retries", s.key, c, r.ClassifierName)).
		with(s.example(steps...))
}

// matters says what is known of the classes of a policy none of which is ruled out.
func matters(r *policy.Retry) string {
	name := r.ClassifierName
	switch name {
	case "", "default":
		return "no class of retry_on and abort_on is ruled out by another one"
	case "http", "grpc":
	default:
		return fmt.Sprintf("no class of retry_on and abort_on is ruled out by another one; what classifier %q retries is not known here", name)
	}
	text := fmt.Sprintf("no class of retry_on and abort_on is ruled out by another one, and none of retry_on by classifier %q", name)
	var foreign []string
	for _, c := range r.RetryOn {
		if _, owned := retriedBy(name, c); !owned && !matched(c) {
			foreign = append(foreign, string(c))
		}
	}
	if len(foreign) > 0 {
		text += fmt.Sprintf("; it does not look at %s, which counts only in errors that it retries for another reason", strings.Join(foreign, ", "))
	}
	return text
}

// retriedBy lists the most specific classes within c that a classifier of Tenet can make retryable. owned is false if results of
// the class are not the classifier's to judge, or if the classifier comes from code. The tests compare it with the classifiers of
// adapter/http and adapter/grpc, which this package may not import.
func retriedBy(classifier string, c policy.Class) (parts []policy.Class, owned bool) {
	var all []policy.Class
	switch {
	case classifier == "http" && (c.Within(policy.ClassHTTP4xx) || c.Within(policy.ClassHTTP5xx)):
		all = httpRetried
	case classifier == "grpc" && c.Within(policy.ClassGRPC):
		all = grpcRetried
	default:
		return nil, false
	}
	for _, part := range all {
		if part.Within(c) {
			parts = append(parts, part)
		}
	}
	return parts, true
}

// Results of these classes may be retried: answers to idempotent requests, and any gRPC call.
var (
	httpRetried = func() []policy.Class {
		list := []policy.Class{policy.HTTPClass(http.StatusRequestTimeout), policy.HTTPClass(http.StatusTooManyRequests)}
		for status := 500; status <= 599; status++ {
			list = append(list, policy.HTTPClass(status))
		}
		return list
	}()
	grpcRetried = []policy.Class{"grpc_unavailable", "grpc_resource_exhausted", "grpc_aborted", "grpc_deadline_exceeded"}
)

// judge asks what an error of one class means: by the policy's classifier if it is one of Tenet's that looks at the class, else by
// the default.
func judge(r *policy.Retry, c policy.Class) (classify.Outcome, decision.Rule) {
	f := decision.Facts{Failed: true, Classes: []classify.Match{{Class: c, Parent: c.Parent()}}}
	if parts, owned := retriedBy(r.ClassifierName, c); owned {
		f.Classified = &classify.Outcome{Kind: classify.Retryable, Class: c}
		if len(parts) == 0 {
			f.Classified.Kind = classify.NonRetryable
		}
	}
	return decision.Judge(r, &f)
}

func matched(c policy.Class) bool {
	return slices.ContainsFunc(classify.Builtin(), func(f classify.Family) bool { return slices.Contains(f.Names, c) })
}
