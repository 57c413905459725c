package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

func TestAWorkerSendsTracesAndMetricsToACollector(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]byte{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		got[req.URL.Path] = append(got[req.URL.Path], body...)
	}))
	defer collector.Close()
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	if code, _, errs := runIn(t.Context(), nil, "", "enqueue", "exec", `{"argv":["true"]}`, "--store", store); code != 0 {
		t.Fatal(errs)
	}
	code, _, errs := runIn(t.Context(), nil, "", "worker", "--store", store, "--allow-exec", "--until-idle", "--otlp", collector.URL+"/")
	if code != 0 || strings.Contains(errs, "collector") {
		t.Errorf("code %d: %s", code, errs)
	}
	mu.Lock()
	defer mu.Unlock()
	for path, want := range map[string]string{"/v1/traces": "job/default.exec", "/v1/metrics": "tenet."} {
		if !bytes.Contains(got[path], []byte(want)) || !bytes.Contains(got[path], []byte("tenet-worker")) {
			t.Errorf("%s got %d bytes without %q", path, len(got[path]), want)
		}
	}
}

func TestAnOTLPAddressIsAnHTTPURL(t *testing.T) {
	for _, address := range []string{"localhost:4318", "grpc://localhost:4317", "http://"} {
		if code, _, errs := runIn(t.Context(), nil, "", "worker", "--store", "memory:", "--otlp", address); code != cli.ExitUsage || !strings.Contains(errs, "--otlp: write the URL") {
			t.Errorf("%s: code %d: %s", address, code, errs)
		}
	}
}
