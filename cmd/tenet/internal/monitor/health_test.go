//go:build unix

package monitor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestL9AFailingProbeGivesItsReason checks the bodies of failing health and readiness probes.
func TestL9AFailingProbeGivesItsReason(t *testing.T) {
	h, err := listen("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	hangs := func(context.Context) error { return errors.New("a fetch hangs") }
	handler := h.handler(t.Context(), hangs, Alive)
	for path, want := range map[string]int{"/livez": http.StatusServiceUnavailable, "/readyz": http.StatusOK, "/metrics": http.StatusOK} {
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, httptest.NewRequest(http.MethodGet, path, nil))
		if out.Code != want || path == "/livez" && out.Body.String() != "a fetch hangs\n" {
			t.Errorf("%s: %d %s", path, out.Code, out.Body)
		}
	}
}

// pipes is a listener for connections in this process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestAConnectionThatIsSilentIsClosed: each holds a descriptor of the worker.
func TestAConnectionThatIsSilentIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		deaf    bool // the client does not read the answer
	}{
		"after an answer":         {request: "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"},
		"in the middle of a body": {request: "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"},
		"during the answer":       {request: "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				connections := make(pipes)
				h := &Health{log: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry(), listener: connections}
				h.Serve(t.Context(), Alive, Alive)
				near, far := net.Pipe()
				connections <- far
				if _, err := io.WriteString(near, c.request); err != nil {
					t.Fatal(err)
				}
				if c.deaf {
					time.Sleep(10 * time.Minute)
				}
				_ = near.SetReadDeadline(time.Now().Add(10 * time.Minute))
				if answer, err := io.ReadAll(near); err != nil || c.deaf && len(answer) > 0 {
					t.Errorf("%q, %v", answer, err)
				}
				if err := errors.Join(near.Close(), h.close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// scarce is a listener that lacks descriptors once.
type scarce struct {
	net.Listener
	failed bool
}

func (s *scarce) Accept() (net.Conn, error) {
	if !s.failed {
		s.failed = true
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

// TestErrorsOfTheListenerAreLogLines: they would break a stream of JSON.
func TestErrorsOfTheListenerAreLogLines(t *testing.T) {
	var out strings.Builder
	h, err := listen("127.0.0.1:0", slog.New(slog.NewJSONHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h.listener = &scarce{Listener: h.listener}
	h.Serve(t.Context(), Alive, Alive)
	answer, err := http.Get("http://" + h.Address() + "/livez")
	if err == nil {
		err = answer.Body.Close()
	}
	if err := errors.Join(err, h.close()); err != nil {
		t.Fatal(err)
	}
	if line := out.String(); !strings.Contains(line, `"level":"WARN"`) || !strings.Contains(line, "too many open files") {
		t.Errorf("logged: %q", line)
	}
}
