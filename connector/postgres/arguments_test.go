package postgres_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/connector/postgres"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`postgres: open: the context is nil`: func() error {
			_, err := postgres.OpenSink(none, "postgres://127.0.0.1", postgres.Options{Table: "t"})
			return err
		},
		`postgres: the table is missing; set Options.Table`: func() error {
			_, err := postgres.OpenQueue(t.Context(), "postgres://127.0.0.1", postgres.Options{})
			return err
		},
		`postgres: the consumer is missing; name the reader of the outbox with Options.Consumer`: func() error {
			_, err := postgres.OpenOutbox(t.Context(), "postgres://127.0.0.1", postgres.Options{Table: "t"})
			return err
		},
		`postgres: Dispatch: the transaction is nil`: func() error { return new(postgres.Sink).Dispatch(t.Context(), nil) },
	})
}
