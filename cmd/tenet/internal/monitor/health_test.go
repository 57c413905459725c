//go:build unix

package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
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
