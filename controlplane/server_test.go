package controlplane_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func signingKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(seed), ed25519.SeedSize)))
}

func publicKey(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// server is the other side of the protocol: as simple as can be, and as faulty as a test wants.
type server struct {
	mu       sync.Mutex
	envelope []byte
	changed  chan struct{} // closed and replaced with every envelope
	reports  []protocol.Report
	requests map[string]int // by way

	down, noStream, silentStream, noWait atomic.Bool
	retryAfter                           string // in seconds, of answers while it is down
}

func newServer() *server {
	return &server{changed: make(chan struct{}), requests: map[string]int{}, retryAfter: "20"}
}

func document(attempts int) string {
	return fmt.Sprintf("version: 1\npolicies:\n  users.Get: {retry: {max_attempts: %d}}\n", attempts)
}

func envelope(revision int64, attempts int, by ed25519.PrivateKey) protocol.Envelope {
	e := protocol.Envelope{Document: "shop", Revision: revision, Body: document(attempts), Published: time.Unix(revision, 0)}
	e.Sign(by)
	return e
}

func (s *server) send(e protocol.Envelope) {
	data, err := e.Encode()
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.envelope = data
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) now() (data []byte, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.envelope, s.changed
}

func (s *server) count(way string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[way]
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, changed := s.now()
	wait := protocol.ParseWait(r.Header.Get("Prefer"))
	isStream := r.Header.Get("Accept") == protocol.TypeStream
	way := map[bool]string{true: "poll", false: "get"}[wait > 0]
	if isStream {
		way = "stream"
	}
	if r.Method == http.MethodPost {
		way = "report"
	}
	s.mu.Lock()
	s.requests[way]++
	s.mu.Unlock()
	switch {
	case s.down.Load():
		w.Header().Set("Retry-After", s.retryAfter)
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Header.Get("Authorization") != "Bearer secret":
		w.WriteHeader(http.StatusUnauthorized)
	case way == "report":
		body, _ := io.ReadAll(r.Body)
		report, err := protocol.ReadReport(body)
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		s.mu.Lock()
		s.reports = append(s.reports, *report)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case isStream:
		s.stream(w, r)
	default:
		if wait > 0 && !s.noWait.Load() && r.Header.Get("If-None-Match") == protocol.ETag(data) {
			select {
			case <-changed:
			case <-time.After(wait):
			case <-r.Context().Done():
				return
			}
			data, _ = s.now()
		}
		w.Header().Set("ETag", protocol.ETag(data))
		if r.Header.Get("If-None-Match") == protocol.ETag(data) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(data)
	}
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if s.noStream.Load() {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", protocol.TypeStream)
	w.WriteHeader(http.StatusOK)
	if s.silentStream.Load() {
		<-r.Context().Done()
		return
	}
	heartbeat := time.NewTicker(protocol.Heartbeat)
	defer heartbeat.Stop()
	sent := r.Header.Get("If-None-Match")
	_, _ = io.WriteString(w, ":\n\n")
	for !s.down.Load() {
		data, changed := s.now()
		if tag := protocol.ETag(data); tag != sent {
			if _, err := w.Write(protocol.Event(1, data)); err != nil {
				return
			}
			sent = tag
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-heartbeat.C:
			_, _ = io.WriteString(w, ":\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) options() controlplane.ServerOptions {
	return controlplane.ServerOptions{
		URL: "http://tenet.test", Document: "shop", Token: "secret", ClientID: "web-1", Client: &http.Client{Transport: testhttp.Transport{Handler: s}},
	}
}

// follow makes a provider, which is closed at the end of the test.
func follow(t *testing.T, o controlplane.ServerOptions) *controlplane.Server {
	t.Helper()
	p, err := controlplane.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeProvider(t, p) })
	synctest.Wait()
	return p
}

// following runs a test in a bubble, with a provider of the first revision of a server.
func following(t *testing.T, run func(t *testing.T, s *server, p *controlplane.Server)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.send(envelope(1, 3, signingKey('a')))
		run(t, s, follow(t, s.options()))
	})
}

func closeProvider(t *testing.T, p *controlplane.Server) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// check asks for the policy of a key and compares the attempts and the error.
func check(t *testing.T, p policy.Provider, attempts int, want error) {
	t.Helper()
	got, err := p.Policy(t.Context(), policy.ParseKey("users.Get"))
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if got == nil || got.Retry.MaxAttempts != attempts {
		t.Errorf("got %+v, want %d attempts", got, attempts)
	}
}

func TestS4AStreamBringsRevisionsAtOnce(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		check(t, p, 3, nil)
		version := p.Version()
		s.send(envelope(2, 4, signingKey('a')))
		synctest.Wait()
		check(t, p, 4, nil)
		if p.Version() == version || p.Set() == nil || p.Status().Number != 2 {
			t.Errorf("%+v", p.Status())
		}
		version = p.Version()
		s.send(envelope(3, 4, signingKey('a'))) // the same content anew
		synctest.Wait()
		if p.Version() != version || p.Status().Number != 3 {
			t.Errorf("version %d, then %d, %+v", version, p.Version(), p.Status())
		}
		time.Sleep(time.Hour)
		if stale := p.Status().Staleness; stale > protocol.Heartbeat || s.count("stream") != 1 {
			t.Errorf("stale for %v after %d streams", stale, s.count("stream"))
		}
	})
}

func TestS4FallingBackAndReturning(t *testing.T) {
	for name, set := range map[string]func(*server){
		"refused": func(s *server) { s.noStream.Store(true) },
		"silent":  func(s *server) { s.silentStream.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.send(envelope(1, 3, signingKey('a')))
				set(s)
				p := follow(t, s.options())
				time.Sleep(15 * time.Second)
				check(t, p, 3, nil)
				s.send(envelope(2, 4, signingKey('a')))
				synctest.Wait()
				check(t, p, 4, nil)
				if s.count("poll") == 0 {
					t.Error("no long poll")
				}
				s.noStream.Store(false)
				s.silentStream.Store(false)
				time.Sleep(10 * time.Minute)
				polls := s.count("poll")
				s.send(envelope(3, 5, signingKey('a')))
				time.Sleep(10 * time.Minute)
				check(t, p, 5, nil)
				if s.count("poll") != polls {
					t.Error("it did not return to the stream")
				}
			})
		})
	}
}

func TestS4AServerThatDoesNotWaitIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.noStream.Store(true)
		s.noWait.Store(true)
		s.send(envelope(1, 3, signingKey('a')))
		p := follow(t, s.options())
		time.Sleep(time.Minute)
		s.send(envelope(2, 4, signingKey('a')))
		time.Sleep(40 * time.Second)
		check(t, p, 4, nil)
		time.Sleep(time.Hour)
		if n := s.count("poll") + s.count("get"); n > 160 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

func TestS4BadRevisionsAreRefused(t *testing.T) {
	a, b := signingKey('a'), signingKey('b')
	tampered := envelope(3, 9, a)
	tampered.Body = document(8)
	another := envelope(3, 9, a)
	another.Document = "other"
	another.Sign(a)
	large := envelope(3, 9, a)
	large.Body = strings.Repeat(" ", 2*protocol.MaxEnvelope)
	large.Sign(a)
	for name, bad := range map[string]protocol.Envelope{
		"tampered": tampered, "signed by another key": envelope(3, 9, b), "older": envelope(1, 9, a), "same number": envelope(2, 9, a), "another document": another,
		"too large": large,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.send(envelope(2, 3, a))
				o := s.options()
				var faults atomic.Int64
				o.OnError = func(error) { faults.Add(1) }
				p := follow(t, o)
				s.send(bad)
				time.Sleep(time.Minute)
				check(t, p, 3, policy.ErrPolicyFetchFailed)
				if faults.Load() == 0 || p.Status().LastError == nil {
					t.Error("nobody was told")
				}
				if n := s.count("stream"); n > 20 {
					t.Errorf("%d requests in a minute", n)
				}
				s.send(envelope(4, 5, a))
				time.Sleep(time.Minute)
				check(t, p, 5, nil)
			})
		})
	}
}

func TestS4AnEndorsedKeyIsFollowed(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a, b, c := signingKey('a'), signingKey('b'), signingKey('c')
			s := newServer()
			s.send(envelope(1, 3, a))
			o := s.options()
			if pinned {
				o.Keys = []ed25519.PublicKey{publicKey(a)}
			}
			p := follow(t, o)
			rotated := envelope(2, 4, b)
			rotated.Endorsements = []protocol.Endorsement{protocol.Endorse(a, publicKey(b))}
			s.send(rotated)
			synctest.Wait()
			check(t, p, 4, nil)
			s.send(envelope(3, 5, c))
			time.Sleep(time.Minute)
			check(t, p, 4, policy.ErrPolicyFetchFailed)
		})
	}
}

func TestS4ARestartWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.send(envelope(5, 3, signingKey('a')))
		o := s.options()
		o.ClientID = ""
		o.CachePath = filepath.Join(t.TempDir(), "shop.json")
		p := follow(t, o)
		id := p.Status().ClientID
		closeProvider(t, p)

		s.down.Store(true)
		p = follow(t, o)
		check(t, p, 3, policy.ErrProviderUnavailable)
		got, _ := p.Policy(t.Context(), policy.ParseKey("users.Get"))
		if got.Meta.Source != policy.SourceLKG || p.Status().Number != 5 || p.Status().ClientID != id || id == "" {
			t.Errorf("%+v, %+v", got.Meta, p.Status())
		}
		s.down.Store(false)
		s.send(envelope(4, 9, signingKey('a'))) // played back
		time.Sleep(2 * time.Minute)
		check(t, p, 3, policy.ErrPolicyFetchFailed)
		s.send(envelope(6, 4, signingKey('b'))) // another server's key
		time.Sleep(2 * time.Minute)
		check(t, p, 3, policy.ErrPolicyFetchFailed)
		s.send(envelope(6, 4, signingKey('a')))
		time.Sleep(2 * time.Minute)
		check(t, p, 4, nil)
		closeProvider(t, p)
		if info, err := os.Stat(o.CachePath); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	})
}

func TestS4ATamperedCopyOnDiskIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.send(envelope(5, 3, signingKey('a')))
		o := s.options()
		o.CachePath = filepath.Join(t.TempDir(), "shop.json")
		closeProvider(t, follow(t, o))
		data, err := os.ReadFile(o.CachePath)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), "max_attempts: 3", "max_attempts: 9", 1)
		if changed == string(data) {
			t.Fatal("nothing to change")
		}
		if err := os.WriteFile(o.CachePath, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		s.down.Store(true)
		var fault atomic.Pointer[error]
		o.OnError = func(err error) { fault.CompareAndSwap(nil, &err) }
		p := follow(t, o)
		if _, err := p.Policy(t.Context(), policy.ParseKey("users.Get")); !errors.Is(err, policy.ErrProviderUnavailable) || p.Set() != nil {
			t.Errorf("%v, %v", err, p.Set())
		}
		if err := fault.Load(); err == nil || !errors.Is(*err, protocol.ErrTampered) {
			t.Errorf("told %v", err)
		}
	})
}

// TestS4ClocksMayDiffer: numbers order revisions, times do not.
func TestS4ClocksMayDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := follow(t, s.options())
		for i, published := range []time.Time{time.Now().AddDate(10, 0, 0), time.Now().AddDate(-10, 0, 0), {}} {
			e := envelope(int64(i+1), 3+i, signingKey('a'))
			e.Published = published
			e.Sign(signingKey('a'))
			s.send(e)
			time.Sleep(time.Minute)
			check(t, p, 3+i, nil)
		}
		if stale := p.Status().Staleness; stale < 0 || stale > protocol.Heartbeat {
			t.Errorf("stale for %v", stale)
		}
	})
}

func TestS3WhatCannotBeUsedIsRefusedAndReported(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		bad := protocol.Envelope{Document: "shop", Revision: 2, Body: "version: 1\nnonsense: true\n"}
		bad.Sign(signingKey('a'))
		s.send(bad)
		time.Sleep(10 * time.Second)
		check(t, p, 3, policy.ErrPolicyFetchFailed)
		s.mu.Lock()
		last := s.reports[len(s.reports)-1]
		s.mu.Unlock()
		if last.Applied != 1 || last.Refused != 2 || !strings.Contains(last.Reason, "nonsense") || last.Client != "web-1" {
			t.Errorf("%+v", last)
		}
		if status := p.Status(); status.Number != 1 || status.Refused != 2 {
			t.Errorf("%+v", status)
		}
		s.send(envelope(3, 4, signingKey('a')))
		time.Sleep(10 * time.Second)
		check(t, p, 4, nil)
	})
}

// TestS9AServerCannotSendItsClientsAwayForLong: a wrong Retry-After does not keep them from the next revision.
func TestS9AServerCannotSendItsClientsAwayForLong(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		s.retryAfter = "86400"
		s.down.Store(true)
		s.send(envelope(2, 4, signingKey('a'))) // ends the stream
		time.Sleep(time.Minute)
		s.down.Store(false)
		time.Sleep(8 * time.Minute)
		check(t, p, 4, nil)
	})
}

func TestS9ClientsDecideOnThroughAnOutage(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		s.down.Store(true)
		s.send(envelope(2, 4, signingKey('a'))) // ends the stream
		time.Sleep(5 * time.Minute)
		check(t, p, 3, policy.ErrProviderUnavailable)
		if stale := p.Status().Staleness; stale < 5*time.Minute-time.Second {
			t.Errorf("stale for %v", stale)
		}
		if n := s.count("stream"); n > 20 { // Retry-After is 20 s
			t.Errorf("%d requests in five minutes", n)
		}
		s.down.Store(false)
		time.Sleep(time.Minute)
		check(t, p, 4, nil)
	})
}

func TestS9HundredsOfReconnectsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.send(envelope(1, 3, signingKey('a')))
		var providers []*controlplane.Server
		for range 400 {
			providers = append(providers, follow(t, s.options()))
		}
		s.down.Store(true)
		s.send(envelope(2, 4, signingKey('a')))
		synctest.Wait()
		s.down.Store(false)
		before, most := s.count("stream"), 0
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			now := s.count("stream")
			most, before = max(most, now-before), now
		}
		if total := s.count("stream"); total < 800 || most > 24 {
			t.Errorf("%d streams, at most %d within 100 ms", total, most)
		}
		for _, p := range providers {
			check(t, p, 4, nil)
			_ = p.Close()
		}
		synctest.Wait()
	})
}

func TestS2CallsAreCountedByRevision(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		call := func(started time.Time, failed bool, attempts int) {
			timeline := observe.Timeline{Start: started, End: time.Now(), Attempts: make([]observe.AttemptRecord, attempts), Reason: policy.ReasonSuccess}
			if failed {
				timeline.Reason, timeline.FinalError = policy.ReasonAttemptsExhausted, errors.New("failed")
			}
			p.Observer().Observe(t.Context(), &observe.Event{Type: observe.CallEnded, Timeline: &timeline, Policy: &policy.Policy{}})
		}
		began := time.Now()
		time.Sleep(time.Millisecond)
		call(began, false, 1)
		call(began, true, 3)
		p.Observer().Observe(t.Context(), &observe.Event{Type: observe.CircuitChanged, Circuit: &observe.CircuitChange{From: "closed", To: "open"}})
		s.down.Store(true) // reports fail for a while
		time.Sleep(20 * time.Second)
		s.down.Store(false)
		s.send(envelope(2, 4, signingKey('a')))
		time.Sleep(time.Minute)
		call(began, true, 1) // it began under revision 1, which nobody compares any more
		call(time.Now(), false, 1)
		closeProvider(t, p) // the last report leaves now
		s.mu.Lock()
		defer s.mu.Unlock()
		sums := map[int64][4]int64{}
		sequence := int64(0)
		for _, r := range s.reports {
			if r.Sequence != sequence+1 {
				t.Errorf("report %d after %d", r.Sequence, sequence)
			}
			sequence = r.Sequence
			for _, c := range r.Counters {
				n := sums[c.Revision]
				sums[c.Revision] = [4]int64{n[0] + c.Counters.Calls, n[1] + c.Counters.Failures, n[2] + c.Counters.ExtraAttempts, n[3] + c.Counters.Openings}
			}
		}
		if sums[1] != [4]int64{2, 1, 2, 1} || sums[2] != [4]int64{1, 0, 0, 0} {
			t.Errorf("%v", sums)
		}
	})
}

func TestO3ATokenIsNeverShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		o := s.options()
		o.Token = "another-secret-token"
		var shown strings.Builder
		o.OnError = func(err error) { shown.WriteString(err.Error()) }
		p := follow(t, o)
		time.Sleep(time.Minute)
		_, err := p.Policy(context.Background(), policy.ParseKey("a"))
		fmt.Fprintf(&shown, "%v %v %#v %+v", err, o, o, p.Status())
		if !strings.Contains(shown.String(), "401") || strings.Contains(shown.String(), o.Token) {
			t.Errorf("%s", shown.String())
		}
	})
}

func TestNewServerChecksItsOptions(t *testing.T) {
	for name, o := range map[string]controlplane.ServerOptions{
		"no URL":        {Document: "shop"},
		"no document":   {URL: "http://x.test"},
		"a path":        {URL: "http://x.test", Document: "a/b"},
		"bad client ID": {URL: "http://x.test", Document: "shop", ClientID: "a\nb"},
		"bad labels":    {URL: "http://x.test", Document: "shop", Labels: map[string]string{"zone": "a\nb"}},
		"bad token":     {URL: "http://x.test", Document: "shop", Token: "a\n"},
	} {
		if p, err := controlplane.NewServer(o); err == nil {
			t.Errorf("%s: accepted", name)
			_ = p.Close()
		}
	}
}

func BenchmarkObserver(b *testing.B) {
	s := newServer()
	s.send(envelope(1, 3, signingKey('a')))
	p, err := controlplane.NewServer(s.options())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for p.Status().Number == 0 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	event := &observe.Event{
		Type: observe.CallEnded, Policy: &policy.Policy{},
		Timeline: &observe.Timeline{Start: began, End: began.Add(time.Millisecond), Attempts: make([]observe.AttemptRecord, 1), Reason: policy.ReasonSuccess},
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.Observer().Observe(b.Context(), event)
		}
	})
}
