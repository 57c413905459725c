package tenetnats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Namespace is the default namespace of the keys of a [Client].
const Namespace = "nats"

// DefaultTimeout bounds an attempt if neither the policy nor the caller does.
const DefaultTimeout = 5 * time.Second

// Client runs NATS operations under policies. Make one with [New] and share it: it is safe for concurrent use once its
// fields are set.
type Client struct {
	// Conn and JetStream carry out the operations.
	Conn      *nats.Conn
	JetStream jetstream.JetStream
	// Executor runs the attempts. Default retry.DefaultExecutor().
	Executor *retry.Executor
	// Namespace is the namespace of the operations' keys. Default [Namespace]. Clients of different systems need different
	// namespaces, or they share breakers and budgets.
	Namespace string
}

// New returns a client over a connection, which the caller closes. A nil executor is the default one.
func New(conn *nats.Conn, e *retry.Executor) (*Client, error) {
	if conn == nil {
		return nil, errors.New("tenetnats: New: the connection is nil")
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("nats: jetstream: %w", err)
	}
	return &Client{Conn: conn, JetStream: js, Executor: e}, nil
}

// Connect connects to a server, or a comma-separated list of them, under nats.Connect and NATS_CONNECT. Each attempt tries
// every server once; nats.Timeout bounds each try and is cut to the rest of the attempt's time. Connect does not return
// earlier when ctx is cancelled. nats.RetryOnFailedConnect is switched off: the policy decides. It is never hedged.
//
// Once made, the connection reconnects by its own settings (nats.MaxReconnects and so on), without a policy.
func Connect(ctx context.Context, e *retry.Executor, url string, options []nats.Option, call ...retry.CallOption) (*nats.Conn, error) {
	c := Client{Executor: e}
	call = append(slices.Clip(call), retry.WithoutHedging())
	return do(ctx, &c, operation{policy.NATSConnect, "Connect", ""}, func(ctx context.Context) (*nats.Conn, error) {
		within := func(o *nats.Options) error {
			o.RetryOnFailedConnect = false
			if deadline, ok := ctx.Deadline(); ok {
				o.Timeout = min(o.Timeout, max(time.Until(deadline), time.Millisecond))
			}
			return nil
		}
		return nats.Connect(url, append(slices.Clip(options), within)...)
	}, call)
}

// operation names what runs under a key.
type operation struct {
	category policy.Category
	name     string // of the key
	subject  string // what it is about, for errors
}

// do runs an operation under its category and judges its errors.
func do[T any](ctx context.Context, c *Client, o operation, run func(context.Context) (T, error), call []retry.CallOption) (T, error) {
	executor, key := c.Executor, policy.Key{Namespace: c.Namespace, Name: o.name}
	if executor == nil {
		executor = retry.DefaultExecutor()
	}
	executor.Register(ClassifierName, theClassifier, theClasses)
	if key.Namespace == "" {
		key.Namespace = Namespace
	}
	call = append([]retry.CallOption{retry.WithCategory(o.category)}, call...)
	return retry.DoValue(ctx, executor, key, func(ctx context.Context) (T, error) {
		ctx, cancel := bounded(ctx)
		defer cancel()
		var v T
		err := c.online(ctx)
		if err == nil {
			v, err = run(ctx)
		}
		return v, marked(o.wrap(err))
	}, call...)
}

// opError marks an error of an operation of this package, so that the end of its context counts as an error of NATS too.
type opError struct {
	operation
	err error
}

func (e *opError) Error() string {
	if e.subject == "" {
		return fmt.Sprintf("nats: %s: %v", e.category, e.err)
	}
	return fmt.Sprintf("nats: %s %s: %v", e.category, e.subject, e.err)
}

func (e *opError) Unwrap() error { return e.err }

func (o operation) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &opError{o, err}
}

// bounded gives an attempt a deadline if the policy does not, because package nats requires one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

// online waits until the connection is up. A connection that is down would buffer messages and send them later, when the
// caller has stopped waiting.
func (c *Client) online(ctx context.Context) error {
	if c.Conn == nil || c.Conn.IsConnected() { // Connect has no connection yet
		return nil
	}
	changes := c.Conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer c.Conn.RemoveStatusListener(changes)
	for {
		switch c.Conn.Status() {
		case nats.CONNECTED:
			return nil
		case nats.CLOSED:
			return nats.ErrConnectionClosed
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", nats.ErrDisconnected, ctx.Err())
		}
	}
}
