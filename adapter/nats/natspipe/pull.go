package natspipe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tenetdev/tenet/internal/wait"
)

// pulls requests messages from the server. All answers arrive on one subscription, because opening one for each request costs
// more than the request. It is for one goroutine.
type pulls struct {
	subscription *nats.Subscription
	answers      chan *nats.Msg
	inbox        string // prefix of the number of a request
	next         string // subject of requests
	number       uint64
	changes      <-chan nats.Status // the connection is lost or closed
}

const (
	mostPull    = 10_000       // messages of one request
	mostAnswers = 4 * mostPull // buffered: answers to abandoned requests arrive late

	// underWay is how long a request without a wait stays open. While a consumer is at its max_ack_pending, the server does not answer
	// requests without an expiry.
	underWay = 20 * time.Millisecond
)

func (p *pulls) open(nc *nats.Conn, o Options) (err error) {
	p.inbox = nc.NewInbox() + "."
	p.next = "$JS.API.CONSUMER.MSG.NEXT." + o.Stream + "." + o.Consumer
	p.answers = make(chan *nats.Msg, mostAnswers)
	p.changes = nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	p.subscription, err = nc.ChanSubscribe(p.inbox+"*", p.answers)
	return err
}

// pull returns up to n messages: late answers to an earlier pull, the messages that are there, or the first that arrive
// before the request expires. It may return messages and an error.
func (p *pulls) pull(ctx context.Context, c *conn, n int, expires time.Duration) ([]*nats.Msg, error) {
	if late := p.late(n); len(late) > 0 {
		return late, nil
	}
	until, end := time.Now().Add(expires), time.Now().Add(c.o.Timeout)
	for backoff := (wait.Backoff{Min: firstWait, Max: mostWait}); ; {
		if err := c.connected(ctx); err != nil {
			return nil, err
		}
		asked := time.Now()
		got, err := p.ask(ctx, c, n, max(time.Until(until), underWay))
		if time.Since(asked) > c.o.Timeout { // the server had taken the request
			end = time.Now().Add(c.o.Timeout)
		}
		if len(got) == 0 && err == nil && expires < underWay && time.Now().Before(end) {
			var more bool
			if more, err = c.more(ctx); err == nil && !more {
				return nil, nil
			}
			if more { // the request expired before the server sent the messages
				continue
			}
		}
		pause := backoff.Failed()
		if len(got) > 0 || !passes(err) || time.Now().Add(pause).After(end) {
			return got, err
		}
		if wait.For(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
}

func (p *pulls) late(n int) (list []*nats.Msg) {
	for len(list) < n {
		select {
		case m := <-p.answers:
			if m.Reply != "" {
				list = append(list, m)
			}
		default:
			return list
		}
	}
	return list
}

// ask sends one request and waits until it has n messages or the server says that there are no more.
func (p *pulls) ask(ctx context.Context, c *conn, n int, expires time.Duration) (list []*nats.Msg, err error) {
	p.number++
	reply := p.inbox + strconv.FormatUint(p.number, 10)
	// With both, the request waits for the first message and ends with the last one that is there.
	request := fmt.Appendf(nil, `{"batch":%d,"no_wait":true,"expires":%d}`, n, expires.Nanoseconds())
	for len(p.changes) > 0 { // of earlier requests
		<-p.changes
	}
	if err := c.nc.PublishRequest(p.next, reply, request); err != nil {
		return nil, kind.Wrap("fetch", err)
	}
	silence := time.NewTimer(expires + c.o.Timeout)
	defer silence.Stop()
	for len(list) < n {
		select {
		case m := <-p.answers:
			if m.Reply != "" {
				list = append(list, m)
				silence.Reset(underWay) // an earlier request may have got it, and this one may still wait
				continue
			}
			if m.Subject == reply {
				return list, outcome(m)
			}
		case <-p.changes:
			if c.nc.IsClosed() {
				return list, ErrClosed
			}
			return list, errLost // and so is the request
		case <-ctx.Done():
			return list, ctx.Err()
		case <-silence.C:
			if len(list) > 0 {
				return list, nil
			}
			return list, fmt.Errorf("nats: fetch: no answer within %v: %w", c.o.Timeout, context.DeadlineExceeded)
		}
	}
	return list, nil
}

// refusal is a status by which the server refuses a request.
type refusal struct {
	status string
	text   string
}

func (r *refusal) Error() string {
	if r.status == noResponders {
		return "nats: fetch: nobody answers for the consumer; it does not exist, or its server is not ready"
	}
	return fmt.Sprintf("nats: fetch: the server says %s %s", r.status, r.text)
}

var errLost = errors.New("nats: fetch: the connection was lost")

// passes reports whether an error is temporary, because servers stop, start or elect a leader.
func passes(err error) bool {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status == noResponders || r.text == "Leadership Change" || r.text == "Server Shutdown" || r.text == "Exceeded MaxWaiting"
	}
	return errors.Is(err, errLost)
}

const (
	noMessages   = "404"
	timedOut     = "408"
	noResponders = "503"
)

// outcome returns the refusal by which a request ended, or nil.
func outcome(m *nats.Msg) error {
	status := m.Header.Get("Status")
	if status == noMessages || status == timedOut {
		return nil
	}
	return &refusal{status, m.Header.Get("Description")}
}

// close ends the subscription and returns the messages that arrived too late.
func (p *pulls) close() []*nats.Msg {
	_ = p.subscription.Unsubscribe() // if it fails, the subscription ends with the connection
	return p.late(mostAnswers)
}
