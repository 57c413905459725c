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

// pulls asks the server for messages. All answers come to one subscription, as opening one for each request costs more than
// the request. It is for one goroutine.
type pulls struct {
	subscription *nats.Subscription
	answers      chan *nats.Msg
	inbox        string // before the number of a request
	next         string // where to ask
	number       uint64
}

const (
	mostPull    = 10_000       // messages of one request
	mostAnswers = 4 * mostPull // that may wait here: those of requests that were given up come late
)

func (p *pulls) open(nc *nats.Conn, o Options) (err error) {
	p.inbox = nc.NewInbox() + "."
	p.next = "$JS.API.CONSUMER.MSG.NEXT." + o.Stream + "." + o.Consumer
	p.answers = make(chan *nats.Msg, mostAnswers)
	p.subscription, err = nc.ChanSubscribe(p.inbox+"*", p.answers)
	return err
}

// pull returns up to n messages: those that came late for an earlier pull, or that are there, or the first that come within
// a time. Messages may come with an error.
func (p *pulls) pull(ctx context.Context, c *conn, n int, expires time.Duration) ([]*nats.Msg, error) {
	if late := p.late(n); len(late) > 0 {
		return late, nil
	}
	end := time.Now().Add(c.o.Timeout)
	for pause := firstWait; ; pause *= 2 {
		if err := c.connected(ctx); err != nil {
			return nil, err
		}
		got, err := p.ask(ctx, c, n, expires)
		var refused *refusal
		if len(got) > 0 || !errors.As(err, &refused) || !refused.passes() || time.Now().Add(pause).After(end) {
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

// ask sends one request and waits for its end: so many messages, or the server's word that there are no more.
func (p *pulls) ask(ctx context.Context, c *conn, n int, expires time.Duration) (list []*nats.Msg, err error) {
	p.number++
	reply := p.inbox + strconv.FormatUint(p.number, 10)
	// With both, the request waits for the first message, and ends with the last that is there.
	request := fmt.Appendf(nil, `{"batch":%d,"no_wait":true`, n)
	if expires > 0 {
		request = fmt.Appendf(request, `,"expires":%d`, expires.Nanoseconds())
	}
	if err := c.nc.PublishRequest(p.next, reply, append(request, '}')); err != nil {
		return nil, kind.Wrap("fetch", err)
	}
	silence := time.NewTimer(max(expires, 0) + c.o.Timeout)
	defer silence.Stop()
	for len(list) < n {
		select {
		case m := <-p.answers:
			if m.Reply != "" {
				list = append(list, m)
				continue
			}
			if m.Subject == reply {
				return list, outcome(m)
			}
		case <-ctx.Done():
			return list, ctx.Err()
		case <-silence.C:
			return list, fmt.Errorf("nats: fetch: no answer within %v: %w", c.o.Timeout, context.DeadlineExceeded)
		}
	}
	return list, nil
}

// refusal is the server's word that a request cannot be served.
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

// passes tells refusals by servers that stop, start or elect from those that last.
func (r *refusal) passes() bool {
	return r.status == noResponders || r.text == "Leadership Change" || r.text == "Server Shutdown" || r.text == "Exceeded MaxWaiting"
}

const (
	noMessages   = "404"
	timedOut     = "408"
	noResponders = "503"
)

// outcome is how a request ended, by its status.
func outcome(m *nats.Msg) error {
	status := m.Header.Get("Status")
	if status == noMessages || status == timedOut {
		return nil
	}
	return &refusal{status, m.Header.Get("Description")}
}

// close ends the subscription and returns what has come too late.
func (p *pulls) close() []*nats.Msg {
	_ = p.subscription.Unsubscribe() // or it goes with the connection
	return p.late(mostAnswers)
}
