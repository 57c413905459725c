package policyimport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/policy"
)

// condition is the meaning of a word in retry_on.
type condition struct {
	classes []policy.Class
	note    string
}

const notRepeated = "has no effect: the http classifier counts it as a business outcome"

const idempotentOnly = "is approximated: only idempotent methods, and requests with an Idempotency-Key, are repeated after they may have been processed"

const suppliedBy = "needs the %s classifier and classes, without which nothing is retried: the clients of package %s register them, other code must"

// conditions that Envoy knows. Without an answer it counts as a gateway error, so network and timeout are part of those.
var conditions = map[string]condition{
	"5xx":                        {[]policy.Class{policy.ClassHTTP5xx, policy.ClassNetwork, policy.ClassTimeout}, ""},
	"gateway-error":              {[]policy.Class{"http_502", "http_503", "http_504", policy.ClassNetwork, policy.ClassTimeout}, ""},
	"reset":                      {[]policy.Class{policy.ClassNetwork, policy.ClassTimeout}, ""}, // failures to connect too: RetryStateImpl::wouldRetryFromReset
	"reset-before-request":       {[]policy.Class{policy.ClassConnectionRefused, policy.ClassDNS, policy.ClassTLS}, "is approximated by failures to connect"},
	"connect-failure":            {[]policy.Class{policy.ClassConnectionRefused, policy.ClassDNS, policy.ClassTLS}, ""},
	"envoy-ratelimited":          {[]policy.Class{"http_429"}, "is approximated by every 429: the x-envoy-ratelimited header is not read"},
	"retriable-4xx":              {[]policy.Class{"http_409"}, notRepeated},
	"retriable-status-codes":     {nil, ""}, // read from their own field
	"refused-stream":             {nil, "has no equivalent and is left out"},
	"retriable-headers":          {nil, "has no equivalent and is left out"},
	"http3-post-connect-failure": {nil, "has no equivalent and is left out"},
	"cancelled":                  {[]policy.Class{"grpc_canceled"}, ""},
	"deadline-exceeded":          {[]policy.Class{"grpc_deadline_exceeded"}, ""},
	"internal":                   {[]policy.Class{"grpc_internal"}, ""},
	"resource-exhausted":         {[]policy.Class{"grpc_resource_exhausted"}, ""},
	"unavailable":                {[]policy.Class{"grpc_unavailable"}, ""},
}

// conditions reads retry_on and retriable_status_codes.
func (r *reader) conditions(o object, to *policy.Retry) {
	path := o.at("retry_on")
	words := strings.FieldsFunc(o.text("retry_on"), func(c rune) bool { return c == ',' || c == ' ' })
	r.retryOn(path, words, r.statuses(o, "retriable_status_codes"), to)
}

// retryOn converts the words of retry_on. statuses stand for retriable-status-codes.
func (r *reader) retryOn(path string, words []string, statuses []policy.Class, to *policy.Retry) {
	grpc, http := false, false
	for _, word := range words {
		c, known := conditions[word]
		switch {
		case !known:
			r.lost(path, "%q is not known and is left out", word)
		case c.note != "":
			r.approximate(path, "%q %s", word, c.note)
		case word == "retriable-status-codes":
			c.classes = statuses
		}
		for _, class := range c.classes {
			if class.Within(policy.ClassGRPC) {
				grpc = true
			} else {
				http = true
			}
			if !slices.Contains(to.RetryOn, class) {
				to.RetryOn = append(to.RetryOn, class)
			}
		}
	}
	switch {
	case len(to.RetryOn) == 0:
		to.MaxAttempts = 1
		r.approximate(path, "nothing in it can be retried here; one attempt is made")
	case !http:
		for _, class := range to.RetryOn {
			grpcEffect(r, path, class)
		}
		to.ClassifierName = "grpc"
		r.remark(path, suppliedBy, "grpc", "tenetgrpc")
	default:
		if grpc {
			to.RetryOn = withoutGRPC(to.RetryOn)
			r.approximate(path, "mixes HTTP and gRPC conditions; those of gRPC are left out, which the http classifier does not know")
		}
		to.ClassifierName = "http"
		r.remark(path, suppliedBy, "http", "tenethttp")
		r.approximate(path, idempotentOnly)
	}
}

// withoutGRPC drops the classes that the http classifier does not know.
func withoutGRPC(list []policy.Class) []policy.Class {
	return slices.DeleteFunc(list, func(c policy.Class) bool { return c.Within(policy.ClassGRPC) })
}

// isBusinessOutcome reports whether the http classifier never repeats a request with this answer.
func isBusinessOutcome(status int) bool {
	return status >= 400 && status < 500 && status != 408 && status != 429
}

// statuses reads a list of status codes.
func (r *reader) statuses(o object, name string) []policy.Class {
	items, path := o.list(name)
	var list []policy.Class
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		n, _ := numberOf(item)
		status := int(n)
		if float64(status) != n || status < 100 || status > 599 {
			r.fault(at, "%v is not a status code from 100 to 599", quoted(item))
			continue
		}
		class := policy.HTTPClass(status)
		if class == "" {
			r.lost(at, "%d has no equivalent: it is a success", status)
			continue
		}
		if isBusinessOutcome(status) {
			r.approximate(at, "%s %s", class, notRepeated)
		}
		list = append(list, class)
	}
	return list
}
