package tenethttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// minRetryAfter is the shortest Retry-After of a refused request, for refusals that do not know when there is a place.
const minRetryAfter = time.Second

// ServerOptions configure [Shed]. Key is required.
type ServerOptions struct {
	// Executor admits the requests. Default retry.DefaultExecutor().
	Executor *retry.Executor
	// Key names the operation that a request asks for, for example by method and route. Its policy should not be that of a
	// call: keys such as "api.CreateOrder" keep the two apart. Keys are of low cardinality; never return a path with IDs.
	Key func(r *http.Request) policy.Key
}

// Shed admits requests to a handler under the limit, the breaker and the budget of their key's policy, and answers those that
// are refused with 503, a Retry-After of at least a second, and a problem document (RFC 9457). The handler did not run then.
//
// A request is one attempt, whatever the policy says: the handler is neither repeated nor hedged. The policy's timeouts end
// the request's context, and with max_wait a request waits in line. A status of 500 and above counts as a failure; the
// adaptive limit does not measure it. Panics of the handler reach the server unchanged. A request whose context ended while
// it waited gets 503 too, which usually nobody reads.
func Shed(o ServerOptions) func(http.Handler) http.Handler {
	argument.Need(o.Key != nil, "tenethttp: Shed: the key")
	return func(next http.Handler) http.Handler {
		argument.Need(next != nil, "tenethttp: Shed: the handler")
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := o.Executor
			if e == nil {
				e = retry.DefaultExecutor() // looked up per request, so that Shed may be called before retry.SetGlobal
			}
			err := e.Do(r.Context(), o.Key(r), func(ctx context.Context) error {
				answer := &statusWriter{ResponseWriter: w}
				next.ServeHTTP(answer, r.WithContext(ctx))
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case answer.status >= http.StatusInternalServerError:
					return errServer
				}
				return nil
			}, retry.WithSingleAttempt())
			failure, failed := errors.AsType[*retry.Error](err)
			if !failed || failure.Attempts > 0 {
				return // the handler has answered
			}
			p := problem{
				of: "shed", status: http.StatusServiceUnavailable, name: string(failure.Reason),
				detail: "the request was not processed; try again", wait: max(failure.RetryAfter, minRetryAfter),
			}
			p.write(w)
		})
	}
}

var errServer = errors.New("tenethttp: the handler answered with a status of 500 or above")

// statusWriter notes the status of an answer. http.ResponseController finds what the server's own writer can do.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 until one is written
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status < http.StatusOK { // informational statuses may come before the final one
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush implements http.Flusher, for handlers that look for it.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap returns the server's writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
