package natspolicy_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/nats/natspolicy"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	conn, err := nats.Connect(natstest.Start(t).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "POLICIES"})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(seed), ed25519.SeedSize)))
}

func envelope(revision int64, attempts int, by ed25519.PrivateKey) *protocol.Envelope {
	e := &protocol.Envelope{Document: "shop", Revision: revision, Body: fmt.Sprintf("version: 1\npolicies: {users.Get: {retry: {max_attempts: %d}}}\n", attempts)}
	e.Sign(by)
	return e
}

// waitFor waits until a provider has a policy with so many attempts and such an error.
func waitFor(t *testing.T, p policy.Provider, attempts int, want error) {
	t.Helper()
	var got *policy.Policy
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got, err = p.Policy(t.Context(), policy.ParseKey("users.Get"))
		if errors.Is(err, want) && got != nil && got.Retry.MaxAttempts == attempts {
			return
		}
	}
	t.Fatalf("got %+v, %v; want %d attempts, %v", got, err, attempts, want)
}

func TestS4ABucketDistributesSignedDocuments(t *testing.T) {
	kv := bucket(t)
	store, err := natspolicy.New(kv, "shop", key('a').Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Load(t.Context()); !errors.Is(err, policy.ErrPolicyNotFound) {
		t.Errorf("an empty bucket: %v", err)
	}
	if err := natspolicy.Put(t.Context(), kv, envelope(1, 3, key('a'))); err != nil {
		t.Fatal(err)
	}
	p := controlplane.NewStored(store, controlplane.StoredOptions{Interval: time.Hour, MinBackoff: 50 * time.Millisecond, MaxBackoff: 50 * time.Millisecond})
	defer p.Close()
	waitFor(t, p, 3, nil)
	if err := natspolicy.Put(t.Context(), kv, envelope(2, 4, key('a'))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, p, 4, nil)

	if err := natspolicy.Put(t.Context(), kv, envelope(1, 3, key('a'))); !errors.Is(err, protocol.ErrOlder) {
		t.Errorf("an older revision was put: %v", err)
	}
	for name, bad := range map[string]*protocol.Envelope{"older": envelope(1, 9, key('a')), "another key": envelope(3, 9, key('b'))} {
		data, err := bad.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "shop", data); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		waitFor(t, p, 4, policy.ErrPolicyFetchFailed)
	}
}

func TestS4CopyBringsAServersRevision(t *testing.T) {
	kv := bucket(t)
	var current atomic.Pointer[protocol.Envelope]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := current.Load()
		if r.URL.Path != protocol.LivePath("shop") || r.Header.Get("Authorization") != "Bearer secret" || e == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		data, _ := e.Encode()
		_, _ = w.Write(data)
	}))
	defer server.Close()
	client := server.Client()
	from := natspolicy.Source{URL: server.URL, Document: "shop", Token: "secret", Keys: []ed25519.PublicKey{key('a').Public().(ed25519.PublicKey)}, Client: client}
	if err := natspolicy.Copy(t.Context(), kv, from); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("nothing to copy: %v", err)
	}
	for revision := range int64(3) {
		current.Store(envelope(revision+1, 3, key('a')))
		for range 2 {
			if err := natspolicy.Copy(t.Context(), kv, from); err != nil {
				t.Fatal(err)
			}
		}
	}
	entry, err := kv.Get(t.Context(), "shop")
	if err != nil || entry.Revision() != 3 {
		t.Errorf("%v, %v", entry, err)
	}
	current.Store(envelope(9, 3, key('b')))
	if err := natspolicy.Copy(t.Context(), kv, from); !errors.Is(err, protocol.ErrUntrusted) {
		t.Errorf("another server's document: %v", err)
	}
	client.CloseIdleConnections()
}

func TestO3CopyShowsNoPasswordOfAURLThatCannotBeRead(t *testing.T) {
	for _, url := range []string{"https://user:secret@host:port", "https://user:secret@host/%zz", "user:secret@host"} {
		err := natspolicy.Copy(t.Context(), nil, natspolicy.Source{URL: url, Document: "shop"})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "https://host") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestS4WritersOfABucketKeepTheNewest(t *testing.T) {
	kv := bucket(t)
	var writers sync.WaitGroup
	for revision := range int64(20) {
		writers.Go(func() {
			if err := natspolicy.Put(t.Context(), kv, envelope(revision+1, 3, key('a'))); err != nil && !errors.Is(err, protocol.ErrOlder) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	entry, err := kv.Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := protocol.ReadEnvelope(entry.Value()); err != nil || e.Revision != 20 {
		t.Errorf("%+v, %v", e, err)
	}
}

// contended is a bucket in which another writer always comes first.
type contended struct {
	jetstream.KeyValue
	tries int
}

func (c *contended) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	return nil, jetstream.ErrKeyNotFound
}

func (c *contended) Create(context.Context, string, []byte, ...jetstream.KVCreateOpt) (uint64, error) {
	c.tries++
	return 0, jetstream.ErrKeyExists
}

func TestS4AWriterThatIsAlwaysLateWaitsBetweenItsAttemptsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		kv := &contended{}
		if err := natspolicy.Put(ctx, kv, envelope(1, 3, key('a'))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if kv.tries < 60 || kv.tries > 600 {
			t.Errorf("%d attempts in a minute", kv.tries)
		}
	})
}
