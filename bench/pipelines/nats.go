package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/pipeline"
)

const messages = 100_000

// broker is a NATS server in this process with a stream that a new consumer reads in each round.
type broker struct {
	server *server.Server
	folder string
	conn   *natsgo.Conn
	js     jetstream.JetStream
	made   int
}

func newBroker(ctx context.Context) (b *broker, err error) {
	b = &broker{}
	if b.folder, err = os.MkdirTemp("", "benchnats"); err != nil {
		return nil, err
	}
	if b.server, err = natstest.Serve(server.Options{Port: server.RANDOM_PORT, StoreDir: b.folder}); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.conn, err = natsgo.Connect(b.server.ClientURL()); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err = b.fill(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *broker) fill(ctx context.Context) (err error) {
	if b.js, err = jetstream.New(b.conn, jetstream.WithPublishAsyncMaxPending(1000)); err != nil {
		return err
	}
	if _, err = b.js.CreateStream(ctx, jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.in"}}); err != nil {
		return err
	}
	payload := make([]byte, 200)
	for i := range messages {
		m := natsgo.NewMsg("orders.in")
		m.Data = payload
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("order-%06d", i))
		if _, err := b.js.PublishMsgAsync(m); err != nil {
			return err
		}
	}
	<-b.js.PublishAsyncComplete()
	return nil
}

func (b *broker) close() error {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	return os.RemoveAll(b.folder)
}

func (b *broker) consumer() string {
	b.made++
	return fmt.Sprintf("c%d", b.made)
}

// engine consumes the stream through an engine that acknowledges every message.
func (b *broker) engine(ctx context.Context) (rate float64, err error) {
	source, err := natspipe.OpenSource(ctx, b.server.ClientURL(), natspipe.Options{Stream: "orders", Consumer: b.consumer()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	began := time.Now()
	summary, err := pipeline.NewConsumer(source, pipeline.Handle(nothing), consumerPolicy()).Run(ctx)
	if err == nil && summary.Success != messages {
		err = fmt.Errorf("%+v", summary)
	}
	return messages / time.Since(began).Seconds(), err
}

// bare fetches batches and acknowledges every message.
func (b *broker) bare(ctx context.Context) (rate float64, err error) {
	conn, err := natsgo.Connect(b.server.ClientURL())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "orders", jetstream.ConsumerConfig{
		Durable: b.consumer(), AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000,
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for n := 0; n < messages; {
		list, err := consumer.FetchNoWait(batch)
		if err != nil {
			return 0, err
		}
		for m := range list.Messages() {
			if err := m.Ack(); err != nil {
				return 0, err
			}
			n++
		}
	}
	return messages / time.Since(began).Seconds(), conn.Flush()
}
