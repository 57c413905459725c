package controlplane_test

import (
	"crypto/ed25519"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/policy"
)

// TestS4TheRecordedExchanges answers a client with what the server was recorded to answer, and compares what the client asks.
func TestS4TheRecordedExchanges(t *testing.T) {
	exchange := func(name string) (request, answer testhttp.Message) {
		t.Helper()
		request, answer, err := testhttp.ReadExchange(filepath.Join("protocol", "testdata", name+".http"))
		if err != nil {
			t.Fatal(err)
		}
		return request, answer
	}
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // guards asked
			asked := map[string]http.Header{}
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				name := "get"
				switch {
				case r.Method == http.MethodPost:
					name = "report"
				case r.Header.Get("Accept") == protocol.TypeStream:
					name = "stream"
				case r.Header.Get("Prefer") != "":
					name = "long-poll"
				}
				mu.Lock()
				if name != "stream" || asked[name] == nil { // it returns when the recorded stream falls silent
					asked[name] = r.Header
				}
				mu.Unlock()
				if name == "stream" && !streaming {
					w.WriteHeader(http.StatusNotAcceptable)
					return
				}
				if name == "long-poll" {
					select {
					case <-time.After(50 * time.Second):
					case <-r.Context().Done():
						return
					}
				}
				_, answer := exchange(name)
				for header, values := range answer.Header {
					w.Header()[header] = values
				}
				status, _ := strconv.Atoi(strings.Fields(answer.Start)[1])
				w.WriteHeader(status)
				_, _ = w.Write(answer.Body)
				if name == "stream" {
					_, _ = io.WriteString(w, "\n\n")
					<-r.Context().Done()
				}
			})
			p := follow(t, controlplane.ServerOptions{
				URL: "http://tenet.test", Document: "shop", ClientID: "web-1", Labels: map[string]string{"region": "eu", "tier": "web"},
				Keys: []ed25519.PublicKey{publicKey(signingKey('a'))}, Client: &http.Client{Transport: testhttp.Transport{Handler: handler}},
			})
			time.Sleep(70 * time.Second)
			got, err := p.Policy(t.Context(), policy.ParseKey("users.Get"))
			if status := p.Status(); err != nil || got.Retry.MaxAttempts != 4 || status.Number != 1 || status.LastError != nil {
				t.Errorf("%+v, %v, %+v", got, err, status)
			}
			closeProvider(t, p)
			mu.Lock()
			defer mu.Unlock()
			names := []string{"stream"}
			if !streaming {
				names = []string{"get", "long-poll"}
			}
			for _, name := range names {
				request, _ := exchange(name)
				if diff := cmp.Diff(request.Header, asked[name]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
	request, _ := exchange("report")
	if _, err := protocol.ReadReport(request.Body); err != nil {
		t.Error(err)
	}
}
