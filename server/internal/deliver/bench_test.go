package deliver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/server/internal/deliver"
	"github.com/tenetdev/tenet/server/internal/documents"
)

// BenchmarkConditionalGet compares the hub with a handler that answers the same bytes from memory.
func BenchmarkConditionalGet(b *testing.B) {
	store := memory.Open().Policies()
	text := "version: 1\npolicies:\n" + strings.Repeat("  # a comment of some length\n", 60) + "  users.Get: {retry: {max_attempts: 3}}\n"
	if _, err := documents.New(store, nil).Publish(b.Context(), documents.Change{Name: "shop"}, []byte(text), false); err != nil {
		b.Fatal(err)
	}
	hub := deliver.New(store, nil)
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	group.Go(func() { hub.Run(ctx) })
	defer group.Wait()
	defer cancel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/documents/{name}/live", hub.ServeLive)
	w := httptest.NewRecorder()
	for w.Code != http.StatusOK || w.Body.Len() == 0 {
		w = httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, protocol.LivePath("shop"), http.NoBody))
		time.Sleep(time.Millisecond)
	}
	body, etag := w.Body.Bytes(), w.Header().Get("ETag")
	bare := http.NewServeMux()
	bare.HandleFunc("GET /v1/documents/{name}/live", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", protocol.TypeJSON)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
	for _, tag := range []string{"", etag} {
		name := map[bool]string{true: "modified", false: "not modified"}[tag == ""]
		for _, side := range []struct {
			name    string
			handler http.Handler
		}{{"hub", mux}, {"bare", bare}} {
			b.Run(name+"/"+side.name, func(b *testing.B) { get(b, side.handler, tag) })
		}
	}
}

// get serves requests without sockets, which cost both sides the same.
func get(b *testing.B, handler http.Handler, tag string) {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, protocol.LivePath("shop"), http.NoBody)
	r.Header.Set(protocol.HeaderClient, "web-1")
	r.Header.Set(protocol.HeaderLabels, "region=eu&tier=web")
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(&discard{header: http.Header{}}, r)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header            { return d.header }
func (d *discard) Write(data []byte) (int, error) { return len(data), nil }
func (d *discard) WriteHeader(int)                {}
