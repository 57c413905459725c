//go:build unix

package rabbitmq_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

const prefetch = 300

// filled makes a queue that holds n messages.
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

// BenchmarkBareConsume acknowledges every hundredth message and with it all earlier ones, which is the cheapest way.
func BenchmarkBareConsume(b *testing.B) {
	name := filled(b, b.N)
	ch := channel(b)
	must(b, ch.Qos(prefetch, 0, false))
	done := pipelinetest.Measure(b)
	deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
	must(b, err)
	for i := range b.N {
		if d := <-deliveries; (i+1)%pipelinetest.BenchBatch == 0 || i+1 == b.N {
			must(b, d.Ack(true))
		}
	}
	done()
}

// BenchmarkBareSingly acknowledges each message separately.
func BenchmarkBareSingly(b *testing.B) {
	name := filled(b, b.N)
	ch := channel(b)
	must(b, ch.Qos(prefetch, 0, false))
	done := pipelinetest.Measure(b)
	deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
	must(b, err)
	for range b.N {
		d := <-deliveries
		must(b, d.Ack(false))
	}
	done()
}

func BenchmarkSource(b *testing.B) {
	pipelinetest.BenchSource(b, func(b *testing.B, n int) pipeline.Source {
		return openSource(b, rabbitmq.Options{Queue: filled(b, n), Prefetch: prefetch})
	})
}
