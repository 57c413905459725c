package natsstore_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/idempotency"
)

// TestAnUnreachableServerIsNamed checks that the error names the server without its password, and NATS once.
func TestAnUnreachableServerIsNamed(t *testing.T) {
	_, err := natsstore.Open(t.Context(), "nats://user:secret@127.0.0.1:1", natsstore.Options{})
	if err == nil || strings.Contains(err.Error(), "secret") || err.Error() != "nats: open 127.0.0.1:1: no servers available for connection" {
		t.Errorf("%v", err)
	}
}

func TestAFailedOperationNamesNATSOnce(t *testing.T) {
	conn, err := nats.Connect(start(t).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	db, err := natsstore.OpenConn(conn, natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	_, err = db.Idempotency().Get(t.Context(), idempotency.ID{Key: "k"})
	if err == nil || err.Error() != "nats: idempotency: get: stream KV_TENET_IDEMPOTENCY_V1: connection closed" {
		t.Errorf("%v", err)
	}
}
