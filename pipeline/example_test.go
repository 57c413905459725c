package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	source := pipeline.NewMemorySource(
		pipeline.NewTransaction("order-1", []byte("12")),
		pipeline.NewTransaction("order-2", []byte("much")),
	)
	var letters pipeline.MemorySink
	p := policy.Consumer{}
	p.Loop.Concurrency.Value = 10
	p.Steps.Process.Retry.MaxAttempts = 3

	consumer := pipeline.NewConsumer(source, pipeline.TaskFunc(func(ctx context.Context, t *pipeline.Transaction) (any, error) {
		var amount int
		if _, err := fmt.Sscan(string(t.Payload()), &amount); err != nil {
			return nil, classify.Business(errors.New("not an amount")) // repeating cannot help
		}
		return amount, nil
	}), p, pipeline.WithName("orders"), pipeline.WithDeadLetter(&letters))

	summary, err := consumer.Run(context.Background())
	fmt.Println(summary.Success, summary.Exception, err)
	for _, t := range letters.Transactions() {
		fmt.Println(t.ID(), t.Metadata(pipeline.MetaCategory))
	}
	// Output:
	// 1 1 <nil>
	// order-2 business
}

func ExampleInto() {
	source := pipeline.NewMemorySource(pipeline.NewTransaction("a", []byte("hello")))
	var sink pipeline.MemorySink
	upper := pipeline.TaskFunc(func(_ context.Context, t *pipeline.Transaction) (any, error) {
		return bytes.ToUpper(t.Payload()), nil
	})
	summary, err := pipeline.NewConsumer(source, pipeline.Into(upper, &sink), policy.Consumer{}).Run(context.Background())
	fmt.Println(summary.Success, err)
	for _, t := range sink.Transactions() {
		fmt.Printf("%s %s\n", t.ID(), t.Payload())
	}
	// Output:
	// 1 <nil>
	// a HELLO
}

func ExampleTyped() {
	type order struct{ Amount int }
	source := pipeline.NewMemorySource(pipeline.NewTransaction("a", []byte(`{"Amount":12}`)))
	task := pipeline.Typed[order, int]{
		Process: func(_ context.Context, item pipeline.Item[order]) (int, error) { return item.Value.Amount * 2, nil },
		Success: func(_ context.Context, item pipeline.Item[order], result int) error {
			fmt.Println(item.ID(), result)
			return nil
		},
	}.Task()
	if _, err := pipeline.NewConsumer(source, task, policy.Consumer{}).Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a 24
}

func ExampleProducer_Run() {
	var sink pipeline.MemorySink
	var p policy.Producer
	p.Loop.Batch.Size = 2
	summary, err := pipeline.NewProducer(&sink, nil, p).Run(context.Background(), pipeline.Transactions(
		pipeline.NewTransaction("a", nil), pipeline.NewTransaction("b", nil), pipeline.NewTransaction("c", nil),
	))
	fmt.Println(summary.Success, len(sink.Transactions()), err)
	// Output:
	// 3 3 <nil>
}
