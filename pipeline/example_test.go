package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	type order struct{ Customer string }
	source := pipeline.NewMemorySource(
		pipeline.NewTransaction("order-1", []byte(`{"Customer":"ann"}`)),
		pipeline.NewTransaction("order-2", []byte(`{"Customer":""}`)),
	)
	var letters pipeline.MemorySink
	p := policy.Consumer{}
	p.Loop.Concurrency.Value = 10
	p.Steps.Process.Retry.MaxAttempts = 3

	consumer := pipeline.NewConsumer(source, pipeline.Handle(func(ctx context.Context, o order) error {
		if o.Customer == "" {
			return classify.Business(errors.New("an order needs a customer")) // a retry cannot help
		}
		return nil
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
	type order struct{ Amount int }
	type receipt struct{ Paid int }
	source := pipeline.NewMemorySource(pipeline.NewTransaction("a", []byte(`{"Amount":12}`)))
	var receipts pipeline.MemorySink
	charge := func(ctx context.Context, o order) (receipt, error) { return receipt{Paid: o.Amount}, nil }
	summary, err := pipeline.NewConsumer(source, pipeline.Into(charge, &receipts), policy.Consumer{}).Run(context.Background())
	fmt.Println(summary.Success, err)
	for _, t := range receipts.Transactions() {
		fmt.Printf("%s %s\n", t.ID(), t.Payload())
	}
	// Output:
	// 1 <nil>
	// a {"Paid":12}
}

func ExampleTask() {
	source := pipeline.NewMemorySource(pipeline.NewTransaction("a", []byte(`"hello"`)))
	var sink pipeline.MemorySink
	task := pipeline.Task[string, []byte]{
		Process: func(_ context.Context, text string) ([]byte, error) { return []byte(strings.ToUpper(text)), nil },
		Sink:    &sink,
		Success: func(ctx context.Context, text string, shouted []byte) error {
			fmt.Printf("%s: %s, %s\n", pipeline.TransactionOf(ctx).ID(), text, shouted)
			return nil
		},
	}
	if _, err := pipeline.NewConsumer(source, task, policy.Consumer{}).Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s\n", sink.Transactions()[0].Payload())
	// Output:
	// a: hello, HELLO
	// HELLO
}

func ExampleProducer_Run() {
	type invoice struct{ Number string }
	var sink pipeline.MemorySink
	var p policy.Producer
	p.Loop.Batch.Size = 2
	task := pipeline.Task[invoice, invoice]{ID: func(i invoice) string { return i.Number }}
	summary, err := pipeline.NewProducer(&sink, task, p).Run(context.Background(), pipeline.Values(invoice{"a"}, invoice{"b"}, invoice{"c"}))
	fmt.Println(summary.Success, err)
	for _, t := range sink.Transactions()[2:] {
		fmt.Printf("%s %s\n", t.ID(), t.Payload())
	}
	// Output:
	// 3 <nil>
	// c {"Number":"c"}
}
