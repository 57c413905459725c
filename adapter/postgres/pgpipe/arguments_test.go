package pgpipe_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`postgres: open: the context is nil`: func() error {
			_, err := pgpipe.OpenSink(none, "postgres://127.0.0.1", pgpipe.Options{Table: "t"})
			return err
		},
		`postgres: the table is missing; set Options.Table`: func() error {
			_, err := pgpipe.OpenQueue(t.Context(), "postgres://127.0.0.1", pgpipe.Options{})
			return err
		},
		`postgres: the consumer is missing; name the reader of the outbox with Options.Consumer`: func() error {
			_, err := pgpipe.OpenOutbox(t.Context(), "postgres://127.0.0.1", pgpipe.Options{Table: "t"})
			return err
		},
		`postgres: Dispatch: the transaction is nil`: func() error { return new(pgpipe.Sink).Dispatch(t.Context(), nil) },
	})
}
