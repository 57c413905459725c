package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

const getUserPath = "/api/policies/user-service/GetUser"

func TestRemoteAddressesOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		r := newRemote(t, p, RemoteOptions{})
		want := map[policy.Key]string{
			getUser:                        getUserPath,
			{Name: "ping"}:                 "/api/policies/ping",
			policy.JobKey("mail", "a:b"):   "/api/policies/job%2Fmail/a:b",
			{Namespace: "a b", Name: "ü/"}: "/api/policies/a%20b/%C3%BC%2F",
		}
		for key, path := range want {
			p.serve(path, `{"retry":{"max_attempts":2}}`)
			ask(t, r, key, 2, policy.SourceRemote, nil)
		}
		for _, key := range []policy.Key{{}, {Name: ".."}, {Namespace: "..", Name: "x"}, {Namespace: "a"}} {
			ask(t, r, key, 0, "", policy.ErrPolicyNotFound)
		}
		if got := len(p.requests()); got != len(want) {
			t.Errorf("%d requests: %v", got, p.requests())
		}
	})
}

func TestR2RemoteRefreshesInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.latency = 100 * time.Millisecond
		p.serve(getUserPath, policyOf(4))
		r := newRemote(t, p, RemoteOptions{TTL: 10 * time.Second})
		if took := elapsed(func() { ask(t, r, getUser, 4, policy.SourceRemote, nil) }); took != p.latency {
			t.Fatalf("the first call took %s", took)
		}
		first := ask(t, r, getUser, 4, policy.SourceRemote, nil)

		time.Sleep(8 * time.Second) // current
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		synctest.Wait()
		if got := p.requests(); len(got) != 1 {
			t.Fatalf("asked again before the TTL: %v", got)
		}
		time.Sleep(2 * time.Second) // due: not modified
		if took := elapsed(func() { ask(t, r, getUser, 4, policy.SourceRemote, nil) }); took != 0 {
			t.Fatalf("a call waited %s for a refresh", took)
		}
		time.Sleep(time.Second)
		if again := ask(t, r, getUser, 4, policy.SourceRemote, nil); again != first {
			t.Error("another pointer for the same policy")
		}
		if diff := cmp.Diff([]string{getUserPath + " 200", getUserPath + " 304"}, p.requests()); diff != "" {
			t.Fatal(diff)
		}
		p.serve(getUserPath, ` {"retry": {"max_attempts": 4}} `) // another text, the same policy
		time.Sleep(10 * time.Second)
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		time.Sleep(time.Second)
		if again := ask(t, r, getUser, 4, policy.SourceRemote, nil); again != first {
			t.Error("another pointer for the same policy in other words")
		}
		p.serve(getUserPath, policyOf(7))
		time.Sleep(10 * time.Second)
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		time.Sleep(time.Second)
		ask(t, r, getUser, 7, policy.SourceRemote, nil)
	})
}

func TestRemoteNegativeCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		var told faults
		r := newRemote(t, p, RemoteOptions{NegativeTTL: 5 * time.Second, OnError: told.add})
		for range 100 {
			ask(t, r, getUser, 0, "", policy.ErrPolicyNotFound)
		}
		synctest.Wait()
		if got := p.requests(); len(got) != 1 {
			t.Fatalf("%d requests for a key that is not there", len(got))
		}
		p.serve(getUserPath, policyOf(4))
		time.Sleep(5 * time.Second)
		ask(t, r, getUser, 0, "", policy.ErrPolicyNotFound) // and asks
		synctest.Wait()
		ask(t, r, getUser, 4, policy.SourceRemote, nil)

		p.set(func(p *plane) { delete(p.bodies, getUserPath) }) // deleted on purpose: no last known good
		time.Sleep(defaultTTL)
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		synctest.Wait()
		ask(t, r, getUser, 0, "", policy.ErrPolicyNotFound)
		if told.count() != 0 {
			t.Errorf("a missing policy is no fault: %s", &told)
		}
		p.set(func(p *plane) { p.status = 500 })
		time.Sleep(5 * time.Second)
		_, _ = r.Policy(t.Context(), getUser)
		synctest.Wait()
		ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable) // what was deleted does not come back
	})
}

func TestR2RemoteLastKnownGood(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(*plane)
		want    error
	}{
		"transport":      {func(p *plane) { p.fault = errors.New("connection refused") }, policy.ErrProviderUnavailable},
		"hang":           {func(p *plane) { p.hang = true }, policy.ErrProviderUnavailable},
		"500":            {func(p *plane) { p.status = 500 }, policy.ErrProviderUnavailable},
		"503":            {func(p *plane) { p.status = 503 }, policy.ErrProviderUnavailable},
		"429":            {func(p *plane) { p.status = 429 }, policy.ErrProviderUnavailable},
		"403":            {func(p *plane) { p.status = 403 }, policy.ErrPolicyFetchFailed},
		"302":            {func(p *plane) { p.status = 302 }, policy.ErrPolicyFetchFailed},
		"204":            {func(p *plane) { p.status = 204 }, policy.ErrPolicyFetchFailed},
		"not JSON":       {func(p *plane) { p.bodies[getUserPath] = "<html>" }, policy.ErrPolicyFetchFailed},
		"null":           {func(p *plane) { p.bodies[getUserPath] = "null" }, policy.ErrPolicyFetchFailed},
		"two values":     {func(p *plane) { p.bodies[getUserPath] = "{}{}" }, policy.ErrPolicyFetchFailed},
		"not UTF-8":      {func(p *plane) { p.bodies[getUserPath] = "{\"id\":\"\xff\"}" }, policy.ErrPolicyFetchFailed},
		"unknown field":  {func(p *plane) { p.bodies[getUserPath] = `{"retry":{"max_atempts":2}}` }, policy.ErrPolicyFetchFailed},
		"invalid value":  {func(p *plane) { p.bodies[getUserPath] = `{"retry":{"max_attempts":-2}}` }, policy.ErrPolicyFetchFailed},
		"unknown jitter": {func(p *plane) { p.bodies[getUserPath] = `{"retry":{"jitter":"wild"}}` }, policy.ErrPolicyFetchFailed},
		"too large": {func(p *plane) { p.bodies[getUserPath] = `{"id":"` + strings.Repeat("x", maxBody) + `"}` },
			policy.ErrPolicyFetchFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				p.serve(getUserPath, policyOf(4))
				var told faults
				r := newRemote(t, p, RemoteOptions{OnError: told.add, MaxBackoff: 5 * time.Second})
				good := ask(t, r, getUser, 4, policy.SourceRemote, nil)

				p.set(test.breakIt)
				time.Sleep(defaultTTL)
				ask(t, r, getUser, 4, policy.SourceRemote, nil) // asks in the background
				time.Sleep(3 * time.Second)
				stale := ask(t, r, getUser, 4, policy.SourceLKG, test.want)
				for range 100 {
					time.Sleep(time.Second)
					if again := ask(t, r, getUser, 4, policy.SourceLKG, test.want); again != stale {
						t.Fatal("another pointer for the same policy")
					}
				}
				if told.count() != 1 {
					t.Errorf("told %d times: %s", told.count(), &told)
				}
				if n := len(p.requests()); n < 15 || n > 110 { // every 0.5 to 5 s, or 2.5 to 7 s where it hangs
					t.Errorf("%d requests in 100 s", n)
				}
				p.set(func(p *plane) { p.fault, p.hang, p.status = nil, false, 0; p.bodies[getUserPath] = policyOf(4) })
				for range 10 {
					_, _ = r.Policy(t.Context(), getUser)
					time.Sleep(time.Second)
				}
				if again := ask(t, r, getUser, 4, policy.SourceRemote, nil); again != good {
					t.Error("another pointer after the outage")
				}
			})
		})
	}
}

func TestRemoteFirstFetchIsBoundedByTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.hang = true
		r := newRemote(t, p, RemoteOptions{Timeout: 300 * time.Millisecond})
		if took := elapsed(func() { ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable) }); took != 300*time.Millisecond {
			t.Errorf("the first call took %s", took)
		}
		synctest.Wait()
		for _, key := range []policy.Key{getUser, putUser} { // known to be down: nobody waits, not even for a new key
			if took := elapsed(func() { ask(t, r, key, 0, "", policy.ErrProviderUnavailable) }); took != 0 {
				t.Errorf("%s waited %s", key, took)
			}
		}
	})
}

// deaf is a transport that does not care about its request's context.
type deaf struct{ release chan struct{} }

func (d deaf) RoundTrip(*http.Request) (*http.Response, error) {
	<-d.release
	return nil, errors.New("released")
}

func TestRemoteFirstFetchIsBoundedByTheTimeoutWhateverTheTransportDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deaf{make(chan struct{})}
		r, err := NewRemote(RemoteOptions{URL: "http://plane.example", Client: &http.Client{Transport: d}, Logger: silent()})
		if err != nil {
			t.Fatal(err)
		}
		if took := elapsed(func() { ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable) }); took != defaultTimeout {
			t.Errorf("the first call took %s", took)
		}
		if took := elapsed(func() { ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable) }); took != 0 {
			t.Errorf("the second call took %s", took)
		}
		close(d.release)
		_ = r.Close()
	})
}

func TestRemoteOneFlightPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.latency = time.Second
		p.serve(getUserPath, policyOf(4))
		r := newRemote(t, p, RemoteOptions{})
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() { ask(t, r, getUser, 4, policy.SourceRemote, nil) })
		}
		group.Wait()
		time.Sleep(defaultTTL)
		for range 100 {
			group.Go(func() { ask(t, r, getUser, 4, policy.SourceRemote, nil) })
		}
		group.Wait()
		time.Sleep(2 * time.Second)
		if got := p.requests(); len(got) != 2 {
			t.Errorf("%d requests for 100 callers, twice", len(got))
		}
	})
}

func TestRemoteCallerThatGivesUpEndsNobodysFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.latency = time.Second
		p.serve(getUserPath, policyOf(4))
		r := newRemote(t, p, RemoteOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() {
			got, err := r.Policy(ctx, getUser)
			if got != nil || !errors.Is(err, policy.ErrProviderUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the caller that gave up got %v, %v", got, err)
			}
		})
		time.Sleep(50 * time.Millisecond)
		group.Go(func() { ask(t, r, getUser, 4, policy.SourceRemote, nil) })
		group.Wait()
		if diff := cmp.Diff([]string{getUserPath + " 200"}, p.requests()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestP2RemoteKeepsTheMostRecentlyUsedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		var told faults
		r := newRemote(t, p, RemoteOptions{MaxKeys: 3, TTL: time.Hour, OnError: told.add})
		use := func(name string) {
			t.Helper()
			p.serve("/api/policies/"+name, policyOf(4))
			ask(t, r, policy.Key{Name: name}, 4, policy.SourceRemote, nil)
			time.Sleep(time.Second)
		}
		for _, name := range []string{"a", "b", "c", "a", "d"} { // b is the oldest when d comes
			use(name)
		}
		before := len(p.requests())
		for _, name := range []string{"a", "c", "d"} {
			use(name)
		}
		if extra := p.requests()[before:]; len(extra) != 0 {
			t.Errorf("keys in use were dropped: %v", extra)
		}
		use("b")
		for i := range 50 {
			use(fmt.Sprint("k", i))
		}
		if got := len(*r.entries.Load()); got != 3 {
			t.Errorf("%d keys are kept", got)
		}
		if told.count() != 1 {
			t.Errorf("evictions were told %d times", told.count())
		}
	})
}

func TestRemoteRefreshesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		r := newRemote(t, p, RemoteOptions{})
		keys := make([]policy.Key, 100)
		for i := range keys {
			keys[i] = policy.Key{Name: fmt.Sprint("k", i)}
			p.serve("/api/policies/"+keys[i].Name, policyOf(4))
			ask(t, r, keys[i], 4, policy.SourceRemote, nil)
		}
		p.set(func(p *plane) { p.hang = true })
		time.Sleep(defaultTTL)
		for _, key := range keys {
			ask(t, r, key, 4, policy.SourceRemote, nil)
		}
		synctest.Wait()
		if got := p.flights.Load(); got != maxRefreshes {
			t.Errorf("%d requests at a time", got)
		}
	})
}

func TestRemoteAnswersAreBounded(t *testing.T) {
	p := newPlane()
	p.serve(getUserPath, `{"id":"`+strings.Repeat("x", maxBody)+`"}`)
	r := newRemote(t, p, RemoteOptions{})
	_, err := r.Policy(t.Context(), getUser)
	if !errors.Is(err, policy.ErrPolicyFetchFailed) {
		t.Fatal(err)
	}
	contains(t, err.Error(), "larger than 1048576 bytes")
}

func TestRemoteOutageIsReportedOnceNotPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.status = 503
		var told faults
		r := newRemote(t, p, RemoteOptions{OnError: told.add})
		for i := range 10 {
			ask(t, r, policy.Key{Name: fmt.Sprint("k", i)}, 0, "", policy.ErrProviderUnavailable)
			synctest.Wait()
		}
		if told.count() != 1 || len(p.requests()) != 10 {
			t.Errorf("told %d times after %d requests", told.count(), len(p.requests()))
		}
	})
}

func TestRemoteClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.serve(getUserPath, policyOf(4))
		var told faults
		r := newRemote(t, p, RemoteOptions{OnError: told.add})
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		p.set(func(p *plane) { p.hang = true })
		var group sync.WaitGroup
		group.Go(func() { ask(t, r, putUser, 0, "", policy.ErrProviderUnavailable) })
		synctest.Wait()
		if took := elapsed(func() { _ = r.Close() }); took != 0 {
			t.Errorf("Close waited %s for a request", took)
		}
		group.Wait()
		time.Sleep(time.Hour)
		ask(t, r, getUser, 4, policy.SourceRemote, nil)
		ask(t, r, policy.Key{Name: "new"}, 0, "", policy.ErrProviderUnavailable)
		if told.count() != 0 {
			t.Errorf("Close is no fault: %s", &told)
		}
	})
}

func TestRemoteCurrentPolicyCostsNoAllocation(t *testing.T) {
	p := newPlane()
	p.serve(getUserPath, policyOf(4))
	r := newRemote(t, p, RemoteOptions{TTL: time.Hour})
	ask(t, r, getUser, 4, policy.SourceRemote, nil)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = r.Policy(ctx, getUser) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRemotePolicy(b *testing.B) {
	p := newPlane()
	p.serve(getUserPath, policyOf(4))
	r, err := NewRemote(withPlane(p, RemoteOptions{TTL: time.Hour}))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = r.Policy(ctx, getUser)
		}
	})
}
