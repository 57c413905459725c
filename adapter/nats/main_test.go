package tenetnats_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	tenetnats "github.com/tenetdev/tenet/adapter/nats"
	"github.com/tenetdev/tenet/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client connects to a URL without a policy.
func client(t *testing.T, url string, e *retry.Executor) *tenetnats.Client {
	t.Helper()
	conn, err := nats.Connect(url, nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := tenetnats.New(conn, e)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
