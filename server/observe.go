package server

import (
	"cmp"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/server/api"
)

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observe counts requests, bounds the time of their connections, sets headers that all answers have, and answers a panic with 500.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, out := time.Now(), &statusWriter{ResponseWriter: w}
		s.metrics.open.Inc()
		control := http.NewResponseController(w) // not all writers have deadlines
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(start.Add(callTime)) // also of what nobody reads, which net/http waits for
		}
		_ = control.SetWriteDeadline(start.Add(writeTime)) // in place of that of the connection's last request
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		defer func() {
			p := recover()
			abort := p != nil && (p == http.ErrAbortHandler || out.status != 0) // an answer that was cut off must not look complete
			if p != nil && p != http.ErrAbortHandler {
				s.options.Logger.ErrorContext(r.Context(), "a request panicked", "pattern", r.Pattern, "panic", p, "stack", string(debug.Stack()))
				if out.status == 0 {
					(&problem{Problem: api.Problem{Status: http.StatusInternalServerError, Detail: "the server has a fault; its log says more"}}).write(out)
				}
			}
			name := s.operationOf(r)
			s.metrics.open.Dec()
			s.metrics.requests.WithLabelValues(name, strconv.Itoa(out.status)).Inc()
			s.metrics.seconds.WithLabelValues(name).Observe(time.Since(start).Seconds())
			if abort {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// operationOf names the operation that a request matched.
func (s *Server) operationOf(r *http.Request) string {
	if o := s.mux.declared[r.Pattern]; o != nil {
		return o.OperationID
	}
	return "none"
}
