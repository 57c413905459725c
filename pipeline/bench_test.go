package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// wheel is a source in memory that delivers the same transactions again and again.
type wheel struct {
	list []pipeline.Delivery
	at   int
	left int
	done int
}

func newWheel(n int) *wheel {
	w := &wheel{left: n}
	for i := range 10_000 {
		w.list = append(w.list, pipeline.Delivery{Transaction: pipeline.NewTransaction(fmt.Sprintf("transaction-%05d", i), nil)})
	}
	return w
}

func (w *wheel) Fetch(_ context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	n := min(r.Max, w.left, len(w.list)-w.at)
	got := make([]pipeline.Delivery, n)
	copy(got, w.list[w.at:])
	w.at = (w.at + n) % len(w.list)
	w.left -= n
	if w.left == 0 {
		return got, pipeline.ErrEnd
	}
	return got, nil
}

func (w *wheel) Ack(_ context.Context, done []pipeline.Delivery) []error {
	w.done += len(done)
	return nil
}

func nothing(context.Context, *pipeline.Transaction) (any, error) { return nil, nil }

// BenchmarkConsumer measures the cost of the engine: the bar is 500,000 transactions a second and 3 allocations each.
func BenchmarkConsumer(b *testing.B) {
	for _, c := range []struct{ concurrency, batch int }{{10, 100}, {10, 1}, {1, 100}, {100, 1000}} {
		b.Run(fmt.Sprintf("concurrency=%d/batch=%d", c.concurrency, c.batch), func(b *testing.B) {
			var p policy.Consumer
			p.Loop.Concurrency.Value, p.Loop.Batch.Size = c.concurrency, c.batch
			p.Steps.Process.Retry.MaxAttempts = 3
			w := newWheel(b.N)
			consumer := pipeline.NewConsumer(w, pipeline.Map(nothing), p)
			b.ReportAllocs()
			b.ResetTimer()
			start := time.Now()
			summary, err := consumer.Run(context.Background())
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "transactions/s")
			if err != nil || summary.Success != b.N || w.done != b.N {
				b.Fatal(summary, w.done, err)
			}
		})
	}
}

// BenchmarkMemory is BenchmarkConsumer with a memory source and its redelivery.
func BenchmarkMemory(b *testing.B) {
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = 10, 100
	list := make([]*pipeline.Transaction, b.N)
	for i := range list {
		list[i] = pipeline.NewTransaction(fmt.Sprintf("transaction-%d", i), nil)
	}
	source := pipeline.NewMemorySource(list...)
	consumer := pipeline.NewConsumer(source, pipeline.Map(nothing), p)
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	if summary, err := consumer.Run(context.Background()); err != nil || summary.Success != b.N {
		b.Fatal(summary, err)
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "transactions/s")
}

func BenchmarkProducer(b *testing.B) {
	var p policy.Producer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = 10, 100
	w := newWheel(b.N)
	producer := pipeline.NewProducer(pipeline.SinkFunc(func(context.Context, *pipeline.Transaction) error { return nil }), pipeline.Raw{}, p)
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	summary, err := producer.Run(context.Background(), func(yield func(*pipeline.Transaction, error) bool) {
		for i := range b.N {
			if !yield(w.list[i%len(w.list)].Transaction, nil) {
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "transactions/s")
	if err != nil || summary.Success != b.N {
		b.Fatal(summary, err)
	}
}
