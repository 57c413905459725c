package tenethttp

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
)

const idempotencyKey = "Idempotency-Key"

// StatusError is an answer that is not a success. It never holds headers, a query or a body.
type StatusError struct {
	Method     string // "" is GET, as in net/http
	Host       string
	StatusCode int
	// RetryAfter is the wait that the server asked for with a 429 or 503, otherwise 0.
	RetryAfter time.Duration
	// IdempotencyKey says whether the request had an idempotency key.
	IdempotencyKey bool

	response *http.Response
}

// NewStatusError describes the answer resp, whatever its status. It is meant for operations that send requests
// themselves and return errors that [Classifier] understands. After redirects, method, host and key are those of the first
// request. The body of resp is not touched.
func NewStatusError(resp *http.Response) *StatusError {
	argument.Need(resp != nil, "tenethttp: NewStatusError: the response")
	e := &StatusError{StatusCode: resp.StatusCode, RetryAfter: retryAfter(resp, time.Now()), response: resp}
	req := resp.Request
	for req != nil && req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	if req != nil {
		e.Method, e.Host, e.IdempotencyKey = req.Method, hostOf(req), req.Header.Get(idempotencyKey) != ""
	}
	return e
}

// Error names method, host and status.
func (e *StatusError) Error() string {
	method := cmp.Or(e.Method, http.MethodGet)
	return strings.TrimSpace(fmt.Sprintf("http: %s: %d %s", strings.TrimSpace(method+" "+e.Host), e.StatusCode, http.StatusText(e.StatusCode)))
}

// Marked returns the error with a mark of what it means for a request that may be repeated whatever its method: 408, 429 and
// 5xx can be retried, not before RetryAfter, and any other answer is a business error.
func (e *StatusError) Marked() error {
	switch {
	case !transient(e.StatusCode):
		return classify.Business(e)
	case e.RetryAfter > 0:
		return classify.After(e, e.RetryAfter)
	}
	return e
}

func (e *StatusError) repeatable() bool { return e.IdempotencyKey || idempotent(e.Method) }

// idempotent reports whether a method may be repeated by its definition (RFC 9110, section 9.2.2).
func idempotent(method string) bool {
	switch strings.ToUpper(method) {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// transient reports whether a status may be different next time.
func transient(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// retryAfter reads the header of that name (RFC 9110, section 10.2.3) from a 429 or 503. A date counts from the answer's
// own Date, so that the clocks need not agree. Of several values, in one field or more, the longest wait counts.
func retryAfter(resp *http.Response, now time.Time) (longest time.Duration) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	parts := strings.Split(strings.Join(resp.Header.Values("Retry-After"), ","), ",")
	for i, part := range parts {
		longest = max(longest, waitOf(part, now))
		if i > 0 { // dates hold a comma
			longest = max(longest, waitOf(parts[i-1]+","+part, now))
		}
	}
	return longest
}

// waitOf reads a number of seconds or a date. An invalid value or a time in the past is 0.
func waitOf(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}
