package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

const (
	transactions = 1_000_000
	workers      = 10
	batch        = 100
)

// wheel is a source in memory that delivers the same transactions again and again.
type wheel struct {
	list     []pipeline.Delivery
	at, left int
}

func newWheel(n int) *wheel {
	w := &wheel{left: n}
	for i := range 10_000 {
		w.list = append(w.list, pipeline.Delivery{Transaction: pipeline.NewTransaction(fmt.Sprintf("transaction-%05d", i), nil)})
	}
	return w
}

// Fetch implements pipeline.Source.
func (w *wheel) Fetch(_ context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	n := min(r.Max, w.left, len(w.list)-w.at)
	got := append(make([]pipeline.Delivery, 0, n), w.list[w.at:w.at+n]...)
	w.at = (w.at + n) % len(w.list)
	if w.left -= n; w.left == 0 {
		return got, pipeline.ErrEnd
	}
	return got, nil
}

// Ack implements pipeline.Acker.
func (w *wheel) Ack(context.Context, []pipeline.Delivery) []error { return nil }

func nothing(context.Context, *pipeline.Transaction) error { return nil }

func consumerPolicy() policy.Consumer {
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = workers, batch
	p.Steps.Process.Retry.MaxAttempts = 3
	return p
}

// engine returns the transactions per second or, with count, the allocations for each.
func engine(count bool) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		consumer := pipeline.NewConsumer(newWheel(transactions), pipeline.Handle(nothing), consumerPolicy())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		summary, err := consumer.Run(ctx)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if err == nil && summary.Success != transactions {
			err = fmt.Errorf("%d of %d transactions", summary.Success, transactions)
		}
		if count {
			return float64(after.Mallocs-before.Mallocs) / transactions, err
		}
		return transactions / took.Seconds(), err
	}
}

// byHand is a loop that starts a goroutine for each transaction; a semaphore limits their number.
func byHand(ctx context.Context) (float64, error) {
	source := newWheel(transactions)
	slots := make(chan struct{}, workers)
	var group sync.WaitGroup
	began := time.Now()
	var err error
	for err == nil {
		var list []pipeline.Delivery
		list, err = source.Fetch(ctx, pipeline.FetchRequest{Max: batch})
		for _, d := range list {
			slots <- struct{}{}
			group.Go(func() {
				_ = nothing(ctx, d.Transaction)
				_ = source.Ack(ctx, nil)
				<-slots
			})
		}
	}
	group.Wait()
	if !errors.Is(err, pipeline.ErrEnd) {
		return 0, err
	}
	return transactions / time.Since(began).Seconds(), nil
}

// router is Watermill's router on its in-memory pub/sub, whose messages wait for their acknowledgement.
func router(ctx context.Context) (float64, error) {
	const n = transactions / 10
	logger := watermill.NopLogger{}
	channel := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: batch}, logger)
	r, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return 0, err
	}
	var done sync.WaitGroup
	done.Add(n)
	r.AddConsumerHandler("handler", "topic", channel, func(*message.Message) error { done.Done(); return nil })
	running := make(chan error, 1)
	go func() { running <- r.Run(ctx) }()
	<-r.Running()
	began := time.Now()
	for i := range n {
		if err := channel.Publish("topic", message.NewMessage(fmt.Sprintf("transaction-%05d", i%10_000), nil)); err != nil {
			return 0, err
		}
	}
	done.Wait()
	took := time.Since(began)
	if err := r.Close(); err != nil {
		return 0, err
	}
	return n / took.Seconds(), <-running
}
