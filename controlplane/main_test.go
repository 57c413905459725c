package controlplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	getUser = policy.ParseKey("user-service.GetUser")
	putUser = policy.ParseKey("user-service.PutUser")
)

// plane is a control plane without sockets, so that it works in virtual time.
type plane struct {
	mu      sync.Mutex
	bodies  map[string]string // by escaped path
	seen    []string          // requests: path, and the status they got
	status  int               // instead of an answer
	fault   error             // instead of an answer
	hang    bool              // until the request's context ends
	latency time.Duration
	header  http.Header // of the last request
	flights atomic.Int32
}

func newPlane() *plane { return &plane{bodies: map[string]string{}} }

func (p *plane) set(change func(*plane)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *plane) serve(path, body string) { p.set(func(p *plane) { p.bodies[path] = body }) }

func (p *plane) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.seen...)
}

func (p *plane) client() *http.Client { return &http.Client{Transport: p} }

func (p *plane) RoundTrip(r *http.Request) (*http.Response, error) {
	p.flights.Add(1)
	defer p.flights.Add(-1)
	p.mu.Lock()
	latency, hang, fault := p.latency, p.hang, p.fault
	p.header = r.Header.Clone()
	p.mu.Unlock()
	note := func(what any) {
		p.set(func(p *plane) { p.seen = append(p.seen, fmt.Sprint(r.URL.EscapedPath(), " ", what)) })
	}
	if hang {
		<-r.Context().Done()
		note("hang")
		return nil, r.Context().Err()
	}
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-r.Context().Done():
			note("cancelled")
			return nil, r.Context().Err()
		}
	}
	if fault != nil {
		note("fault")
		return nil, fault
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	note(w.Code)
	return w.Result(), nil
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	body, found := p.bodies[r.URL.EscapedPath()]
	status := p.status
	p.mu.Unlock()
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body)))
	switch {
	case status != 0:
		w.WriteHeader(status)
	case !found:
		http.NotFound(w, r)
	case r.Header.Get("If-None-Match") == etag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("ETag", etag)
		_, _ = io.WriteString(w, body)
	}
}

// faults collects what OnError is told.
type faults struct {
	mu   sync.Mutex
	list []error
}

func (f *faults) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, err)
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list)
}

func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.list...).Error()
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newRemote(t *testing.T, p *plane, o RemoteOptions) *Remote {
	t.Helper()
	o = withPlane(p, o)
	r, err := NewRemote(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func newRemoteDocument(t *testing.T, p *plane, o RemoteOptions) *RemoteDocument {
	t.Helper()
	r, err := NewRemoteDocument(withPlane(p, o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func withPlane(p *plane, o RemoteOptions) RemoteOptions {
	o.URL, o.Client = "https://plane.example/api/", p.client()
	if o.Logger == nil {
		o.Logger = silent()
	}
	return o
}

// ask fails the test where the answer is not what is wanted: attempts 0 stands for no policy.
func ask(t *testing.T, p policy.Provider, key policy.Key, attempts int, source policy.Source, wantErr error) *policy.Policy {
	t.Helper()
	got, err := p.Policy(context.Background(), key)
	if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
		t.Fatalf("error of %s: %v, want %v", key, err, wantErr)
	}
	switch {
	case attempts == 0 && got == nil:
	case got == nil || attempts == 0:
		t.Fatalf("policy of %s: %+v, want %d attempts", key, got, attempts)
	case got.Retry.MaxAttempts != attempts || got.Meta.Source != source || got.Key != key || !got.Compiled():
		t.Fatalf("policy of %s: key %s, %d attempts from %q, compiled %t; want %d from %q",
			key, got.Key, got.Retry.MaxAttempts, got.Meta.Source, got.Compiled(), attempts, source)
	}
	return got
}

// elapsed is how much virtual time f takes.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func documentOf(attempts int) string {
	return fmt.Sprintf("version: 1\npolicies:\n  user-service.GetUser: {retry: {max_attempts: %d}}\n", attempts)
}

func policyOf(attempts int) string { return fmt.Sprintf(`{"retry":{"max_attempts":%d}}`, attempts) }

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}
