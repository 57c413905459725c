package nats_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/store/nats"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`nats: Open: the context is nil`:        func() error { _, err := nats.Open(none, "nats://127.0.0.1", nats.Options{}); return err },
		`nats: OpenConn: the connection is nil`: func() error { _, err := nats.OpenConn(nil, nats.Options{}); return err },
	})
}
