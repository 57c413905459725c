package controlplane

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

const documentURLPath = "/api/policies"

func TestRemoteDocumentFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.latency = 100 * time.Millisecond
		p.serve(documentURLPath, documentOf(4))
		var changes []*policy.Set
		r := newRemoteDocument(t, p, RemoteOptions{TTL: 10 * time.Second, OnChange: func(s *policy.Set) { changes = append(changes, s) }})
		if took := elapsed(func() { ask(t, r, getUser, 4, policy.SourceRemote, nil) }); took != p.latency {
			t.Fatalf("the first call took %s", took)
		}
		ask(t, r, putUser, 3, policy.SourceDefault, nil)
		version, set := r.Version(), r.Set()
		time.Sleep(12 * time.Second)
		p.serve(documentURLPath, "# a comment\n"+documentOf(4))
		time.Sleep(12 * time.Second)
		if r.Version() != version || r.Set() != set {
			t.Error("a new version of the same policies")
		}
		p.serve(documentURLPath, documentOf(6))
		time.Sleep(12 * time.Second)
		ask(t, r, getUser, 6, policy.SourceRemote, nil)
		synctest.Wait()
		if r.Version() == version || len(changes) != 2 || changes[1] != r.Set() {
			t.Errorf("version %d, %d changes", r.Version(), len(changes))
		}
		if !strings.Contains(strings.Join(p.requests(), ","), "304") {
			t.Errorf("If-None-Match is not used: %v", p.requests())
		}
	})
}

func TestR2RemoteDocumentLastKnownGood(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(*plane)
		want    error
	}{
		"transport": {func(p *plane) { p.fault = errors.New("connection refused") }, policy.ErrProviderUnavailable},
		"hang":      {func(p *plane) { p.hang = true }, policy.ErrProviderUnavailable},
		"502":       {func(p *plane) { p.status = 502 }, policy.ErrProviderUnavailable},
		"401":       {func(p *plane) { p.status = 401 }, policy.ErrPolicyFetchFailed},
		"404":       {func(p *plane) { p.status = 404 }, policy.ErrPolicyNotFound},
		"broken":    {func(p *plane) { p.bodies[documentURLPath] = "version: 9\n" }, policy.ErrPolicyFetchFailed},
		"too large": {func(p *plane) { p.bodies[documentURLPath] = strings.Repeat("#", maxBody+1) }, policy.ErrPolicyFetchFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				p.serve(documentURLPath, documentOf(4))
				var told faults
				r := newRemoteDocument(t, p, RemoteOptions{OnError: told.add, OnChange: func(s *policy.Set) {
					if s.Source() != policy.SourceRemote {
						t.Errorf("OnChange was told of a fallback")
					}
				}})
				good, version, set := ask(t, r, getUser, 4, policy.SourceRemote, nil), r.Version(), r.Set()

				p.set(test.breakIt)
				before := len(p.requests())
				time.Sleep(33 * time.Second) // a poll and a timeout
				stale := ask(t, r, getUser, 4, policy.SourceLKG, test.want)
				if r.Version() == version {
					t.Fatal("the version did not change: executors would not see the fault")
				}
				version = r.Version()
				time.Sleep(5 * time.Minute)
				if again := ask(t, r, getUser, 4, policy.SourceLKG, test.want); again != stale || r.Version() != version {
					t.Error("another pointer or version while nothing changed")
				}
				if n := len(p.requests()) - before; n < 10 || n > 50 || told.count() != 1 {
					t.Errorf("%d requests; told %d times: %s", n, told.count(), &told)
				}
				if s := r.Status(); !errors.Is(s.LastError, test.want) || s.Revision != set.Revision() {
					t.Errorf("status: %+v", s)
				}

				p.set(func(p *plane) { p.fault, p.hang, p.status = nil, false, 0; p.bodies[documentURLPath] = documentOf(4) })
				time.Sleep(33 * time.Second)
				if again := ask(t, r, getUser, 4, policy.SourceRemote, nil); again != good || r.Set() != set || r.Version() == version {
					t.Error("not what it was before the outage, or under the old version")
				}
			})
		})
	}
}

func TestRemoteDocumentNothingKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.hang = true
		r := newRemoteDocument(t, p, RemoteOptions{})
		if r.Set() != nil || r.Version() != 0 || r.Status() != (Status{}) {
			t.Error("something is known before the first answer")
		}
		if took := elapsed(func() { ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable) }); took != defaultTimeout {
			t.Errorf("the first call took %s", took)
		}
		synctest.Wait()
		if took := elapsed(func() { ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable) }); took != 0 {
			t.Errorf("the second call took %s", took)
		}
		p.set(func(p *plane) { p.hang = false; p.bodies[documentURLPath] = documentOf(4) })
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
	})
}

// shelf is a DocumentStore in memory.
type shelf struct {
	mu       sync.Mutex
	data     string
	revision string
	err      error
	loads    int
	watches  int
	changes  chan struct{} // nil: it cannot watch
	watchErr error
	stuck    chan struct{} // Load waits for it, whatever its context says
}

func (s *shelf) Load(context.Context) ([]byte, string, error) {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	return []byte(s.data), s.revision, s.err
}

func (s *shelf) Watch(context.Context) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	return s.changes, s.watchErr
}

func (s *shelf) put(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func newStored(t *testing.T, s *shelf, o StoredOptions) *Stored {
	t.Helper()
	o.Logger = silent()
	p := NewStored(s, o)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestStoredIsToldOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{data: documentOf(4), revision: "1", changes: make(chan struct{}, 1)}
		p := newStored(t, s, StoredOptions{Interval: time.Hour})
		ask(t, p, getUser, 4, policy.SourceRemote, nil)
		s.put(func(s *shelf) { s.data, s.revision = documentOf(5), "2" })
		s.changes <- struct{}{}
		synctest.Wait()
		ask(t, p, getUser, 5, policy.SourceRemote, nil)

		version := p.Version()
		s.changes <- struct{}{} // without a change
		synctest.Wait()
		if p.Version() != version {
			t.Error("a new version without a change")
		}
	})
}

func TestStoredIsPolledWhereItCannotWatch(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for name, test := range map[string]struct {
		store *shelf
		told  int
	}{
		"no watch":     {&shelf{}, 0},
		"lost watch":   {&shelf{changes: closed}, 0},
		"failed watch": {&shelf{watchErr: errors.New("no listener")}, 1},
		"no revisions": {&shelf{revision: "", changes: closed}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told faults
				test.store.data, test.store.revision = documentOf(4), "1"
				if name == "no revisions" {
					test.store.revision = ""
				}
				p := newStored(t, test.store, StoredOptions{Interval: 10 * time.Second, OnError: told.add})
				ask(t, p, getUser, 4, policy.SourceRemote, nil)
				version := p.Version()
				time.Sleep(100 * time.Second)
				synctest.Wait()
				if loads, watches := test.store.loads, test.store.watches; loads < 10 || loads > 13 || watches > 13 {
					t.Errorf("%d loads and %d watches in 100 s", loads, watches)
				}
				if p.Version() != version || told.count() != test.told {
					t.Errorf("version %d, told %d times", p.Version(), told.count())
				}
				test.store.put(func(s *shelf) { s.data, s.revision = documentOf(5), s.revision+"2" })
				time.Sleep(11 * time.Second)
				ask(t, p, getUser, 5, policy.SourceRemote, nil)
			})
		})
	}
}

func TestR2StoredLastKnownGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{err: errors.New("starting")}
		p := newStored(t, s, StoredOptions{MaxBackoff: time.Second})
		ask(t, p, getUser, 0, "", policy.ErrProviderUnavailable)
		version := p.Version()
		s.put(func(s *shelf) { s.err = policy.ErrPolicyNotFound })
		time.Sleep(time.Second)
		synctest.Wait()
		ask(t, p, getUser, 0, "", policy.ErrPolicyNotFound)
		if p.Version() == version {
			t.Error("the version did not change: executors would not see the other fault")
		}
		s.put(func(s *shelf) { s.data, s.revision, s.err = documentOf(4), "1", nil })
		time.Sleep(time.Second)
		synctest.Wait()
		ask(t, p, getUser, 4, policy.SourceRemote, nil)

		s.put(func(s *shelf) { s.err = errors.New("disk is gone") })
		time.Sleep(defaultTTL)
		synctest.Wait()
		ask(t, p, getUser, 4, policy.SourceLKG, policy.ErrProviderUnavailable)
		s.put(func(s *shelf) { s.data, s.revision, s.err = "version: 2", "2", nil })
		time.Sleep(time.Second)
		synctest.Wait()
		ask(t, p, getUser, 4, policy.SourceLKG, policy.ErrPolicyFetchFailed)
		if got := p.Status().LastError.Error(); !strings.Contains(got, "policies:1:") {
			t.Error(got)
		}
	})
}

func TestStoredThatIsStuckHoldsACallForItsTimeoutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{data: documentOf(4), stuck: make(chan struct{})}
		p := newStored(t, s, StoredOptions{})
		var took []time.Duration
		for range 3 {
			took = append(took, elapsed(func() { ask(t, p, getUser, 0, "", policy.ErrProviderUnavailable) }))
		}
		if diff := cmp.Diff([]time.Duration{defaultTimeout, 0, 0}, took); diff != "" {
			t.Error(diff)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Reload(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Reload while the store is stuck: %v", err)
		}
		close(s.stuck)
	})
	synctest.Test(t, func(t *testing.T) { // a caller's own context ends its wait
		s := &shelf{data: documentOf(4), stuck: make(chan struct{})}
		p := newStored(t, s, StoredOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		if took := elapsed(func() { _, err = p.Policy(ctx, getUser) }); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, %v", took, err)
		}
		close(s.stuck)
	})
}

func TestNewStoredRefusesNoStore(t *testing.T) {
	defer func() {
		if v := recover(); v != "controlplane: NewStored: the store is nil" {
			t.Error(v)
		}
	}()
	NewStored(nil, StoredOptions{})
}
