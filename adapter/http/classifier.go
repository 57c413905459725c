package tenethttp

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// ClassifierName is the name under which policies refer to [Classifier].
const ClassifierName = "http"

// Classifier judges the results of operations that make HTTP requests: *http.Response values by their status, and errors
// by the [*StatusError] or *url.Error in them. An answer without a request counts as one to a GET. A
// *url.Error is retryable only if its method is idempotent: even if the connection failed, an earlier host may have processed
// the request and redirected it. An error without either is retryable. A value of any other type shows that the policy names
// the wrong classifier.
func Classifier() classify.Classifier { return classify.Func(judge) }

// The classifier that the clients of this package register with their executors, and its classes.
var (
	theClassifier = Classifier()
	theClasses    = Classes()
)

func judge(value any, err error) classify.Outcome {
	response, isResponse := value.(*http.Response)
	if value != nil && !isResponse {
		return classify.Typed(func(*http.Response, error) classify.Outcome { return classify.Outcome{} }).Classify(value, err)
	}
	switch {
	case err != nil:
		return judgeError(err)
	case response != nil:
		return judgeStatus(NewStatusError(response))
	}
	return classify.Default(nil, nil)
}

func judgeStatus(e *StatusError) classify.Outcome {
	o := classify.Outcome{Kind: classify.NonRetryable, Class: policy.HTTPClass(e.StatusCode), Reason: policy.ReasonHTTPStatus}
	switch {
	case e.StatusCode < 400:
		return classify.Default(nil, nil)
	case !transient(e.StatusCode):
		o.Category = classify.CategoryBusiness
	case e.repeatable():
		o.Kind, o.Category, o.Pushback = classify.Retryable, classify.CategorySystem, e.RetryAfter
	default:
		o.Category, o.Reason = classify.CategorySystem, policy.ReasonHTTPNotIdempotent
	}
	return o
}

type timeout interface {
	error
	Timeout() bool
}

func judgeError(err error) classify.Outcome {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return judgeStatus(e)
	}
	o := classify.Default(nil, err)
	if t, ok := errors.AsType[timeout](err); ok && t.Timeout() {
		o.Category = classify.CategoryTimeout
	}
	again, isTransport := false, true
	if e, ok := errors.AsType[*transportError](err); ok {
		again = e.again
	} else if e, ok := errors.AsType[*url.Error](err); ok { // its Op is the method
		again = idempotent(e.Op)
	} else {
		isTransport = false
	}
	switch {
	case !isTransport:
		return o
	case again:
		o.Reason = policy.ReasonTransport
	default:
		o.Kind, o.Reason = classify.NonRetryable, policy.ReasonHTTPNotIdempotent
	}
	return o
}

// Classes returns the family of status classes, http_400 to http_599 within http_4xx and http_5xx, for
// retry.ExecutorOptions.Classes.
func Classes() classify.Family {
	names := []policy.Class{policy.ClassHTTP4xx, policy.ClassHTTP5xx}
	for status := 400; status <= 599; status++ {
		names = append(names, policy.HTTPClass(status))
	}
	return classify.Family{Names: names, Of: func(err error) policy.Class {
		if e, ok := errors.AsType[*StatusError](err); ok {
			return policy.HTTPClass(e.StatusCode)
		}
		return ""
	}}
}
