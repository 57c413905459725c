package natsstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/storetest"
)

func TestMain(m *testing.M) {
	storetest.IdempotencyProcess(inProcess)
	goleak.VerifyTestMain(m)
}

// start starts a server that accepts the suite's longest event, which exceeds the default limit of 1 MiB.
func start(t *testing.T) *natstest.Server {
	t.Helper()
	return natstest.Start(t, func(o *server.Options) { o.MaxPayload = 2 << 20 })
}

// open opens a store and closes it before its server.
func open(t *testing.T, url string, edit ...func(*natsstore.Options)) *natsstore.DB {
	t.Helper()
	o := natsstore.Options{Timeout: 5 * time.Second, Connect: []nats.Option{
		nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}}
	for _, e := range edit {
		e(&o)
	}
	db, err := natsstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
