package natsstore_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`nats: Open: the context is nil`:        func() error { _, err := natsstore.Open(none, "nats://127.0.0.1", natsstore.Options{}); return err },
		`nats: OpenConn: the connection is nil`: func() error { _, err := natsstore.OpenConn(nil, natsstore.Options{}); return err },
	})
}
