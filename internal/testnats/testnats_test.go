package testnats_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/internal/testnats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
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

func stored(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestServersRunAgainAndProxiesHoldAndCut(t *testing.T) {
	n := testnats.Start(t)
	p := testnats.Between(t, n)
	js, far := connect(t, n.ClientURL()), connect(t, p.URL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	for i, drop := range []bool{false, true} {
		p.CutOn("mark", drop)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, err := far.Publish(ctx, "s", []byte("a mark")); err == nil {
			t.Error("an answer came over a connection that was cut")
		}
		cancel()
		if got := stored(t, js); got != 1 || p.Cuts() != i+1 {
			t.Errorf("drop %v: %d messages after %d cuts", drop, got, p.Cuts())
		}
	}

	p.Hold(true)
	answered := make(chan error)
	go func() {
		_, err := far.Publish(t.Context(), "s", nil)
		answered <- err
	}()
	for p.Held() == 0 {
		<-time.After(time.Millisecond)
	}
	p.Hold(false)
	if err := <-answered; err != nil {
		t.Error(err)
	}

	before := n.ClientURL()
	n.Stop()
	if _, err := nats.Connect(before); err == nil {
		t.Error("a stopped server answers")
	}
	n.Run()
	if got := stored(t, connect(t, before)); got != 2 {
		t.Errorf("%d messages after the restart, want 2", got)
	}
}
