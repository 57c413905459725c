package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/idempotency"
)

func request(key, owner string) idempotency.BeginRequest {
	return idempotency.BeginRequest{ID: idempotency.ID{Operation: "op", Key: key}, Fingerprint: "f", Owner: owner, Lease: time.Hour}
}

func done(result string) idempotency.Settlement {
	return idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte(result), TTL: time.Hour}
}

// begin begins a record and checks the verdict.
func begin(t *testing.T, s idempotency.Store, req idempotency.BeginRequest, want idempotency.Verdict) idempotency.Begun {
	t.Helper()
	b, err := s.Begin(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if b.Verdict != want {
		t.Fatalf("verdict %s, want %s: %+v", b.Verdict, want, b.Record)
	}
	return b
}

func claim(t *testing.T, s idempotency.Store, req idempotency.BeginRequest) idempotency.Claim {
	t.Helper()
	b := begin(t, s, req, idempotency.Run)
	return b.Record.Claim()
}

// streamOf opens the store's stream directly.
func streamOf(t *testing.T, url, name string) jetstream.Stream {
	t.Helper()
	s, err := jetStream(t, url).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestI1KeysOfAnyBytesNeverCollide(t *testing.T) {
	s := open(t, start(t).ClientURL()).Idempotency()
	parts := []string{"", "a", "ab", "a.b", "a b", "*", ">", "a\x00", "ä", "\xff", "$KV", strings.Repeat("x", 300)}
	seen := 0
	for _, tenant := range parts {
		for _, key := range parts {
			req := request(key, fmt.Sprintf("%q/%q", tenant, key))
			req.Tenant = tenant
			b := begin(t, s, req, idempotency.Run)
			if b.Record.ID != req.ID {
				t.Fatalf("record of %q is of %q", req.ID, b.Record.ID)
			}
			seen++
		}
	}
	if seen != len(parts)*len(parts) {
		t.Fatal(seen)
	}
}

func TestI5ResultsComeBackByteForByte(t *testing.T) {
	s := open(t, start(t).ClientURL()).Idempotency()
	for i, result := range []string{"", "null", "0", "false", "\n", "a\nb", "\x00\xff\xfe", strings.Repeat("\n", 500_000)} {
		key := fmt.Sprint(i)
		b := begin(t, s, request(key, "o"), idempotency.Run)
		if err := s.Settle(t.Context(), b.Record.Claim(), done(result)); err != nil {
			t.Fatal(err)
		}
		if got := begin(t, s, request(key, "p"), idempotency.Replay).Record; !got.HasResult || string(got.Result) != result {
			t.Errorf("result %.20q, want %.20q", got.Result, result)
		}
	}
}

func TestI5ResultBeyondMaxPayloadIsATypedError(t *testing.T) {
	s := open(t, start(t).ClientURL()).Idempotency()
	b := begin(t, s, request("k", "o"), idempotency.Run)
	if err := s.Settle(t.Context(), b.Record.Claim(), done(strings.Repeat("x", 2<<20))); !errors.Is(err, nats.ErrMaxPayload) {
		t.Fatalf("error %v, want ErrMaxPayload", err)
	}
	limit, err := s.MaxResult(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), b.Record.Claim(), done(strings.Repeat("x", limit))); err != nil {
		t.Fatalf("a result of %d bytes: %v", limit, err)
	}
}

func TestI6ExpiryAndLeasesFollowTheStoredTime(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6789, time.UTC)
	var offset atomic.Int64
	clock := func() time.Time { return now.Add(time.Duration(offset.Load())) }
	s := open(t, start(t).ClientURL(), func(o *natsstore.Options) { o.Clock = clock }).Idempotency()

	settled := claim(t, s, request("settled", "o"))
	if err := s.Settle(t.Context(), settled, idempotency.Settlement{State: idempotency.Completed, TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	req := request("lapsing", "o")
	req.Lease = time.Minute
	begin(t, s, req, idempotency.Run)
	r, err := s.Get(t.Context(), settled.ID)
	if err != nil {
		t.Fatal(err)
	}
	end := r.Expires.Sub(now)
	for _, c := range []struct {
		at              time.Duration
		settled, flight idempotency.Verdict
	}{
		{end - time.Millisecond, idempotency.Replay, idempotency.Busy},
		{end - time.Microsecond, idempotency.Replay, idempotency.Busy},
		{end, idempotency.Run, idempotency.Undecidable},
	} {
		offset.Store(int64(c.at))
		begin(t, s, request("lapsing", "p"), c.flight)
		if _, err := s.Get(t.Context(), settled.ID); errors.Is(err, idempotency.ErrNotFound) != (c.settled == idempotency.Run) {
			t.Errorf("%s before the end: Get says %v", end-c.at, err)
		}
		begin(t, s, request("settled", "p"), c.settled)
	}
}

func TestI6ServerKeepsRecordsLongerThanTheyCount(t *testing.T) {
	n := start(t)
	s := open(t, n.ClientURL()).Idempotency()
	b := begin(t, s, request("k", "o"), idempotency.Run)
	bucket := streamOf(t, n.ClientURL(), "KV_"+natsstore.DefaultBucket)
	ttl := func() string {
		m, err := bucket.GetLastMsgForSubject(t.Context(), "$KV."+natsstore.DefaultBucket+".>")
		if err != nil {
			t.Fatal(err)
		}
		return m.Header.Get(jetstream.MsgTTLHeader)
	}
	if got := ttl(); got != "" {
		t.Errorf("a record in flight has TTL %q; it must stay", got)
	}
	if err := s.Settle(t.Context(), b.Record.Claim(), done("r")); err != nil {
		t.Fatal(err)
	}
	if got := ttl(); got != "7200" { // its hour, and another for clock differences
		t.Errorf("TTL %q, want 7200", got)
	}
}

func TestI3ResultWrittenButNotAcknowledgedIsFound(t *testing.T) {
	for name, dropped := range map[string]bool{"stored": false, "lost in transit": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t)
			p := natstest.Between(t, n)
			s := open(t, p.URL()).Idempotency()
			begin(t, s, request("warm", "o"), idempotency.Run)

			p.CutOn("Nats-Expected-Last-Subject-Sequence", dropped)
			b := begin(t, s, request("k", "o"), idempotency.Run)
			if b.Record.Owner != "o" || b.Record.Attempts != 1 {
				t.Errorf("claimed %+v", b.Record)
			}
			begin(t, s, request("k", "p"), idempotency.Busy)

			p.CutOn("Nats-Expected-Last-Subject-Sequence", dropped)
			if err := s.Settle(t.Context(), b.Record.Claim(), done("r")); err != nil {
				t.Fatal(err)
			}
			if got := begin(t, s, request("k", "p"), idempotency.Replay); string(got.Record.Result) != "r" {
				t.Errorf("result %q", got.Record.Result)
			}

			p.CutOn("Nats-Expected-Last-Subject-Sequence", dropped)
			r, err := s.Get(t.Context(), b.Record.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Clear(t.Context(), r.Claim()); err != nil {
				t.Fatal(err)
			}
			begin(t, s, request("k", "q"), idempotency.Run)
			if cuts := p.Cuts(); cuts != 3 {
				t.Errorf("the connection was cut %d times, want 3", cuts)
			}
		})
	}
}

func TestI6AnOutageAtBeginIsAnErrorAndARestartKeepsAllRecords(t *testing.T) {
	t.Parallel()
	n := start(t)
	s := open(t, n.ClientURL()).Idempotency()
	b := begin(t, s, request("k", "o"), idempotency.Run)
	n.Stop()
	if _, err := s.Begin(t.Context(), request("l", "o")); err == nil {
		t.Fatal("a begin succeeded while the server was down")
	}
	n.Run()
	natstest.Eventually(t, "the store answers", func() bool {
		_, err := s.Get(t.Context(), b.Record.ID)
		return err == nil
	})
	begin(t, s, request("k", "p"), idempotency.Busy)
	if err := s.Settle(t.Context(), b.Record.Claim(), done("r")); err != nil {
		t.Fatal(err)
	}
	begin(t, s, request("k", "p"), idempotency.Replay)
}

func TestI3ABucketThatWouldLoseRecordsIsRejected(t *testing.T) {
	good := jetstream.StreamConfig{
		Name: "KV_" + natsstore.DefaultBucket, Subjects: []string{"$KV." + natsstore.DefaultBucket + ".>"}, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, AllowRollup: true,
	}
	for name, edit := range map[string]func(*jetstream.StreamConfig){
		"":        func(*jetstream.StreamConfig) {},
		"max_age": func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"storage": func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"discard": func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
		"persist_mode": func(c *jetstream.StreamConfig) {
			c.PersistMode = jetstream.AsyncPersistMode
		},
		"deny_purge": func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup = true, false },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			config := good
			edit(&config)
			if _, err := jetStream(t, n.ClientURL()).CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, n.ClientURL()).Idempotency().Begin(t.Context(), request("k", "o"))
			if name == "" && err != nil || name != "" && (err == nil || !strings.Contains(err.Error(), name+":")) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestI6ExpireRemovesRecordsWhereTheServerDoesNot: without TTLs of single messages, records and the markers of cleared records stay
// until Expire.
func TestI6ExpireRemovesRecordsWhereTheServerDoesNot(t *testing.T) {
	n := start(t)
	if _, err := jetStream(t, n.ClientURL()).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_" + natsstore.DefaultBucket, Subjects: []string{"$KV." + natsstore.DefaultBucket + ".>"}, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, AllowRollup: true,
	}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var offset atomic.Int64
	s := open(t, n.ClientURL(), func(o *natsstore.Options) {
		o.Clock = func() time.Time { return now.Add(time.Duration(offset.Load())) }
	}).Idempotency()
	for _, key := range []string{"a", "b", "c", "cleared", "flying"} {
		c := claim(t, s, request(key, "o"))
		if key == "flying" {
			continue
		}
		if err := s.Settle(t.Context(), c, done("r")); err != nil {
			t.Fatal(err)
		}
		if key == "cleared" {
			if err := s.Clear(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, want := range []int{0, 2, 1, 0} { // none before they expire
		got, err := s.Expire(t.Context(), 2)
		if err != nil || got != want {
			t.Errorf("Expire %d: %d, %v; want %d", i, got, err, want)
		}
		offset.Store(int64(time.Hour))
	}
	info, err := streamOf(t, n.ClientURL(), "KV_"+natsstore.DefaultBucket).Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Errorf("%d messages are left, %v; want the one in flight", info.State.Msgs, err)
	}
}

func TestI8OneOfManyCallersRunsOnAReplicatedBucket(t *testing.T) {
	urls := cluster(t)
	stores := make([]*natsstore.Idempotency, len(urls))
	for i, url := range urls {
		stores[i] = open(t, url, func(o *natsstore.Options) { o.Replicas, o.Timeout = 3, 8*time.Second }).Idempotency()
	}
	for round := range 3 {
		var runs atomic.Int64
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				b, err := stores[i%len(stores)].Begin(context.Background(), request(fmt.Sprint("k", round), fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
				} else if b.Verdict == idempotency.Run {
					runs.Add(1)
				} else if b.Verdict != idempotency.Busy {
					t.Errorf("verdict %s", b.Verdict)
				}
			})
		}
		group.Wait()
		if runs.Load() != 1 {
			t.Fatalf("%d callers run", runs.Load())
		}
	}
	info, err := streamOf(t, urls[0], "KV_"+natsstore.DefaultBucket).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{3}, []int{info.Config.Replicas}); diff != "" {
		t.Error(diff)
	}
}

// cluster starts three servers that replicate.
func cluster(t *testing.T) []string {
	t.Helper()
	ports := make([]int, 3)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
	}
	var routes []string
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	var nodes []*natstest.Server
	for i, p := range ports {
		nodes = append(nodes, natstest.Start(t, func(o *server.Options) {
			o.ServerName, o.Cluster = fmt.Sprintf("n%d", i), server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: p}
			o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		}))
	}
	natstest.Eventually(t, "the cluster has a leader", func() bool {
		for _, n := range nodes {
			if n.JetStreamIsLeader() && len(n.JetStreamClusterPeers()) == 3 {
				return true
			}
		}
		return false
	})
	return []string{nodes[0].ClientURL(), nodes[1].ClientURL(), nodes[2].ClientURL()}
}
