package rabbitmq_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// A queue is filled and consumed. The URL is that of any broker, such as amqp://user:password@host/orders?declare=quorum.
func Example() {
	ctx := context.Background()
	server, o, err := rabbitmq.ParseURL(broker.URL() + "orders?declare=classic&prefetch=20")
	if err != nil {
		fmt.Println(err)
		return
	}
	sink, err := rabbitmq.OpenSink(ctx, server, o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close()
	if err := sink.Dispatch(ctx, pipeline.NewTransaction("order-1", []byte(`{"amount":12}`))); err != nil {
		fmt.Println(err)
		return
	}

	source, err := rabbitmq.OpenSource(ctx, server, o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	task := pipeline.Handle(func(_ context.Context, t *pipeline.Transaction) error {
		fmt.Println(t.ID(), string(t.Payload()))
		return nil
	})
	var p policy.Consumer
	p.Loop.Batch.Size, p.Loop.Batch.Interval = 10, 100*time.Millisecond
	summary, err := pipeline.NewConsumer(source, task, p).Run(ctx)
	fmt.Println(summary.Success, err)
	// Output:
	// order-1 {"amount":12}
	// 1 <nil>
}
