//go:build unix

package natspipe_test

import (
	"context"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

// filled makes a stream that holds messages.
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
	done := pipelinetest.Measure(b)
	for got := 0; got < b.N; {
		messages, err := c.Fetch(min(pipelinetest.BenchBatch, b.N-got))
		must(b, err)
		for m := range messages.Messages() {
			must(b, m.Ack())
			got++
		}
	}
	done()
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
	done := pipelinetest.Measure(b)
	for got := 0; got < b.N; {
		messages, err := s.Fetch(min(pipelinetest.BenchBatch, b.N-got))
		must(b, err)
		for _, m := range messages {
			must(b, m.Ack())
		}
		got += len(messages)
	}
	done()
}

func BenchmarkSource(b *testing.B) {
	pipelinetest.BenchSource(b, func(b *testing.B, count int) pipeline.Source {
		n, o := filled(b, count)
		s := openSource(b, n, o)
		b.Cleanup(func() { _ = s.Close() })
		return s
	})
}
