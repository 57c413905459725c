package natspipe_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

const batch = 100

// filled makes a stream with n messages.
func filled(b *testing.B, count int) (node, natspipe.Options) {
	b.Helper()
	n := start(b)
	o := n.stream(b, "orders")
	o.AckWait = time.Minute
	js := n.js(b)
	body := make([]byte, 100)
	for range count {
		_, err := js.PublishAsync("orders.in", body)
		must(b, err)
	}
	<-js.PublishAsyncComplete()
	return n, o
}

func BenchmarkBareFetch(b *testing.B) {
	n, o := filled(b, b.N)
	c, err := n.js(b).CreateConsumer(context.Background(), o.Stream, jetstream.ConsumerConfig{
		Durable: "bare", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1 << 16,
	})
	must(b, err)
	b.ResetTimer()
	cpu := used()
	for got := 0; got < b.N; {
		messages, err := c.Fetch(min(batch, b.N-got))
		must(b, err)
		for m := range messages.Messages() {
			must(b, m.Ack())
			got++
		}
	}
	rate(b, cpu)
}

// BenchmarkBareLegacyFetch reuses one subscription, as the older interface does.
func BenchmarkBareLegacyFetch(b *testing.B) {
	n, o := filled(b, b.N)
	conn, err := natsgo.Connect(n.ClientURL())
	must(b, err)
	defer conn.Close()
	js, err := conn.JetStream()
	must(b, err)
	s, err := js.PullSubscribe("orders.in", "bare", natsgo.BindStream(o.Stream), natsgo.MaxAckPending(1<<16))
	must(b, err)
	b.ResetTimer()
	cpu := used()
	for got := 0; got < b.N; {
		messages, err := s.Fetch(min(batch, b.N-got))
		must(b, err)
		for _, m := range messages {
			must(b, m.Ack())
		}
		got += len(messages)
	}
	rate(b, cpu)
}

func BenchmarkFetchAck(b *testing.B) {
	n, o := filled(b, b.N)
	s := openSource(b, n, o)
	defer s.Close()
	b.ResetTimer()
	cpu := used()
	for got := 0; got < b.N; {
		list, err := s.Fetch(context.Background(), pipeline.FetchRequest{Max: batch, Wait: time.Second})
		must(b, err)
		s.Ack(context.Background(), list)
		got += len(list)
	}
	rate(b, cpu)
}

// BenchmarkConsumer runs the engine with ten workers.
func BenchmarkConsumer(b *testing.B) {
	n, o := filled(b, b.N)
	s := openSource(b, n, o)
	defer s.Close()
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Batch.Interval, p.Loop.Timeout = 10, batch, 100*time.Millisecond, 5*time.Minute
	task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil })
	b.ResetTimer()
	cpu := used()
	summary, err := pipeline.NewConsumer(s, task, p).Run(context.Background())
	if err != nil || summary.Success != b.N {
		b.Fatalf("%+v, %v", summary, err)
	}
	rate(b, cpu)
}

// used is the processor time of this process, the server's included.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func rate(b *testing.B, before time.Duration) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/msg")
}
