package tenetnats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/internal/address"
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
		return nil, kind.Wrap("jetstream", err)
	}
	return &Client{Conn: conn, JetStream: js, Executor: e}, nil
}

// ConnectOptions say where [Connect] connects to.
type ConnectOptions struct {
	// URL is a server, or a comma-separated list of servers.
	URL string
	// Options are those of package nats. nats.RetryOnFailedConnect is switched off: the policy decides.
	Options []nats.Option
	// Executor runs the attempts. Default retry.DefaultExecutor().
	Executor *retry.Executor
}

// Connect connects under nats.Connect and NATS_CONNECT. Each attempt tries every server once; nats.Timeout bounds each try
// and is cut to the rest of the attempt's time. Connect does not return earlier when ctx is cancelled. It is never hedged.
//
// The connection then reconnects according to its own settings (nats.MaxReconnects and so on), without a policy.
func Connect(ctx context.Context, o ConnectOptions, call ...retry.CallOption) (*nats.Conn, error) {
	op := operation{category: policy.NATSConnect, name: "Connect", call: append(slices.Clip(call), retry.WithoutHedging())}
	return do(ctx, &Client{Executor: o.Executor}, op, func(ctx context.Context) (*nats.Conn, error) {
		within := func(options *nats.Options) error {
			options.RetryOnFailedConnect = false
			if deadline, ok := ctx.Deadline(); ok {
				options.Timeout = min(options.Timeout, max(time.Until(deadline), time.Millisecond))
			}
			return nil
		}
		return nats.Connect(o.URL, append(slices.Clip(o.Options), within)...)
	})
}

// operation is what runs under a key.
type operation struct {
	category policy.Category
	name     string // of the key
	subject  string // or stream, or key, for errors
	call     []retry.CallOption
}

// do runs an operation under its category and classifies its errors.
func do[T any](ctx context.Context, c *Client, o operation, run func(context.Context) (T, error)) (T, error) {
	executor, key := c.Executor, policy.Key{Namespace: c.Namespace, Name: o.name}
	if executor == nil {
		executor = retry.DefaultExecutor()
	}
	executor.Register(ClassifierName, theClassifier, theClasses)
	key.Namespace = cmp.Or(key.Namespace, Namespace)
	return retry.DoValue(ctx, executor, key, func(ctx context.Context) (T, error) {
		ctx, cancel := bounded(ctx)
		defer cancel()
		var v T
		err := c.online(ctx)
		if err == nil {
			v, err = run(ctx)
		}
		return v, marked(o.wrap(err))
	}, append([]retry.CallOption{retry.WithCategory(o.category)}, o.call...)...)
}

// kind begins the errors of this package.
const kind address.Kind = "nats"

// opError marks an error of an operation of this package, so that the end of its context counts as an error of NATS too.
type opError struct {
	error
	category policy.Category
}

func (e *opError) Unwrap() error { return e.error }

func (o operation) wrap(err error) error {
	if err == nil {
		return nil
	}
	step := string(o.category)
	if o.subject != "" {
		step += " " + o.subject
	}
	return &opError{kind.Wrap(step, err), o.category}
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
