package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/internal/wait"
)

// line is a connection with its only channel. A lost line is not reopened.
type line struct {
	*amqp.Channel
	connection *amqp.Connection
	socket     net.Conn
	timeout    time.Duration
	lost       chan *amqp.Error
	reason     atomic.Pointer[amqp.Error]
}

// dial connects. The context bounds only the dialing, not the connection.
func dial(ctx context.Context, server string, o Options) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if _, err := url.Parse(server); err != nil {
		return nil, errors.New("the server's URL cannot be read; write amqp://user:password@host/VHOST, with %2F and the like in names and passwords")
	}
	l := &line{timeout: o.Timeout, lost: make(chan *amqp.Error, 1)}
	config := amqp.Config{Properties: amqp.NewConnectionProperties(), TLSClientConfig: o.TLS.Clone()}
	config.Properties.SetClientConnectionName("tenet")
	unguarded := func() bool { return true }
	config.Dial = func(network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l.socket = &socket{Conn: c, timeout: o.Timeout}
		unguarded = context.AfterFunc(ctx, func() { _ = c.Close() })
		return l.socket, nil
	}
	err := l.open(server, config)
	if !unguarded() || err != nil {
		if l.connection != nil {
			_ = l.end()
		}
		if l.socket != nil {
			_ = l.socket.Close()
		}
		cause := ctx.Err()
		if cause != nil && err != nil {
			return nil, fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, cmp.Or(err, cause)
	}
	return l, nil
}

func (l *line) open(server string, config amqp.Config) (err error) {
	if l.connection, err = amqp.DialConfig(server, config); err != nil {
		return err
	}
	if l.Channel, err = l.connection.Channel(); err != nil {
		return err
	}
	l.NotifyClose(l.lost)
	return nil
}

// alive reports whether the line can still be used.
func (l *line) alive() bool { return !l.IsClosed() && !l.connection.IsClosed() }

// end closes the line. Unsettled deliveries return to the broker.
func (l *line) end() error {
	err := l.bounded(func() error { return l.connection.CloseDeadline(time.Now().Add(l.timeout)) })
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

// bounded runs a request and closes the connection if the broker does not answer in time. Otherwise the client would wait
// for as long as the broker sends heartbeats.
func (l *line) bounded(f func() error) error {
	t := time.AfterFunc(l.timeout, func() { _ = l.socket.Close() })
	defer t.Stop()
	return f()
}

// loss returns the reason why the line is lost.
func (l *line) loss() error {
	select {
	case reason := <-l.lost:
		if reason != nil {
			l.reason.Store(reason)
		}
	default:
	}
	if reason := l.reason.Load(); reason != nil {
		return fmt.Errorf("%w: %w", ErrLost, reason)
	}
	return ErrLost
}

// ErrLost means that the connection was lost during an operation. The broker redelivers unsettled deliveries; whether a
// message that was being published is stored is not known.
var ErrLost = errors.New("rabbitmq: the connection is lost")

// socket gives each write a deadline: without one, a broker that does not read blocks its clients for ever.
type socket struct {
	net.Conn
	timeout time.Duration
}

func (s *socket) Write(b []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// The bounds of the waits between attempts to connect.
const (
	firstWait = 25 * time.Millisecond
	mostWait  = time.Second
)

// lifeline is a connection that a link keeps.
type lifeline interface {
	alive() bool
	end() error
}

// link keeps a lifeline, and replaces one that is lost.
type link[L lifeline] struct {
	connect func(ctx context.Context) (L, error)
	timeout time.Duration
	ready   atomic.Pointer[L] // the current one
	turn    wait.Mutex        // for the fields below
	current L
	made    bool
	backoff wait.Backoff
	next    time.Time // before which nobody connects

	closing context.Context
	cancel  context.CancelFunc
	once    sync.Once
}

func newLink[L lifeline](timeout time.Duration, connect func(context.Context) (L, error)) *link[L] {
	l := &link[L]{connect: connect, timeout: timeout, turn: wait.NewMutex(),
		backoff: wait.Backoff{Min: firstWait, Max: mostWait}}
	l.closing, l.cancel = context.WithCancel(context.Background()) //nolint:gosec // close calls it
	return l
}

// open makes the first line, in a single attempt.
func (l *link[L]) open(ctx context.Context) error {
	made, err := l.connect(ctx)
	if err != nil {
		return err
	}
	l.keep(made)
	return nil
}

func (l *link[L]) keep(made L) {
	l.backoff.Reset()
	l.current, l.made, l.next = made, true, time.Now().Add(firstWait)
	l.ready.Store(&made)
}

// get returns the line. It replaces a lost one, with waits between the attempts, until the timeout.
func (l *link[L]) get(ctx context.Context) (line L, err error) {
	if p := l.ready.Load(); p != nil && (*p).alive() {
		return *p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	if l.turn.Lock(ctx) != nil {
		return line, l.failed(ctx, nil)
	}
	defer l.turn.Unlock()
	if l.closing.Err() != nil {
		return line, ErrClosed
	}
	if l.made && l.current.alive() {
		return l.current, nil
	}
	if l.made {
		_ = l.current.end() // the connection of a channel that the broker has closed
		l.made = false
	}
	for {
		if wait.For(ctx, time.Until(l.next)) != nil {
			return line, l.failed(ctx, err)
		}
		if line, err = l.connect(ctx); err == nil {
			l.keep(line)
			return line, nil
		}
		l.next = time.Now().Add(l.backoff.Failed())
	}
}

// ErrClosed is returned by operations after Close.
var ErrClosed = errors.New("rabbitmq: closed")

func (l *link[L]) failed(ctx context.Context, err error) error {
	if l.closing.Err() != nil {
		return ErrClosed
	}
	err = cmp.Or(err, ctx.Err())
	return fmt.Errorf("rabbitmq: no connection: %w", err)
}

func (l *link[L]) close() (err error) {
	l.once.Do(func() {
		l.cancel()
		_ = l.turn.Lock(context.Background())
		defer l.turn.Unlock()
		if l.made {
			err = l.current.end()
		}
	})
	return err
}

// prepare declares the queue, or checks that it exists.
func (l *line) prepare(o Options) error {
	return l.bounded(func() error {
		if o.Declare != "" {
			_, err := l.QueueDeclare(o.Queue, true, false, false, false, amqp.Table{"x-queue-type": o.Declare})
			return err
		}
		_, err := l.QueueDeclarePassive(o.Queue, true, false, false, false, nil)
		return err
	})
}
