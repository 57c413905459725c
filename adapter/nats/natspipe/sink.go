package natspipe

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

// Sink is a pipeline.Sink that publishes each transaction to a stream. A dispatch returns when the stream has acknowledged the
// message. Its ID is the transaction's, so that the stream stores a repeated dispatch once within its duplicate window, 2
// minutes by default. A sink is safe for concurrent use, and also a pipeline.Checker. It keeps the order of one goroutine's
// dispatches; concurrent dispatches share the connection and wait for their acknowledgements at the same time.
type Sink struct {
	*conn
	subject string
}

// OpenSink connects to a server, or a comma-separated list of servers of one cluster. Close it after the engine's Run.
func OpenSink(ctx context.Context, server string, o Options) (*Sink, error) {
	c, err := connect(ctx, "OpenSink", server, o)
	if err != nil {
		return nil, err
	}
	s := &Sink{conn: c, subject: o.Subject}
	if err := s.bind(ctx); err != nil {
		c.nc.Close()
		return nil, kind.Wrap(fmt.Sprintf("stream %q", o.Stream), err)
	}
	return s, nil
}

// bind finds the stream, and the subject if none is given.
func (s *Sink) bind(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.o.Stream)
	if err != nil || s.subject != "" {
		return err
	}
	subjects := stream.CachedInfo().Config.Subjects
	if len(subjects) != 1 || strings.ContainsAny(subjects[0], "*>") {
		return fmt.Errorf("it has the subjects %q: say which one with subject=, or set Options.Subject", subjects)
	}
	s.subject = subjects[0]
	return nil
}

// Dispatch implements pipeline.Sink. It waits for a lost connection, up to Options.Timeout, before it fails. A
// transaction that is larger than the server's max_payload or the stream's max_msg_size is a permanent error.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	if t == nil {
		return errors.New("nats: Dispatch: the transaction is nil")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := message(t, s.subject)
	if err != nil {
		return err
	}
	if err := s.connected(ctx); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectStream(s.o.Stream))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload), isTooLarge(err):
		return classify.Permanent(kind.Wrap("transaction "+t.ID(), err))
	}
	return kind.Wrap(fmt.Sprintf("publish to %q", s.subject), err)
}

func isTooLarge(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum
}

// Check implements pipeline.Checker. It fails while the stream cannot be reached.
func (s *Sink) Check(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.js.Stream(ctx, s.o.Stream)
	return kind.Wrap(fmt.Sprintf("stream %q", s.o.Stream), err)
}

// Close closes the connection.
func (s *Sink) Close() error { return s.close() }
