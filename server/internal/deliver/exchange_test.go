package deliver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/internal/deliver"
	"github.com/tenetdev/tenet/server/internal/documents"
)

var update = flag.Bool("update", false, "record the exchanges of the protocol anew")

const recorded = "../../../controlplane/protocol/testdata"

// TestS4TheRecordedExchanges repeats the exchanges that the protocol's description shows, with a signing key that everyone
// knows. Clients are tested with the same files.
func TestS4TheRecordedExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		seed, _ := json.Marshal(map[string]any{"seed": []byte(strings.Repeat("a", 32)), "since": "2000-01-01T00:00:00Z"})
		if _, err := store.SaveSetting(t.Context(), policystore.Setting{Name: "signing-keys", Value: seed}); err != nil {
			t.Fatal(err)
		}
		hub := deliver.New(store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { hub.Run(ctx) })
		p := &plane{t: t, store: &broken{Store: store}, docs: documents.New(store, nil), hub: hub}
		p.publish("shop", 4, nil)
		etag := p.get("shop").Header.Get("ETag")

		who := http.Header{protocol.HeaderClient: {"web-1"}, protocol.HeaderLabels: {"region=eu&tier=web"}}
		headers := func(more ...string) http.Header {
			h := who.Clone()
			for i := 0; i < len(more); i += 2 {
				h.Set(more[i], more[i+1])
			}
			return h
		}
		report := `{"client":"web-1","session":"K7QX2B","labels":{"region":"eu","tier":"web"},"applied":1,"staleness":0.25,"sequence":1,` +
			`"counters":[{"revision":1,"counters":{"calls":3,"failures":1,"extra_attempts":2,"latency":[128,2,17,1]}}],` +
			`"mechanisms":[{"kind":"breaker","name":"users.Get","state":"open","seconds":12.5,"openings":1,"refusals":40}],` +
			`"pipelines":[{"kind":"consumer","name":"orders","source":"rabbitmq","seconds":3600,"rate":2.5,"fetched":40,"success":30,"exception":1,` +
			`"failed":0,"redelivered":2,"retries":5,"in_flight":7,"lag":120,"lag_known":true}]}`
		for _, exchange := range []struct {
			name, method, path, body string
			header                   http.Header
		}{
			{name: "get", method: http.MethodGet, path: protocol.LivePath("shop"), header: headers()},
			{name: "not-modified", method: http.MethodGet, path: protocol.LivePath("shop"), header: headers("If-None-Match", etag, protocol.HeaderApplied, "1")},
			{name: "long-poll", method: http.MethodGet, path: protocol.LivePath("shop"), header: headers("If-None-Match", etag, protocol.HeaderApplied, "1", "Prefer", "wait=50")},
			{name: "stream", method: http.MethodGet, path: protocol.LivePath("shop"), header: headers("Accept", protocol.TypeStream)},
			{name: "unknown", method: http.MethodGet, path: protocol.LivePath("other"), header: headers()},
			{name: "report", method: http.MethodPost, path: protocol.ReportsPath("shop"), header: http.Header{"Content-Type": {protocol.TypeJSON}}, body: report},
		} {
			within, stop := context.WithCancel(t.Context())
			q := httptest.NewRequestWithContext(within, exchange.method, exchange.path, strings.NewReader(exchange.body))
			q.Header = exchange.header
			w := httptest.NewRecorder()
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.handler().ServeHTTP(w, q)
			}()
			synctest.Wait()
			if exchange.name == "stream" {
				stop() // after the first revision
			}
			<-done
			stop()
			got := testhttp.Format(
				testhttp.Message{Start: fmt.Sprintf("%s %s HTTP/1.1", exchange.method, exchange.path), Header: exchange.header, Body: []byte(exchange.body)},
				testhttp.Message{Start: fmt.Sprintf("HTTP/1.1 %d %s", w.Code, http.StatusText(w.Code)), Header: w.Result().Header, Body: w.Body.Bytes()})
			path := filepath.Join(recorded, exchange.name+".http")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s", path, cmp.Diff(string(want), string(got)))
			}
		}
		cancel()
		group.Wait()
	})
}
