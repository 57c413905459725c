package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/pipeline"
)

// Source reads a stream through a durable pull consumer. It is safe for concurrent use.
type Source struct {
	conn     *nats.Conn
	consumer jetstream.Consumer
	options  Options
	ackWait  time.Duration  // the consumer's
	leaving  sync.WaitGroup // fetches that were left while messages could still come
}

var (
	_ pipeline.Source   = (*Source)(nil)
	_ pipeline.Acker    = (*Source)(nil)
	_ pipeline.Nacker   = (*Source)(nil)
	_ pipeline.Extender = (*Source)(nil)
	_ pipeline.Checker  = (*Source)(nil)
)

// OpenSource connects to a server, or a comma-separated list of servers of one cluster, and binds to the consumer, which is
// made where it is missing. A consumer that exists keeps its settings.
func OpenSource(ctx context.Context, server string, o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := connect(server, o)
	if err != nil {
		return nil, err
	}
	s := &Source{conn: conn, options: o}
	if err := s.bind(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *Source) bind(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	js, err := jetstream.New(s.conn)
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	s.consumer, err = js.Consumer(ctx, s.options.Stream, s.options.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		s.consumer, err = js.CreateOrUpdateConsumer(ctx, s.options.Stream, jetstream.ConsumerConfig{
			Durable: s.options.Consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.options.AckWait,
			FilterSubject: s.options.Subject, MaxAckPending: maxAckPending,
		})
	}
	if err != nil {
		return fmt.Errorf("nats: consumer %s of stream %s: %w", s.options.Consumer, s.options.Stream, err)
	}
	config := s.consumer.CachedInfo().Config
	if config.AckPolicy != jetstream.AckExplicitPolicy {
		return fmt.Errorf("nats: consumer %s of stream %s acknowledges by %s; it must be explicit", s.options.Consumer, s.options.Stream, config.AckPolicy)
	}
	s.ackWait = config.AckWait
	return nil
}

// Fetch implements pipeline.Source.
func (s *Source) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	got, err := s.there(ctx, r.Max)
	if err != nil || len(got) > 0 || r.Wait <= 0 {
		return got, err
	}
	batch, err := s.consumer.Fetch(1, jetstream.FetchMaxWait(r.Wait)) // a pull of more would go on waiting for them
	if err != nil {
		return nil, fmt.Errorf("nats: fetch: %w", err)
	}
	if got, err = s.collect(ctx, batch); err != nil || len(got) == 0 || r.Max == 1 {
		return got, err
	}
	more, err := s.there(ctx, r.Max-1)
	if err != nil {
		return got, nil //nolint:nilerr // the next fetch finds out
	}
	return append(got, more...), nil
}

// there fetches what is in the stream by now.
func (s *Source) there(ctx context.Context, most int) ([]pipeline.Delivery, error) {
	batch, err := s.consumer.FetchNoWait(most)
	if err != nil {
		return nil, fmt.Errorf("nats: fetch: %w", err)
	}
	return s.collect(ctx, batch)
}

func (s *Source) collect(ctx context.Context, batch jetstream.MessageBatch) ([]pipeline.Delivery, error) {
	var got []pipeline.Delivery
	for {
		select {
		case m, more := <-batch.Messages():
			if !more {
				return fetched(got, batch.Error())
			}
			d, err := s.delivery(m)
			if err != nil {
				return got, err
			}
			got = append(got, d)
		case <-ctx.Done():
			s.leave(batch)
			if len(got) > 0 {
				return got, nil
			}
			return nil, ctx.Err()
		}
	}
}

func fetched(got []pipeline.Delivery, err error) ([]pipeline.Delivery, error) {
	if err == nil || len(got) > 0 || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
		return got, nil
	}
	return nil, fmt.Errorf("nats: fetch: %w", err)
}

// leave gives back what still comes of a fetch that nobody waits for.
func (s *Source) leave(batch jetstream.MessageBatch) {
	s.leaving.Go(func() {
		for m := range batch.Messages() {
			_ = m.Nak() // else it comes again after AckWait
		}
	})
}

func (s *Source) delivery(m jetstream.Msg) (pipeline.Delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return pipeline.Delivery{}, fmt.Errorf("nats: fetch: %w", err)
	}
	return pipeline.Delivery{
		Transaction: transaction(m, meta), Token: m, Count: int(meta.NumDelivered), Deadline: time.Now().Add(s.ackWait),
	}, nil
}

// each does something with every delivery and collects the errors.
func each(list []pipeline.Delivery, do func(m jetstream.Msg) error) []error {
	var errs []error
	for i, d := range list {
		m, ok := d.Token.(jetstream.Msg)
		err := errors.New("nats: this delivery is another source's")
		if ok {
			err = do(m)
		}
		if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			continue
		}
		if errs == nil {
			errs = make([]error, len(list))
		}
		errs[i] = fmt.Errorf("nats: %w", err)
	}
	return errs
}

// Ack implements pipeline.Acker.
func (s *Source) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	if !s.options.DoubleAck {
		return each(done, func(m jetstream.Msg) error { return m.Ack() })
	}
	return each(done, func(m jetstream.Msg) error {
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		return m.DoubleAck(ctx)
	})
}

// Nack implements pipeline.Nacker.
func (s *Source) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	errs := each([]pipeline.Delivery{d}, func(m jetstream.Msg) error {
		if delay <= 0 {
			return m.Nak()
		}
		return m.NakWithDelay(delay)
	})
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// Extend implements pipeline.Extender.
func (s *Source) Extend(_ context.Context, held []pipeline.Delivery) []error {
	return each(held, func(m jetstream.Msg) error { return m.InProgress() })
}

// ExtendEvery implements pipeline.Extender.
func (s *Source) ExtendEvery() time.Duration { return s.ackWait / 3 }

// Check implements pipeline.Checker.
func (s *Source) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := s.consumer.Info(ctx); err != nil {
		return fmt.Errorf("nats: consumer %s of stream %s: %w", s.options.Consumer, s.options.Stream, err)
	}
	return nil
}

// Close sends what is still to be sent and disconnects. What is not acknowledged comes again after AckWait.
func (s *Source) Close() error {
	err := s.conn.FlushTimeout(requestTime)
	s.conn.Close()
	s.leaving.Wait()
	if err != nil {
		return fmt.Errorf("nats: close: %w", err)
	}
	return nil
}
