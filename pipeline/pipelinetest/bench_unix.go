//go:build unix

package pipelinetest

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// BenchBatch is how many transactions the benchmarks fetch at a time.
const BenchBatch = 100

// BenchSource measures how fast a source is read: fetch fetches and acknowledges batches, consume runs the engine with ten
// workers. open opens a source of a new queue that holds n transactions.
func BenchSource(b *testing.B, open func(b *testing.B, n int) pipeline.Source) {
	ctx := context.Background()
	b.Run("fetch", func(b *testing.B) {
		s := open(b, b.N)
		done := Measure(b)
		for n := 0; n < b.N; {
			got, err := s.Fetch(ctx, pipeline.FetchRequest{Max: BenchBatch, Wait: time.Second})
			if err != nil {
				b.Fatal(err)
			}
			if a, ok := s.(pipeline.Acker); ok {
				a.Ack(ctx, got)
			}
			n += len(got)
		}
		done()
	})
	b.Run("consume", func(b *testing.B) {
		s := open(b, b.N)
		var p policy.Consumer
		p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Batch.Interval = 10, BenchBatch, 100*time.Millisecond
		p.Loop.Timeout = 5 * time.Minute
		task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil })
		done := Measure(b)
		summary, err := pipeline.NewConsumer(s, task, p).Run(ctx)
		if err != nil || summary.Success != b.N {
			b.Fatalf("%+v, %v", summary, err)
		}
		done()
	})
}

// Measure restarts the benchmark's timer. The function that it returns reports transactions per second, and the processor
// time of this process for each. The processor time of a server in another process is not included.
func Measure(b *testing.B) (done func()) {
	b.ResetTimer()
	before := processorTime(b)
	return func() {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/msg")
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
