package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/nats/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func streams(t *testing.T, n *natstest.Server) int {
	t.Helper()
	info, err := n.Jsz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return info.Streams
}

func TestProxiesDelayAndCutAndServersRestart(t *testing.T) {
	n := natstest.Start(t)
	p := natstest.Between(t, n)
	client, err := nats.Connect(p.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	for _, drop := range []bool{true, false} { // the second request creates the stream
		p.CutOn("$JS.API.STREAM.CREATE", drop)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := client.RequestWithContext(ctx, "$JS.API.STREAM.CREATE.s", []byte(`{"name":"s"}`)); err == nil {
			t.Error("an answer came over a connection that was cut")
		}
		cancel()
		if made := streams(t, n); p.Cuts() == 0 || (made == 0) != drop {
			t.Errorf("drop %v: %d cuts, %d streams", drop, p.Cuts(), made)
		}
	}

	p.Hold(true)
	go func() {
		for p.Held() == 0 {
			<-time.After(time.Millisecond)
		}
		p.Hold(false)
	}()
	if _, err := client.Request("$JS.API.INFO", nil, 20*time.Second); err != nil || p.Held() == 0 {
		t.Errorf("%d answers delayed, %v", p.Held(), err)
	}

	n.Stop()
	natstest.Eventually(t, "the connection is down", func() bool { return !client.IsConnected() })
	n.Run()
	natstest.Eventually(t, "the connection is back", client.IsConnected)
	if streams(t, n) != 1 {
		t.Error("the stream did not outlive the restart")
	}
}
