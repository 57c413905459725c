package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

// Sink publishes transactions and waits until the stream has taken them. It is safe for concurrent use; concurrent
// dispatches share the connection.
type Sink struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	options Options
}

var (
	_ pipeline.Sink    = (*Sink)(nil)
	_ pipeline.Checker = (*Sink)(nil)
)

// OpenSink connects to a server, or a comma-separated list of servers of one cluster. The stream has to exist.
func OpenSink(ctx context.Context, server string, o Options) (*Sink, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := connect(server, o)
	if err != nil {
		return nil, err
	}
	s := &Sink{conn: conn, options: o}
	if err := s.bind(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sink) bind(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if s.js, err = jetstream.New(s.conn); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	stream, err := s.js.Stream(ctx, s.options.Stream)
	if err != nil {
		return fmt.Errorf("nats: stream %s: %w", s.options.Stream, err)
	}
	if s.options.Subject != "" {
		return nil
	}
	subjects := stream.CachedInfo().Config.Subjects
	if len(subjects) != 1 || strings.ContainsAny(subjects[0], "*>") {
		return fmt.Errorf("nats: stream %s takes the subjects %v; say which with subject", s.options.Stream, subjects)
	}
	s.options.Subject = subjects[0]
	return nil
}

// Dispatch implements pipeline.Sink. The ID is the message's Nats-Msg-Id: the stream drops a repetition within its window.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	m, err := message(s.options.Subject, t)
	if err != nil {
		return classify.Permanent(err)
	}
	_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectStream(s.options.Stream), jetstream.WithRetryAttempts(0))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		return classify.Permanent(fmt.Errorf("nats: publish to %s: %w", s.options.Subject, err))
	}
	return fmt.Errorf("nats: publish to %s: %w", s.options.Subject, err)
}

// Check implements pipeline.Checker.
func (s *Sink) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := s.js.Stream(ctx, s.options.Stream); err != nil {
		return fmt.Errorf("nats: stream %s: %w", s.options.Stream, err)
	}
	return nil
}

// Close disconnects. Whatever Dispatch has returned nil for is in the stream.
func (s *Sink) Close() error {
	s.conn.Close()
	return nil
}
