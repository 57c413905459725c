package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/pipeline"
)

// Sink is a pipeline.Sink that publishes each transaction as a persistent message, whose ID is the transaction's. A dispatch
// returns when the broker has confirmed the message, which in a durable queue then survives a crash. RabbitMQ does not drop
// duplicates; consumers recognise them by their ID. A sink is safe for concurrent use, and also a pipeline.Checker. It keeps
// the order of one goroutine's dispatches.
type Sink struct {
	o    Options
	link *link[*publisher]
}

// OpenSink connects to the server of a URL without Options in it. Close it after the engine's Run.
func OpenSink(ctx context.Context, server string, o Options) (*Sink, error) {
	if ctx == nil {
		return nil, errors.New("rabbitmq: OpenSink: the context is nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Exchange == "" && o.Key == "" {
		return nil, errors.New("rabbitmq: the queue's name is missing; write amqp://host/QUEUE, or set Options.Queue")
	}
	s := &Sink{o: o}
	s.link = newLink(o.Timeout, func(ctx context.Context) (*publisher, error) {
		p, err := connectPublisher(ctx, server, o)
		if err != nil || o.Declare == "" {
			return p, err
		}
		if err := p.prepare(o); err != nil {
			return nil, errors.Join(err, p.end())
		}
		return p, nil
	})
	if err := s.link.open(ctx); err != nil {
		return nil, fmt.Errorf("rabbitmq: open: %w", err)
	}
	return s, nil
}

// Dispatch implements pipeline.Sink. It waits for a lost connection, up to Options.Timeout, before it fails. Its errors include
// ErrUnroutable, ErrRefused and ErrLost, which may be retried. Metadata that do not fit into a frame, 128 KiB by default, are a
// permanent error.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	if t == nil {
		return errors.New("rabbitmq: Dispatch: the transaction is nil")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := publishing(t)
	if err != nil {
		return err
	}
	p, err := s.link.get(ctx)
	if err != nil {
		return err
	}
	sent, err := p.send(s.o.Exchange, s.o.Key, m)
	if err != nil {
		return err
	}
	return sent.confirmed(ctx)
}

// Check implements pipeline.Checker: it fails while there is no connection.
func (s *Sink) Check(ctx context.Context) error {
	_, err := s.link.get(ctx)
	return err
}

// Close closes the connection.
func (s *Sink) Close() error { return s.link.close() }
