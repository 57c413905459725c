package tenethttp

import (
	"bufio"
	"context"
	"errors"
	"net"
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
// The same answer, with the type urn:tenet:shed:timeout, goes to a request that timed out if its handler returned without one.
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
			answer := &statusWriter{ResponseWriter: w}
			err := e.Do(r.Context(), o.Key(r), func(ctx context.Context) error {
				again := r.WithContext(ctx)
				defer func() { r.MultipartForm = again.MultipartForm }() // whose files the server removes
				next.ServeHTTP(answer, again)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				answer.begin(http.StatusOK) // as net/http does for a handler that writes nothing
				if answer.status >= http.StatusInternalServerError {
					return errServer
				}
				return nil
			}, retry.WithSingleAttempt())
			failure, failed := errors.AsType[*retry.Error](err)
			if !failed || answer.begun() {
				return
			}
			p := problem{
				of: "shed", status: http.StatusServiceUnavailable, name: string(failure.Reason),
				detail: "the request was not processed; try again", wait: max(failure.RetryAfter, minRetryAfter),
			}
			if failure.Attempts > 0 {
				p.name, p.detail = "timeout", "the request took too long; it may have been processed in part"
				w.Header().Del("Content-Length") // of the answer that the handler did not give
				w.Header().Del("Content-Encoding")
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

// begin notes the status, unless the final one is known.
func (w *statusWriter) begin(status int) {
	if !w.begun() {
		w.status = status
	}
}

// begun reports whether the final status is known; informational ones may come before it.
func (w *statusWriter) begun() bool { return w.status >= http.StatusOK }

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher, for handlers that look for it.
func (w *statusWriter) Flush() {
	w.begin(http.StatusOK)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, for handlers that look for it. Their answer is their own affair.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusOK)
	}
	return conn, rw, err
}

// Unwrap returns the server's writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
