package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/internal/testrabbit"
	"github.com/tenetdev/tenet/pipeline"
)

const prefetch = 300

// rabbit is a RabbitMQ server; every case consumes a new queue.
type rabbit struct {
	server  *testrabbit.Server
	conn    *amqp.Connection
	channel *amqp.Channel
	made    int
}

func newRabbit() (r *rabbit, err error) {
	r = &rabbit{}
	if r.server, err = testrabbit.Open(); err != nil {
		return nil, err
	}
	if r.conn, err = amqp.Dial(r.server.URL()); err == nil {
		r.channel, err = r.conn.Channel()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rabbit) close() error {
	if r.conn != nil {
		_ = r.conn.Close()
	}
	return r.server.Close()
}

// filled creates a classic, durable queue of persistent messages, and a function that deletes it.
func (r *rabbit) filled() (name string, remove func(), err error) {
	r.made++
	name = fmt.Sprintf("bench-%d", r.made)
	remove = func() { _, _ = r.channel.QueueDelete(name, false, false, false) }
	if _, err = r.channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": rabbitmq.Classic}); err != nil {
		return name, remove, err
	}
	body := make([]byte, 200)
	for i := range messages {
		m := amqp.Publishing{MessageId: fmt.Sprintf("order-%06d", i), DeliveryMode: amqp.Persistent, Body: body}
		if err = r.channel.Publish("", name, false, false, m); err != nil {
			return name, remove, err
		}
	}
	for q := (amqp.Queue{}); q.Messages < messages; time.Sleep(10 * time.Millisecond) {
		if q, err = r.channel.QueueDeclarePassive(name, true, false, false, false, nil); err != nil {
			return name, remove, err
		}
	}
	return name, remove, nil
}

// engine consumes a queue through an engine that acknowledges every message.
func (r *rabbit) engine(ctx context.Context) (rate float64, err error) {
	name, remove, err := r.filled()
	defer remove()
	if err != nil {
		return 0, err
	}
	source, err := rabbitmq.OpenSource(ctx, r.server.URL(), rabbitmq.Options{Queue: name, Prefetch: prefetch})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	p := consumerPolicy()
	p.Loop.Batch.Interval = time.Second
	began := time.Now()
	summary, err := pipeline.NewConsumer(source, pipeline.Handle(nothing), p, pipeline.WithName("bench")).Run(ctx)
	took := time.Since(began) - p.Loop.Batch.Interval // the run ends with an empty fetch
	if err == nil && summary.Success != messages {
		err = fmt.Errorf("%+v", summary)
	}
	return messages / took.Seconds(), err
}

// bare acknowledges messages in groups: each acknowledgement includes all earlier messages.
func (r *rabbit) bare(group int) func(context.Context) (float64, error) {
	return func(context.Context) (float64, error) { return r.consume(group) }
}

func (r *rabbit) consume(group int) (rate float64, err error) {
	name, remove, err := r.filled()
	defer remove()
	if err != nil {
		return 0, err
	}
	channel, err := r.conn.Channel()
	if err != nil {
		return 0, err
	}
	defer func() { _ = channel.Close() }()
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return 0, err
	}
	began := time.Now()
	deliveries, err := channel.Consume(name, "", false, false, false, false, nil)
	if err != nil {
		return 0, err
	}
	for i := range messages {
		d := <-deliveries
		if (i+1)%group != 0 {
			continue
		}
		if err := d.Ack(true); err != nil {
			return 0, err
		}
	}
	return messages / time.Since(began).Seconds(), nil
}
