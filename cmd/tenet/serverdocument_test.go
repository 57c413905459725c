package main

import (
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/controlplane/protocol"
)

// documentServer serves a signed document over conditional GETs, and keeps the reports that it gets.
func documentServer(t *testing.T) (address string, reports func() []*protocol.Report) {
	t.Helper()
	e := protocol.Envelope{
		Document: "shop", Revision: 7, Published: time.Now(),
		Body: "version: 1\npolicies: {run.false: {retry: {max_attempts: 2, backoff: 1ms}}}\nqueues: {mail: {concurrency: 3}}\n",
	}
	e.Sign(ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize))))
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []*protocol.Report
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret-token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodPost:
			body, _ := io.ReadAll(r.Body)
			report, err := protocol.ReadReport(body)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, report)
		case r.URL.Path != protocol.LivePath("shop"):
			w.WriteHeader(http.StatusNotFound)
		case r.Header.Get("Prefer") != "":
			<-r.Context().Done()
		default:
			w.Header().Set("ETag", protocol.ETag(data))
			_, _ = w.Write(data)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []*protocol.Report {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

func TestS4ARunFollowsADocumentOfAServerAndReports(t *testing.T) {
	address, reports := documentServer(t)
	env := map[string]string{"TENET_TOKEN": "secret-token"}
	cache := filepath.Join(t.TempDir(), "shop.json")
	run := func(env map[string]string, document string, args ...string) (int, string) {
		args = append([]string{"run", "--policy", document, "--policy-cache", cache}, args...)
		code, _, errs := runIn(t.Context(), env, "", append(args, "--timeline", "text", "--", "false")...)
		if strings.Contains(errs, "secret-token") {
			t.Errorf("the token is shown: %s", errs)
		}
		return code, errs
	}
	if code, errs := run(env, "server:"+address+"/shop", "--policy-label", "tier=batch"); code != 1 || !strings.Contains(errs, "2 attempts") {
		t.Errorf("code %d: %s", code, errs)
	}
	got := reports()
	if len(got) != 1 || got[0].Applied != 7 || got[0].Labels["tier"] != "batch" || len(got[0].Counters) != 1 ||
		got[0].Counters[0].Counters.Failures != 1 || got[0].Counters[0].Counters.ExtraAttempts != 1 {
		t.Errorf("%+v", got)
	}
	if code, errs := run(env, "server:http://127.0.0.1:1/shop"); code != 1 || !strings.Contains(errs, "2 attempts") {
		t.Errorf("from the cache: code %d: %s", code, errs)
	}
	if code, errs := run(env, "server:"+address+"/other"); code != cli.ExitNotFound {
		t.Errorf("another document: code %d: %s", code, errs)
	}
	for name, env := range map[string]map[string]string{"without a token": nil, "with another token": {"TENET_TOKEN": "x"}} {
		if code, errs := run(env, "server:"+address+"/none", "--policy-cache", ""); code != 6 || !strings.Contains(errs, "401") {
			t.Errorf("%s: code %d: %s", name, code, errs)
		}
	}
	for _, mistake := range []string{"server:shop", "server:ftp://x/shop", "server:http://x/a b"} {
		if code, errs := run(env, mistake); code != cli.ExitUsage {
			t.Errorf("%s: code %d: %s", mistake, code, errs)
		}
	}
	if code, errs := run(env, "server:"+address+"/shop", "--policy-key", "x"); code != cli.ExitUsage {
		t.Errorf("a bad key: code %d: %s", code, errs)
	}
}

// TestS4ACommandStartsBehindAProxyThatHoldsStreamsBack: it falls back to a GET after 10 s.
func TestS4ACommandStartsBehindAProxyThatHoldsStreamsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	t.Parallel()
	address, _ := documentServer(t)
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == protocol.TypeStream {
			<-r.Context().Done()
			return
		}
		time.Sleep(200 * time.Millisecond) // the way of the request and its answer
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	env := map[string]string{"TENET_TOKEN": "secret-token"}
	code, _, errs := runIn(t.Context(), env, "", "run", "--policy", "server:"+proxy.URL+"/shop", "--timeline", "text", "--", "false")
	if code != 1 || !strings.Contains(errs, "2 attempts") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestS4AWorkerFollowsADocumentOfAServer(t *testing.T) {
	address, reports := documentServer(t)
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	if code, _, errs := runIn(t.Context(), nil, "", "enqueue", "exec", `{"argv":["true"]}`, "--queue", "mail", "--store", store); code != 0 {
		t.Fatal(errs)
	}
	code, _, errs := runIn(t.Context(), nil, "", "worker", "--store", store, "--allow-exec", "--until-idle", "--policy", "server:"+address+"/shop", "--token", "secret-token")
	if code != 0 || !strings.Contains(errs, "mail=3") {
		t.Errorf("code %d: %s", code, errs)
	}
	if got := reports(); len(got) == 0 || got[len(got)-1].Counters[0].Counters.Calls != 1 {
		t.Errorf("%+v", got)
	}
}
