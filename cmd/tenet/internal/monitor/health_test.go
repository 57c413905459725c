//go:build unix

package monitor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestL9AFailingProbeGivesItsReason checks the bodies of failing health and readiness probes.
func TestL9AFailingProbeGivesItsReason(t *testing.T) {
	h, err := listen("127.0.0.1:0")
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
