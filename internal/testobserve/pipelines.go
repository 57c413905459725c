package testobserve

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// What the first transaction comes with.
const (
	ParentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	ParentSpan  = "00f067aa0ba902b7"
)

// Pipelines runs a consumer until its loop timeout of a minute, and a producer. process is called for each attempt.
//
//	a comes with a trace and succeeds with the second attempt, b never, c's attempts time out, d's success handler until the transaction does
func Pipelines(ctx context.Context, t *testing.T, o observe.Observer, process func()) {
	t.Helper()
	var list []*pipeline.Transaction
	for _, id := range []string{"a", "b", "c", "d"} {
		list = append(list, pipeline.NewTransaction(id, nil))
	}
	list[0] = list[0].With(pipeline.WithMetadata(map[string]string{
		pipeline.MetaTraceParent: "00-" + ParentTrace + "-" + ParentSpan + "-01", pipeline.MetaTraceState: "vendor=1",
	}))
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = 1, 10
	p.Loop.Streaming, p.Loop.Timeout, p.Loop.TransactionTimeout = true, time.Minute, 10*time.Second
	p.Loop.EmptyQueue.Backoff, p.Loop.EmptyQueue.BackoffMultiplier = 20*time.Second, 1
	p.Steps.Process.Retry = policy.Retry{
		MaxAttempts: 2, InitialBackoff: time.Second, Jitter: policy.JitterNone, TimeoutPerAttempt: 2 * time.Second,
	}
	options := []pipeline.Option{pipeline.WithName("orders"), pipeline.WithObserver(o), pipeline.WithLogger(slog.New(slog.DiscardHandler))}
	_, err := pipeline.NewConsumer(pipeline.NewMemorySource(list...), script(process), p, options...).Run(ctx)
	if _, ok := errors.AsType[*pipeline.ConsumerLoopTimeoutError](err); !ok {
		t.Fatal(err)
	}
	if _, err := pipeline.NewProducer(&pipeline.MemorySink{}, pipeline.Raw{}, policy.Producer{}, options...).Run(ctx, pipeline.Values(list...)); err != nil {
		t.Fatal(err)
	}
}

func script(process func()) pipeline.Raw {
	attempts := map[string]int{}
	return pipeline.Raw{
		Process: func(ctx context.Context, x *pipeline.Transaction) (*pipeline.Transaction, error) {
			process()
			attempts[x.ID()]++
			switch {
			case x.ID() == "a" && attempts["a"] == 1, x.ID() == "b":
				return nil, errors.New("down")
			case x.ID() == "c":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		},
		Success: func(ctx context.Context, x *pipeline.Transaction, _ *pipeline.Transaction) error {
			if x.ID() == "d" {
				<-ctx.Done()
			}
			return ctx.Err()
		},
		Exception: func(context.Context, *pipeline.Transaction, error) error { return nil },
	}
}
