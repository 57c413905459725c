package natspipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/wait"
)

// kind begins the errors of this package.
const kind address.Kind = "nats"

// conn is a connection that reconnects for as long as it takes.
type conn struct {
	o  Options
	nc *nats.Conn
	js jetstream.JetStream
}

// connect connects for a function of this package.
func connect(ctx context.Context, function, server string, o Options) (*conn, error) {
	if ctx == nil {
		return nil, fmt.Errorf("nats: %s: the context is nil", function)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, kind.Wrap("open", err)
	}
	if err := kind.Readable(server); err != nil {
		return nil, err
	}
	timeout := o.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	options := append([]nats.Option{
		nats.Name("tenet"), nats.MaxReconnects(-1), nats.ReconnectWait(firstWait), nats.ReconnectJitter(firstWait, 2*firstWait),
		nats.CustomReconnectDelay(reconnectDelay), nats.Timeout(timeout),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // operations return their errors
	}, o.Connect...)
	nc, err := nats.Connect(server, options...)
	if err != nil {
		return nil, kind.OpenError(server, err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.Timeout))
	if err != nil {
		nc.Close()
		return nil, kind.Wrap("jetstream", err)
	}
	return &conn{o: o, nc: nc, js: js}, nil
}

// The bounds of the waits between attempts to reconnect, and between requests to a server that does not answer yet.
const (
	firstWait = 50 * time.Millisecond
	mostWait  = 5 * time.Second
)

// reconnectDelay grows with every round through the servers.
func reconnectDelay(rounds int) time.Duration { return wait.Jittered(firstWait, mostWait, rounds) }

// bounded bounds a request by Options.Timeout.
func (c *conn) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.o.Timeout)
}

// connected waits until there is a connection.
func (c *conn) connected(ctx context.Context) error {
	if c.nc.IsConnected() {
		return nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	changes := c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer c.nc.RemoveStatusListener(changes)
	for !c.nc.IsConnected() {
		if c.nc.IsClosed() {
			return ErrClosed
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return kind.Wrap("no connection", errors.Join(ctx.Err(), c.nc.LastError()))
		}
	}
	return nil
}

// more reports whether the consumer has messages that it may deliver now.
func (c *conn) more(ctx context.Context) (bool, error) {
	within, cancel := context.WithTimeout(ctx, c.o.Timeout/4) // leaves time to ask again
	defer cancel()
	found, err := c.js.Consumer(within, c.o.Stream, c.o.Consumer)
	switch {
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		return false, fmt.Errorf("%w: %w", errLost, err) // the client does not notice that it lost a request
	case err != nil:
		return false, kind.Wrap("fetch", err)
	}
	info := found.CachedInfo()
	full := info.Config.MaxAckPending > 0 && info.NumAckPending >= info.Config.MaxAckPending
	return info.NumPending > 0 && !full && !info.Paused, nil
}

// ErrClosed is returned by operations after Close.
var ErrClosed = errors.New("nats: closed")

// close flushes and closes the connection.
func (c *conn) close() error {
	defer c.nc.Close()
	if !c.nc.IsConnected() {
		return nil
	}
	if err := c.nc.FlushTimeout(c.o.Timeout); err != nil && c.nc.IsConnected() {
		return kind.Wrap("close", err)
	}
	return nil
}
