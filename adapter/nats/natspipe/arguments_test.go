package natspipe_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`nats: OpenSink: the context is nil`: func() error {
			_, err := natspipe.OpenSink(none, "nats://127.0.0.1", natspipe.Options{Stream: "S"})
			return err
		},
		`nats: OpenSource: the context is nil`: func() error {
			_, err := natspipe.OpenSource(none, "nats://127.0.0.1", natspipe.Options{Stream: "S"})
			return err
		},
		`nats: the stream's name is missing; write nats://host/STREAM, or set Options.Stream`: func() error {
			_, err := natspipe.OpenSource(t.Context(), "nats://127.0.0.1", natspipe.Options{})
			return err
		},
		`nats: Dispatch: the transaction is nil`: func() error { return new(natspipe.Sink).Dispatch(t.Context(), nil) },
	})
}
