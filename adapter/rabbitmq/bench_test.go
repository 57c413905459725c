package rabbitmq_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
)

const (
	batch    = 100
	prefetch = 300
)

// filled makes a queue with n messages.
func filled(b *testing.B, n int) string {
	b.Helper()
	name, ch := queue(), channel(b)
	_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": rabbitmq.Classic})
	must(b, err)
	body := make([]byte, 100)
	for range n {
		must(b, ch.Publish("", name, false, false, amqp.Publishing{MessageId: "id", DeliveryMode: amqp.Persistent, Body: body}))
	}
	for q := (amqp.Queue{}); q.Messages < n; {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		must(b, err)
	}
	b.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
	return name
}

// BenchmarkBareConsume acknowledges every hundredth message, all before it included: the cheapest there is.
func BenchmarkBareConsume(b *testing.B) {
	name := filled(b, b.N)
	ch := channel(b)
	must(b, ch.Qos(prefetch, 0, false))
	b.ResetTimer()
	cpu := used()
	deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
	must(b, err)
	for i := range b.N {
		if d := <-deliveries; (i+1)%batch == 0 || i+1 == b.N {
			must(b, d.Ack(true))
		}
	}
	rate(b, cpu)
}

// BenchmarkBareSingly acknowledges each message by itself.
func BenchmarkBareSingly(b *testing.B) {
	name := filled(b, b.N)
	ch := channel(b)
	must(b, ch.Qos(prefetch, 0, false))
	b.ResetTimer()
	cpu := used()
	deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
	must(b, err)
	for range b.N {
		d := <-deliveries
		must(b, d.Ack(false))
	}
	rate(b, cpu)
}

func BenchmarkFetchAck(b *testing.B) {
	s := openSource(b, rabbitmq.Options{Queue: filled(b, b.N), Prefetch: prefetch})
	b.ResetTimer()
	cpu := used()
	for n := 0; n < b.N; {
		got, err := s.Fetch(context.Background(), pipeline.FetchRequest{Max: batch, Wait: time.Second})
		must(b, err)
		s.Ack(context.Background(), got)
		n += len(got)
	}
	rate(b, cpu)
}

// BenchmarkConsumer runs the engine with ten workers.
func BenchmarkConsumer(b *testing.B) {
	s := openSource(b, rabbitmq.Options{Queue: filled(b, b.N), Prefetch: prefetch})
	p := policyOf(batch, 10)
	b.ResetTimer()
	cpu := used()
	summary, err := pipeline.NewConsumer(s, pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil }), p).Run(context.Background())
	if err != nil || summary.Success != b.N {
		b.Fatalf("%+v, %v", summary, err)
	}
	rate(b, cpu)
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rate reports what does not depend on b.N. The broker's processor time comes on top, on the same machine.
func rate(b *testing.B, before time.Duration) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/msg")
}
