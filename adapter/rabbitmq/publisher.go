package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/classify"
)

// publisher is a line on which messages are published and confirmed.
type publisher struct {
	*line
	returns chan amqp.Return

	mu       sync.Mutex     // guards the rest
	pending  map[string]int // how many messages of each ID are not confirmed
	returned map[string]int // how many of these were returned
}

// mostReturns bounds the returned messages that no confirmed message has looked at yet.
const mostReturns = 1024

func connectPublisher(ctx context.Context, server string, o Options) (*publisher, error) {
	l, err := dial(ctx, server, o)
	if err != nil {
		return nil, err
	}
	p := &publisher{line: l, returns: make(chan amqp.Return, mostReturns), pending: map[string]int{}, returned: map[string]int{}}
	l.NotifyReturn(p.returns)
	if err := l.bounded(func() error { return l.Confirm(false) }); err != nil {
		return nil, errors.Join(err, l.end())
	}
	return p, nil
}

// sent is a message that the broker has not confirmed yet.
type sent struct {
	by       *publisher
	id       string
	confirm  *amqp.DeferredConfirmation
	exchange string
	key      string
}

// send publishes. The caller must call confirmed on the message that it returns.
func (p *publisher) send(exchange, key string, m amqp.Publishing) (*sent, error) {
	id := idOf(m.MessageId, m.Headers)
	if most := p.connection.Config.FrameSize - frameOverhead; most > 0 && sizeOf(&m) > most {
		return nil, classify.Permanent(fmt.Errorf("rabbitmq: transaction %s: ID, correlation and metadata have %d bytes; the broker's frame_max allows %d",
			id, sizeOf(&m), most))
	}
	p.expect(id)
	confirm, err := p.PublishWithDeferredConfirm(exchange, key, true, false, m)
	if err != nil {
		p.forget(id)
		if !p.alive() {
			return nil, p.loss()
		}
		return nil, fmt.Errorf("rabbitmq: publish: %w", err)
	}
	return &sent{by: p, id: id, confirm: confirm, exchange: exchange, key: key}, nil
}

func (p *publisher) expect(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[id]++
}

// Errors of publishing.
var (
	// ErrUnroutable: the exchange has no queue for the message's key, so the message is not stored.
	ErrUnroutable = errors.New("rabbitmq: no queue takes the message")
	// ErrRefused: the broker did not store the message, for example because the queue is full.
	ErrRefused = errors.New("rabbitmq: the broker refused the message")
)

// confirmed waits for the broker's confirm.
func (s *sent) confirmed(ctx context.Context) error {
	late := time.NewTimer(s.by.timeout)
	defer late.Stop()
	var err error
	select {
	case <-s.confirm.Done():
	case <-ctx.Done():
		err = fmt.Errorf("rabbitmq: not confirmed: %w", ctx.Err())
	case <-late.C:
		err = fmt.Errorf("rabbitmq: not confirmed within %v: %w", s.by.timeout, context.DeadlineExceeded)
	}
	cameBack := s.by.forget(s.id)
	switch {
	case err != nil:
		return err
	case s.confirm.Acked() && cameBack:
		return fmt.Errorf("%w: exchange %q, key %q", ErrUnroutable, s.exchange, s.key)
	case s.confirm.Acked():
		return nil
	case !s.by.alive():
		return s.by.loss()
	}
	return ErrRefused
}

// forget ends the wait for a message, and reports whether it was returned. The broker returns a message before it confirms
// it.
func (p *publisher) forget(id string) (cameBack bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for more := true; more; {
		select {
		case r, ok := <-p.returns:
			if more = ok; ok && p.pending[idOf(r.MessageId, r.Headers)] > 0 {
				p.returned[idOf(r.MessageId, r.Headers)]++
			}
		default:
			more = false
		}
	}
	if cameBack = p.returned[id] > 0; cameBack {
		p.returned[id]--
	}
	if p.pending[id]--; p.pending[id] == 0 {
		delete(p.pending, id)
		delete(p.returned, id)
	}
	return cameBack
}
