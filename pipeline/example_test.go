package pipeline_test

import (
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
