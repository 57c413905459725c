package httpjob

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, o Options, payload string) error {
	t.Helper()
	var p Payload
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		t.Fatal(err)
	}
	return Handler(o)(context.Background(), job.Job[Payload]{ID: "job-1", Payload: p})
}

func TestC6TheStatusDecides(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		expect     string
		ok         bool
		mark       classify.Mark
		pushback   time.Duration
	}{
		"200 is expected by default":    {status: 200, ok: true},
		"204 is expected by default":    {status: 204, ok: true},
		"another expected status":       {status: 404, expect: "404", ok: true},
		"a list of expected statuses":   {status: 409, expect: "[200,409]", ok: true},
		"200 is not an expected status": {status: 200, expect: "201", mark: classify.MarkBusiness},
		"503 is retried":                {status: 503},
		"503 with Retry-After":          {status: 503, retryAfter: "7", mark: classify.MarkAfter, pushback: 7 * time.Second},
		"429 with Retry-After":          {status: 429, retryAfter: "3", mark: classify.MarkAfter, pushback: 3 * time.Second},
		"500 ignores Retry-After":       {status: 500, retryAfter: "3"},
		"408 is retried":                {status: 408},
		"404 is final":                  {status: 404, mark: classify.MarkBusiness},
		"301 without Location is final": {status: 301, mark: classify.MarkBusiness},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Idempotency-Key") != "job-1" {
					t.Errorf("Idempotency-Key %q", r.Header.Get("Idempotency-Key"))
				}
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			expect := c.expect
			if expect == "" {
				expect = "null"
			}
			err := run(t, Options{Client: server.Client()}, `{"url":"`+server.URL+`","expect_status":`+expect+`}`)
			if c.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			mark, pushback := classify.MarkOf(err)
			if status, ok := errors.AsType[*tenethttp.StatusError](err); !ok || status.StatusCode != c.status || mark != c.mark || pushback != c.pushback {
				t.Errorf("%v: mark %v, pushback %v", err, mark, pushback)
			}
		})
	}
}

func TestTheRequestFollowsThePayload(t *testing.T) {
	var got *http.Request
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw := make([]byte, 100)
		n, _ := r.Body.Read(raw)
		got, body = r, string(raw[:n])
	}))
	defer server.Close()
	o := Options{Client: server.Client()}
	if err := run(t, o, `{"url":"`+server.URL+`/x","headers":{"X-A":"b","Content-Type":"application/cloudevents+json"},"body":{"n":1}}`); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.URL.Path != "/x" || got.Header.Get("X-A") != "b" || body != `{"n":1}` || got.Header.Get("Content-Type") != "application/cloudevents+json" {
		t.Errorf("%s %s %v %q", got.Method, got.URL, got.Header, body)
	}
	if err := run(t, o, `{"url":"`+server.URL+`","method":"put","body":"plain"}`); err != nil {
		t.Fatal(err)
	}
	if got.Method != "PUT" || body != "plain" {
		t.Errorf("%s %q", got.Method, body)
	}
}

func TestRequestsThatCannotBeBuiltAreDeadAtOnce(t *testing.T) {
	for _, payload := range []string{`{}`, `{"url":"ftp://x/"}`, `{"url":"/relative"}`, `{"url":"http://x/","method":"a b"}`,
		`{"url":"http://127.0.0.1:1/","headers":{"a b":"c"}}`, `{"url":"http://127.0.0.1:1/","headers":{"":"c"}}`,
		`{"url":"http://127.0.0.1:1/","headers":{"a":"b\nc: d"}}`, `{"url":"http://127.0.0.1:1/","headers":{"Host":"b\u0000"}}`,
	} {
		if mark, _ := classify.MarkOf(run(t, Options{AllowPrivateNetworks: true}, payload)); mark != classify.MarkPermanent {
			t.Errorf("%s: mark %v", payload, mark)
		}
	}
}

func TestPrivateAddressesAreRefusedAlsoAfterARedirect(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	err := run(t, Options{}, `{"url":"`+server.URL+`/secret-path?token=s3cret"}`)
	mark, _ := classify.MarkOf(err)
	if _, ok := errors.AsType[*ForbiddenAddressError](err); !ok || mark != classify.MarkPermanent {
		t.Errorf("loopback: %v", err)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error shows the URL: %v", err)
	}
	local := run(t, Options{}, strings.Replace(`{"url":"`+server.URL+`"}`, "127.0.0.1", "localhost", 1))
	if _, ok := errors.AsType[*ForbiddenAddressError](local); !ok {
		t.Errorf("localhost by name: %v", local)
	}
	if err := run(t, Options{AllowPrivateNetworks: true}, `{"url":"`+server.URL+`"}`); err != nil {
		t.Errorf("allowed: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestO3ARedirectKeepsThePayloadsHeadersFromOtherHosts: they may hold secrets, and so may the URL, which net/http would send as Referer.
func TestO3ARedirectKeepsThePayloadsHeadersFromOtherHosts(t *testing.T) {
	var got http.Header
	end := func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.WriteHeader(http.StatusTeapot)
	}
	other := httptest.NewServer(http.HandlerFunc(end))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/same", end)
	mux.Handle("/to-same", http.RedirectHandler("/same", http.StatusTemporaryRedirect))
	mux.Handle("/to-other", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.Handle("/endless", http.RedirectHandler("/endless", http.StatusTemporaryRedirect))
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, secret := range map[string]string{"/to-same": "s3cret", "/to-other": ""} {
		err := run(t, Options{AllowPrivateNetworks: true}, `{"url":"`+server.URL+path+`?token=t0ken","headers":{"X-Api-Key":"s3cret"},"body":{}}`)
		status, ok := errors.AsType[*tenethttp.StatusError](err)
		if !ok || status.StatusCode != http.StatusTeapot {
			t.Fatal(err)
		}
		if got.Get("X-Api-Key") != secret || got.Get("Idempotency-Key") != "job-1" || got.Get("Content-Type") != "application/json" || secret == "" && got.Get("Referer") != "" {
			t.Errorf("%s: %v", path, got)
		}
	}
	if err := run(t, Options{AllowPrivateNetworks: true}, `{"url":"`+server.URL+`/endless"}`); err == nil || !strings.Contains(err.Error(), "10 redirects") {
		t.Errorf("an endless redirect: %v", err)
	}
}

// TestO3ARedirectFromHTTPSToHTTPDropsThePayloadsHeaders: others may read what is sent there, also on the same host.
func TestO3ARedirectFromHTTPSToHTTPDropsThePayloadsHeaders(t *testing.T) {
	header := http.Header{"X-Api-Key": {"s3cret"}, "Content-Type": {"application/json"}}
	secure := &http.Request{URL: &url.URL{Scheme: "https", Host: "host"}}
	plain := &http.Request{URL: &url.URL{Scheme: "http", Host: "host"}, Header: header, Response: &http.Response{StatusCode: http.StatusFound}}
	if err := (&Payload{}).redirect(plain, []*http.Request{secure}); err != nil {
		t.Fatal(err)
	}
	if want := (http.Header{"Content-Type": {"application/json"}}); !maps.EqualFunc(header, want, slices.Equal) {
		t.Errorf("sent %v", header)
	}
	header.Set("X-Api-Key", "s3cret")
	plain.URL, secure.URL = secure.URL, plain.URL
	if err := (&Payload{}).redirect(plain, []*http.Request{secure}); err != nil || header.Get("X-Api-Key") == "" {
		t.Errorf("from http to https: %v, sent %v", err, header)
	}
}

func TestAnExpectedRedirectIsNotFollowed(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	defer server.Close()
	for expect, want := range map[string]string{`302`: "", `[200,302]`: "", `301`: "10 redirects"} {
		err := run(t, Options{AllowPrivateNetworks: true}, `{"url":"`+server.URL+`","expect_status":`+expect+`}`)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", expect, err)
		}
	}
}

func TestO3AnInvalidLocationIsNotShown(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://a b/?token=s3cret", http.StatusFound))
	defer server.Close()
	err := run(t, Options{AllowPrivateNetworks: true}, `{"url":"`+server.URL+`"}`)
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Location") {
		t.Error(err)
	}
}

func TestTheStoredResponseIsBounded(t *testing.T) {
	raw, err := json.Marshal(Response{Status: 200, Body: "x", Truncated: true})
	if err != nil || string(raw) != `{"status":200,"body":"x","truncated":true}` {
		t.Errorf("%s %v", raw, err)
	}
}

func TestABrokenConnectionIsRetriedByThePolicyOnly(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			return // leaves an idle connection to reuse
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}))
	defer server.Close()
	handle := Handler(Options{AllowPrivateNetworks: true})
	j := job.Job[Payload]{ID: "job-1", Payload: Payload{URL: server.URL, Body: json.RawMessage(`"x"`)}}
	if err := handle(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if err := handle(t.Context(), j); err == nil || requests.Load() != 2 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}
