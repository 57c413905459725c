package natspipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/internal/verdict"
	"github.com/tenetdev/tenet/pipeline"
)

// Source is a pipeline.Source that reads a stream through a durable pull consumer, and also a pipeline.Acker, Nacker, Extender
// and Checker. First deliveries come in the stream's order. Any number of sources may share a consumer.
type Source struct {
	*conn
	lease    time.Duration // the consumer's shortest wait for acknowledgements
	subjects bool          // messages have different subjects
	pulls    pulls

	mu   sync.Mutex
	held map[uint64]*token // the last delivery of each message that is not settled, by its sequence
}

// token is a delivered message. The server does not check which delivery an answer is for, so the source does.
type token struct {
	*nats.Msg
	sequence uint64
}

// mostPending is the max_ack_pending of a consumer that OpenSource creates. Messages that wait for their delays count.
const mostPending = 1 << 16

// OpenSource connects to a server, or a comma-separated list of servers of one cluster, and finds or creates the
// consumer. Close the source after the engine's Run.
func OpenSource(ctx context.Context, server string, o Options) (*Source, error) {
	c, err := connect(ctx, "OpenSource", server, o)
	if err != nil {
		return nil, err
	}
	s := &Source{conn: c, held: map[uint64]*token{}}
	if err := s.bind(ctx); err != nil {
		c.nc.Close()
		return nil, kind.Wrap(s.place(), err)
	}
	return s, nil
}

// place names the consumer in errors.
func (s *Source) place() string {
	return fmt.Sprintf("stream %q, consumer %q", s.o.Stream, s.o.Consumer)
}

// bind finds or creates the consumer.
func (s *Source) bind(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.o.Stream)
	if err != nil {
		return err
	}
	found, err := stream.Consumer(ctx, s.o.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		found, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: s.o.Consumer, FilterSubject: s.o.Subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.o.AckWait,
			MaxDeliver: -1, MaxAckPending: mostPending,
		})
	}
	if err != nil {
		return err
	}
	config := found.CachedInfo().Config
	switch {
	case config.DeliverSubject != "":
		return errors.New("it is a push consumer; use a pull consumer")
	case config.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("its ack_policy is %v; use explicit", config.AckPolicy)
	case s.o.Subject != "" && config.FilterSubject != s.o.Subject:
		return fmt.Errorf("its filter is %q; use that, or another consumer", config.FilterSubject)
	}
	s.lease = config.AckWait
	for _, wait := range config.BackOff {
		s.lease = min(s.lease, wait)
	}
	filters := config.FilterSubjects
	if config.FilterSubject != "" {
		filters = []string{config.FilterSubject}
	} else if len(filters) == 0 {
		filters = stream.CachedInfo().Config.Subjects
	}
	s.subjects = len(filters) != 1 || strings.ContainsAny(filters[0], "*>")
	return s.pulls.open(s.nc, s.o)
}

// Fetch implements pipeline.Source. It asks for the messages that are there or the first that arrive, and again if the request was
// lost. While the connection is lost or the server does not answer, it tries for up to Options.Timeout before it fails, so an empty
// result means that there are no messages, or that the consumer is at its max_ack_pending. An empty fetch without a wait takes at
// least 20 ms and makes a second request.
func (s *Source) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	if r.Max < 1 {
		return nil, nil
	}
	got, err := s.pulls.pull(ctx, s.conn, min(r.Max, mostPull), r.Wait)
	if len(got) == 0 {
		return nil, err
	}
	list := make([]pipeline.Delivery, 0, len(got))
	deadline := time.Now().Add(s.lease)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range got {
		at, broken := m.Metadata()
		if broken != nil { // no server sends such a reply subject
			return list, fmt.Errorf("nats: a message's reply subject: %w", broken)
		}
		t := &token{m, at.Sequence.Stream}
		s.held[t.sequence] = t
		list = append(list, pipeline.Delivery{
			Transaction: transaction(m, at, s.subjects), Token: t, Count: int(at.NumDelivered), Deadline: deadline,
		})
	}
	return list, err
}

// The answers of a client to messages; see ADR-13 of the NATS architecture documents.
var (
	ack        = []byte("+ACK")
	nak        = []byte("-NAK")
	inProgress = []byte("+WPI")
)

// mostAsking is how many acknowledgements wait for their confirmation at a time.
const mostAsking = 64

var (
	errForeign = errors.New("nats: the delivery is not from this source")
	errSettled = errors.New("nats: the delivery has already been settled, or its message has been delivered again")
)

// message returns the message of a held delivery. settles says that the answer settles it, so that it is no longer held.
func (s *Source) message(d pipeline.Delivery, settles bool) (*nats.Msg, error) {
	t, ok := d.Token.(*token)
	if !ok {
		return nil, errForeign
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[t.sequence] != t {
		return nil, errSettled
	}
	if settles {
		delete(s.held, t.sequence)
	}
	return t.Msg, nil
}

// Ack implements pipeline.Acker.
func (s *Source) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	if s.o.DoubleAck {
		return s.confirm(ctx, done)
	}
	return s.tell(done, ack, true)
}

// Extend implements pipeline.Extender.
func (s *Source) Extend(_ context.Context, held []pipeline.Delivery) []error {
	return s.tell(held, inProgress, false)
}

// ExtendEvery implements pipeline.Extender. It is a third of the time that the server waits for acknowledgements.
func (s *Source) ExtendEvery() time.Duration { return s.lease / 3 }

// Nack implements pipeline.Nacker. The server keeps the message for the delay.
func (s *Source) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	answer := nak
	if delay > 0 {
		answer = fmt.Appendf(nil, `-NAK {"delay":%d}`, delay.Nanoseconds())
	}
	return errors.Join(s.tell([]pipeline.Delivery{d}, answer, true)...)
}

// tell answers messages without waiting.
func (s *Source) tell(list []pipeline.Delivery, answer []byte, settles bool) []error {
	var errs verdict.List
	for i, d := range list {
		m, err := s.message(d, settles)
		if err == nil {
			err = s.publish(m, answer)
		}
		errs.Set(i, len(list), err)
	}
	return errs
}

func (s *Source) publish(m *nats.Msg, answer []byte) error {
	return kind.Wrap("answer a message", s.nc.Publish(m.Reply, answer))
}

// confirm acknowledges and waits for the server's confirmations.
func (s *Source) confirm(ctx context.Context, done []pipeline.Delivery) []error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	errs := make([]error, len(done))
	var group sync.WaitGroup
	for from := range min(mostAsking, len(done)) {
		group.Go(func() {
			for i := from; i < len(done); i += mostAsking {
				m, err := s.message(done[i], true)
				if err != nil {
					errs[i] = err
				} else if _, err := s.nc.RequestWithContext(ctx, m.Reply, ack); err != nil {
					errs[i] = kind.Wrap("the acknowledgement is not confirmed", err)
				}
			}
		})
	}
	group.Wait()
	return errs
}

// Check implements pipeline.Checker. It fails while the consumer cannot be reached.
func (s *Source) Check(ctx context.Context) error {
	_, err := s.Lag(ctx)
	return err
}

// Lag implements pipeline.Lagger: the messages that the consumer has not delivered yet. Messages that were given back are not counted.
func (s *Source) Lag(ctx context.Context) (int64, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c, err := s.js.Consumer(ctx, s.o.Stream, s.o.Consumer)
	if err != nil {
		return 0, kind.Wrap(s.place(), err)
	}
	return int64(min(c.CachedInfo().NumPending, math.MaxInt64)), nil
}

// Close sends the last acknowledgements and closes the connection. Unsettled messages are redelivered after the consumer's
// ack_wait.
func (s *Source) Close() error {
	if s.nc.IsConnected() {
		_ = s.nc.FlushTimeout(s.o.Timeout) // afterwards everything that the server has sent has arrived
	}
	for _, m := range s.pulls.close() {
		_ = s.publish(m, nak)
	}
	return s.close()
}
