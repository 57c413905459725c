package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// An order that cannot be processed now becomes a job, which a worker retries for longer.
func Example() {
	store := memory.Open().Jobs()
	patient := job.NewExponentialBackoff(policy.Retry{MaxAttempts: 15, InitialBackoff: time.Millisecond, MaxBackoff: time.Second})
	escalate := jobs.NewSink(job.NewClient(store), jobs.SinkOptions{Type: "order", Retry: patient})

	var p policy.Consumer
	p.Steps.Process.Retry = policy.Retry{MaxAttempts: 2, InitialBackoff: time.Millisecond}
	busy := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return errors.New("busy") })
	orders := pipeline.NewMemorySource(pipeline.NewTransaction("order-1", []byte(`{"amount":12}`)))
	summary, err := pipeline.NewConsumer(orders, busy, p, pipeline.WithDeadLetter(escalate)).Run(context.Background())
	fmt.Println(summary.Exception, err)

	ctx, stop := context.WithCancel(context.Background())
	w := job.NewWorker(store, job.WithRetryPolicy(patient))
	w.HandleRaw("order", func(_ context.Context, j job.Job[[]byte]) error {
		t := jobs.FromJob(j)
		fmt.Println(t.ID(), string(t.Payload()), "after", t.Attempts(), "attempts")
		stop()
		return nil
	})
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 <nil>
	// order-1 {"amount":12} after 2 attempts
}
