package pipeline_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	var sink pipeline.MemorySink
	source, task := pipeline.NewMemorySource(), pipeline.Map(nothing)
	testargument.Refused(t, map[string]func() error{
		`pipeline: NewConsumer: the source is nil`:         func() error { pipeline.NewConsumer(nil, task, policy.Consumer{}); return nil },
		`pipeline: NewConsumer: the task's Process is nil`: func() error { pipeline.NewConsumer(source, pipeline.Raw{}, policy.Consumer{}); return nil },
		`pipeline: the task's Process is nil`: func() error {
			pipeline.NewConsumer(source, pipeline.Task[string, int]{Sink: &sink}, policy.Consumer{})
			return nil
		},
		`pipeline: NewProducer: the sink is nil`:              func() error { pipeline.NewProducer(nil, pipeline.Raw{}, policy.Producer{}); return nil },
		`pipeline: an option is nil`:                          func() error { pipeline.NewConsumer(source, task, policy.Consumer{}, nil); return nil },
		`pipeline: consumer default: Run: the context is nil`: func() error { _, err := pipeline.NewConsumer(source, task, policy.Consumer{}).Run(none); return err },
		`pipeline: producer default: Run: the context is nil`: func() error {
			_, err := pipeline.NewProducer(&sink, pipeline.Raw{}, policy.Producer{}).Run(none, pipeline.Values[*pipeline.Transaction]())
			return err
		},
		`pipeline: producer default: the sequence of values is nil`: func() error {
			_, err := pipeline.NewProducer(&sink, pipeline.Raw{}, policy.Producer{}).Run(bg, nil)
			return err
		},
		`pipeline: WithProvider: the provider is nil`:      func() error { pipeline.WithProvider(nil); return nil },
		`pipeline: WithDeadLetter: the sink is nil`:        func() error { pipeline.WithDeadLetter(nil); return nil },
		`pipeline: WithGuard: the guard is nil`:            func() error { pipeline.WithGuard(nil); return nil },
		`pipeline: WithEnded: the function is nil`:         func() error { pipeline.WithEnded(nil); return nil },
		`pipeline: Handle: the function is nil`:            func() error { pipeline.Handle[int](nil); return nil },
		`pipeline: Into: the function is nil`:              func() error { pipeline.Into[int, int](nil, &sink); return nil },
		`pipeline: Into: the sink is nil`:                  func() error { pipeline.Into(nothing, nil); return nil },
		`pipeline: Map: the function is nil`:               func() error { pipeline.Map[int, int](nil); return nil },
		`pipeline: MemorySource.Add: a transaction is nil`: func() error { source.Add(nil); return nil },
		`pipeline: Dispatch: the transaction is nil`:       func() error { return sink.Dispatch(bg, nil) },
		`pipeline: NewTransaction: an option is nil`:       func() error { pipeline.NewTransaction("a", nil, nil); return nil },
		`pipeline: Transaction.With: an option is nil`:     func() error { pipeline.NewTransaction("a", nil).With(nil); return nil },
	})
}
