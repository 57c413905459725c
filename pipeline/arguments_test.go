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
	source, task := pipeline.NewMemorySource(), pipeline.TaskFunc(nothing)
	testargument.Refused(t, map[string]func() error{
		`pipeline: NewConsumer: the source is nil`:            func() error { pipeline.NewConsumer(nil, task, policy.Consumer{}); return nil },
		`pipeline: NewConsumer: the task is nil`:              func() error { pipeline.NewConsumer(source, nil, policy.Consumer{}); return nil },
		`pipeline: NewProducer: the sink is nil`:              func() error { pipeline.NewProducer(nil, nil, policy.Producer{}); return nil },
		`pipeline: an option is nil`:                          func() error { pipeline.NewConsumer(source, task, policy.Consumer{}, nil); return nil },
		`pipeline: consumer default: Run: the context is nil`: func() error { _, err := pipeline.NewConsumer(source, task, policy.Consumer{}).Run(none); return err },
		`pipeline: producer default: Run: the context is nil`: func() error {
			_, err := pipeline.NewProducer(&sink, nil, policy.Producer{}).Run(none, pipeline.Transactions())
			return err
		},
		`pipeline: producer default: the sequence of transactions is nil`: func() error { _, err := pipeline.NewProducer(&sink, nil, policy.Producer{}).Run(bg, nil); return err },
		`pipeline: WithProvider: the provider is nil`:                     func() error { pipeline.WithProvider(nil); return nil },
		`pipeline: WithDeadLetter: the sink is nil`:                       func() error { pipeline.WithDeadLetter(nil); return nil },
		`pipeline: WithGuard: the guard is nil`:                           func() error { pipeline.WithGuard(nil); return nil },
		`pipeline: WithEnded: the function is nil`:                        func() error { pipeline.WithEnded(nil); return nil },
		`pipeline: Into: the task is nil`:                                 func() error { pipeline.Into(nil, &sink); return nil },
		`pipeline: Into: the sink is nil`:                                 func() error { pipeline.Into(task, nil); return nil },
		`pipeline: MemorySource.Add: a transaction is nil`:                func() error { source.Add(nil); return nil },
		`pipeline: Dispatch: the transaction is nil`:                      func() error { return sink.Dispatch(bg, nil) },
		`pipeline: NewTransaction: an option is nil`:                      func() error { pipeline.NewTransaction("a", nil, nil); return nil },
		`pipeline: Transaction.With: an option is nil`:                    func() error { pipeline.NewTransaction("a", nil).With(nil); return nil },
		`pipeline: Typed.Task: Process is nil`:                            func() error { pipeline.Typed[int, int]{}.Task(); return nil },
	})
}
