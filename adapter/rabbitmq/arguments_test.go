package rabbitmq_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`rabbitmq: OpenSink: the context is nil`: func() error {
			_, err := rabbitmq.OpenSink(none, "amqp://127.0.0.1", rabbitmq.Options{Queue: "q"})
			return err
		},
		`rabbitmq: OpenSource: the context is nil`: func() error {
			_, err := rabbitmq.OpenSource(none, "amqp://127.0.0.1", rabbitmq.Options{Queue: "q"})
			return err
		},
		`rabbitmq: the queue's name is missing; write amqp://host/QUEUE, or set Options.Queue`: func() error {
			_, err := rabbitmq.OpenSource(t.Context(), "amqp://127.0.0.1", rabbitmq.Options{})
			return err
		},
		`rabbitmq: Dispatch: the transaction is nil`: func() error { return new(rabbitmq.Sink).Dispatch(t.Context(), nil) },
	})
}
