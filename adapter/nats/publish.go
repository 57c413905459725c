package tenetnats

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

var errNoMessage = errors.New("tenetnats: publish: the message is nil")

// Publish sends a message and waits until the server has received it (nats.Publish, NATS_PUBLISH). Whether a subscriber
// receives it is not known; use [Client.PublishStream] for messages that must be kept.
//
// A message that may have been sent is sent again only if receivers can recognise it: it has a Nats-Msg-Id header, or
// retry.WithIdempotencyKey gives it an ID, which is then sent as that header. Without one it is repeated only if nothing was
// sent (the connection was down, its buffer full), and never hedged.
func (c *Client) Publish(ctx context.Context, m *nats.Msg, call ...retry.CallOption) error {
	if m == nil {
		return errNoMessage
	}
	if m.Header.Get(nats.MsgIdHdr) == "" {
		call = append(slices.Clip(call), retry.WithHedgingByKey())
	}
	_, err := do(ctx, c, operation{policy.NATSPublish, "Publish", m.Subject, call}, func(ctx context.Context) (struct{}, error) {
		a, _ := retry.AttemptFromContext(ctx)
		one := withID(m, a.IdempotencyKey)
		sent, err := c.send(ctx, one)
		if sent && one.Header.Get(nats.MsgIdHdr) == "" {
			err = classify.Permanent(err)
		}
		return struct{}{}, err
	})
	return err
}

// send also reports whether the message may have been sent.
func (c *Client) send(ctx context.Context, m *nats.Msg) (sent bool, err error) {
	if err := c.Conn.PublishMsg(m); err != nil {
		return false, err
	}
	return true, c.flush(ctx)
}

// PublishStream publishes a message to JetStream and waits until it is stored (nats.Publish, NATS_PUBLISH). Every attempt
// carries the same Nats-Msg-Id: the message's own, else that of retry.WithIdempotencyKey, else the call's ID. The server
// stores it once for as long as the stream's duplicate window (2 minutes by default) is longer than the call; the
// acknowledgement of a repetition says Duplicate. Expectations and TTLs go into the message's header. The repetitions of
// package jetstream itself are switched off.
func (c *Client) PublishStream(ctx context.Context, m *nats.Msg, call ...retry.CallOption) (*jetstream.PubAck, error) {
	if m == nil {
		return nil, errNoMessage
	}
	return do(ctx, c, operation{policy.NATSPublish, "Publish", m.Subject, call}, func(ctx context.Context) (*jetstream.PubAck, error) {
		a, _ := retry.AttemptFromContext(ctx)
		id := a.IdempotencyKey
		if id == "" && m.Header.Get(nats.MsgIdHdr) == "" {
			id = a.CallID()
		}
		return c.JetStream.PublishMsg(ctx, withID(m, id), jetstream.WithRetryAttempts(0))
	})
}

// withID copies a message for one attempt and sets an ID if it is missing.
func withID(m *nats.Msg, id string) *nats.Msg {
	header := nats.Header{}
	for name, values := range maps.All(m.Header) {
		header[name] = slices.Clone(values)
	}
	if id != "" && header.Get(nats.MsgIdHdr) == "" {
		header.Set(nats.MsgIdHdr, id)
	}
	return &nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: header, Data: m.Data}
}

// Subscription is what [Client.Subscribe] subscribes to.
type Subscription struct {
	Subject string
	// Queue is a queue group, whose members share the messages. Default none.
	Queue string
	// Handler is called as handlers of package nats are, without a policy. Required.
	Handler nats.MsgHandler
}

// Subscribe subscribes a handler and waits until the server has confirmed it (nats.Subscribe, NATS_SUBSCRIBE). The
// subscription of a failed attempt is withdrawn. Subscribe is never hedged.
func (c *Client) Subscribe(ctx context.Context, s Subscription, call ...retry.CallOption) (*nats.Subscription, error) {
	if s.Handler == nil {
		return nil, errors.New("tenetnats: Subscribe: the handler is nil")
	}
	op := operation{policy.NATSSubscribe, "Subscribe", s.Subject, append(slices.Clip(call), retry.WithoutHedging())}
	return do(ctx, c, op, func(ctx context.Context) (*nats.Subscription, error) {
		subscription, err := c.Conn.QueueSubscribe(s.Subject, s.Queue, s.Handler)
		if err != nil {
			return nil, err
		}
		if err := c.flush(ctx); err != nil {
			return nil, errors.Join(err, subscription.Unsubscribe())
		}
		return subscription, nil
	})
}

// flush waits until the server has received everything.
func (c *Client) flush(ctx context.Context) error {
	err := c.Conn.FlushWithContext(ctx)
	if errors.Is(err, nats.ErrConnectionClosed) && !c.Conn.IsClosed() { // package nats returns it for a lost connection too
		return nats.ErrDisconnected
	}
	return err
}
