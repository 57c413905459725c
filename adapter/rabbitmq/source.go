package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/pipeline"
)

// Source is a pipeline.Source that consumes a queue, and also a pipeline.Acker, Nacker and Checker. First deliveries come in
// the queue's order.
//
// Acknowledgements are sent without waiting for an answer, because AMQP has none. If they are lost with the connection, the
// broker redelivers.
type Source struct {
	link *link[*consumer]

	prefetch int // of the next consumer; for Fetch only

	mu     sync.Mutex     // guards what follows
	counts map[string]int // deliveries of transactions that were given back
}

// OpenSource connects to the server of a URL without Options in it, and finds or declares the queue. It consumes nothing
// before the first fetch. Close the source after the engine's Run.
func OpenSource(ctx context.Context, server string, o Options) (*Source, error) {
	if ctx == nil {
		return nil, errors.New("rabbitmq: OpenSource: the context is nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Queue == "" {
		return nil, errors.New("rabbitmq: the queue's name is missing; write amqp://host/QUEUE, or set Options.Queue")
	}
	s := &Source{prefetch: o.Prefetch}
	s.link = newLink(o.Timeout, func(ctx context.Context) (*consumer, error) { return connectConsumer(ctx, server, o) })
	if err := s.link.open(ctx); err != nil {
		return nil, fmt.Errorf("rabbitmq: open queue %q: %w", o.Queue, err)
	}
	return s, nil
}

// Fetch implements pipeline.Source. It waits for a lost connection, up to Options.Timeout, before it fails.
//
// Fetch returns no delivery only if the broker says that no message waits, because the first ones may need a moment to
// arrive. An empty fetch therefore sends a request to the broker; a broker that hangs may delay it by Options.Timeout beyond
// the context's end.
func (s *Source) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	if r.Max < 1 {
		return nil, nil
	}
	s.prefetch = cmp.Or(s.prefetch, 2*min(r.Max, mostPrefetch/2))
	for end := time.Now().Add(r.Wait); ; {
		c, err := s.link.get(ctx)
		if err != nil {
			return nil, err
		}
		over := time.NewTimer(time.Until(end)) // one for each attempt, because a timer fires only once
		first, err := s.first(ctx, c, min(r.Wait, underWay), over.C)
		over.Stop()
		switch {
		case errors.Is(err, ErrLost) && ctx.Err() == nil:
			continue
		case err != nil:
			return nil, err
		case first == nil:
			return nil, nil
		}
		list := c.hand(*first, r.Max)
		s.recall(list)
		return list, nil
	}
}

// first waits for a delivery until over. It waits only for a moment before it raises a prefetch that may be what keeps
// deliveries back. It returns nil if there is none.
func (s *Source) first(ctx context.Context, c *consumer, moment time.Duration, over <-chan time.Time) (*amqp.Delivery, error) {
	if c.deliveries == nil {
		if err := c.subscribe(s.prefetch); err != nil {
			return nil, err
		}
	}
	soon := time.NewTimer(moment) // settlements under way make room
	defer soon.Stop()
	if d, err := c.receive(ctx, soon.C); d != nil || err != nil {
		return d, err
	}
	if running, exhausted := c.use(); exhausted {
		s.prefetch = min(max(s.prefetch, 2*running), mostPrefetch)
		if err := c.subscribe(s.prefetch); err != nil {
			return nil, err
		}
	}
	if d, err := c.receive(ctx, over); d != nil || err != nil {
		return d, err
	}
	return c.check(ctx)
}

// Check implements pipeline.Checker: it fails while there is no connection.
func (s *Source) Check(ctx context.Context) error {
	_, err := s.link.get(ctx)
	return err
}

// Lag implements pipeline.Lagger: the messages of the queue that were not delivered to any consumer. Those that were delivered ahead, up
// to the prefetch, are not counted.
func (s *Source) Lag(ctx context.Context) (n int64, err error) {
	c, err := s.link.get(ctx)
	if err != nil {
		return 0, err
	}
	err = c.bounded(func() error {
		own, err := c.connection.Channel() // requests of a channel must not overlap, and Fetch makes some
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		q, err := own.QueueDeclarePassive(c.queue, true, false, false, false, nil)
		n = int64(q.Messages)
		return err
	})
	return n, err
}

// Close gives unsettled deliveries back and closes the connection.
func (s *Source) Close() error { return s.link.close() }

// consumer is a line that receives deliveries.
type consumer struct {
	*line
	queue string

	// Only Fetch uses the fields below.
	deliveries <-chan amqp.Delivery
	tag        string
	number     int
	prefetch   int
	before     uint64          // the last tag that earlier consumers handed out
	kept       []amqp.Delivery // of earlier consumers on the same channel
	latest     uint64          // the last tag that was handed out

	mu      sync.Mutex       // guards what follows; held during acknowledgements, so that they have the order of its changes
	open    map[uint64]state // tags that were handed out and are not settled
	delayed int              // of these
}

// state is the state of an unsettled delivery.
type state bool

const (
	running state = false
	delayed state = true
)

// mostDelayed is how many deliveries may wait for their delays before the consumer asks for no more.
const mostDelayed = 1 << 16

func connectConsumer(ctx context.Context, server string, o Options) (*consumer, error) {
	l, err := dial(ctx, server, o)
	if err != nil {
		return nil, err
	}
	if err := l.prepare(o); err != nil {
		return nil, errors.Join(err, l.end())
	}
	return &consumer{line: l, queue: o.Queue, open: map[uint64]state{}}, nil
}

// subscribe begins to consume. If it replaces a consumer, the new prefetch counts only deliveries from now on; deliveries
// that have arrived are kept, and the channel with its open deliveries stays.
func (c *consumer) subscribe(prefetch int) error {
	err := c.bounded(func() (err error) {
		if c.deliveries != nil {
			if err := c.Cancel(c.tag, false); err != nil {
				return err
			}
			for d := range c.deliveries {
				c.kept = append(c.kept, d)
			}
			c.deliveries = nil
		}
		if err := c.Qos(prefetch, 0, false); err != nil { // of the next consumer
			return err
		}
		c.number++
		c.tag = fmt.Sprintf("tenet-%d", c.number)
		c.deliveries, err = c.Consume(c.queue, c.tag, false, false, false, false, nil)
		return err
	})
	if err != nil {
		c.deliveries = nil
		if !c.alive() && isLoss(err) {
			return c.loss()
		}
		return fmt.Errorf("rabbitmq: consume queue %q: %w", c.queue, err)
	}
	c.prefetch, c.before = prefetch, c.latest
	return nil
}

// isLoss reports whether an error is one of the connection and not a refusal by the broker.
func isLoss(err error) bool {
	refused, ok := errors.AsType[*amqp.Error](err)
	return !ok || !refused.Server || refused.Code == amqp.ConnectionForced
}

// receive waits for a delivery. It returns nil if over comes first.
func (c *consumer) receive(ctx context.Context, over <-chan time.Time) (*amqp.Delivery, error) {
	if len(c.kept) > 0 && c.alive() {
		d := c.kept[0]
		c.kept = c.kept[1:]
		return &d, nil
	}
	select { // a delivery that has arrived, even if the time is over
	case d, ok := <-c.deliveries:
		return c.received(d, ok)
	default:
	}
	select {
	case d, ok := <-c.deliveries:
		return c.received(d, ok)
	case <-over:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *consumer) received(d amqp.Delivery, ok bool) (*amqp.Delivery, error) {
	if ok {
		return &d, nil
	}
	c.deliveries = nil
	if !c.alive() {
		return nil, c.loss()
	}
	return nil, fmt.Errorf("%w: the broker cancelled the consumer of queue %q", ErrLost, c.queue) // the queue was deleted or moved
}

// Waiting messages need a moment to arrive: the first ones after subscribing, and those that another consumer gave back.
const (
	underWay     = 20 * time.Millisecond
	mostUnderWay = 2 * time.Second
)

// check asks the broker whether messages wait, and waits for one if so.
func (c *consumer) check(ctx context.Context) (*amqp.Delivery, error) {
	end := time.Now().Add(mostUnderWay)
	for backoff := (wait.Backoff{Min: underWay, Max: mostUnderWay}); ; {
		var q amqp.Queue
		err := c.bounded(func() (err error) {
			q, err = c.QueueDeclarePassive(c.queue, true, false, false, false, nil)
			return err
		})
		if err != nil {
			if !c.alive() && isLoss(err) {
				return nil, c.loss()
			}
			return nil, fmt.Errorf("rabbitmq: queue %q: %w", c.queue, err)
		}
		t := time.NewTimer(backoff.Failed())
		d, err := c.receive(ctx, t.C)
		t.Stop()
		// Messages for another consumer, such as the queue's single active consumer, never arrive here.
		if d != nil || err != nil || q.Messages == 0 || time.Now().After(end) {
			return d, err
		}
	}
}

// token identifies a delivery that comes back.
type token struct {
	from *consumer
	tag  uint64
}

// hand hands out first and the deliveries that have arrived after it.
func (c *consumer) hand(first amqp.Delivery, most int) []pipeline.Delivery {
	most = min(most, 1+len(c.kept)+c.prefetch)
	tokens, list := make([]token, 0, most), make([]pipeline.Delivery, 0, most)
	for d, ok := first, true; ok; d, ok = c.ready() {
		tokens = append(tokens, token{c, d.DeliveryTag})
		list = append(list, pipeline.Delivery{Transaction: transaction(&d, c.queue), Token: &tokens[len(tokens)-1], Count: deliveries(&d)})
		c.latest = d.DeliveryTag
		if len(list) == most {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tokens {
		c.open[t.tag] = running
	}
	return list
}

// ready returns a delivery that has arrived.
func (c *consumer) ready() (d amqp.Delivery, ok bool) {
	if len(c.kept) > 0 {
		d, c.kept = c.kept[0], c.kept[1:]
		return d, true
	}
	for range 2 {
		select {
		case d, ok = <-c.deliveries: // the next fetch sees the end of a consumer
			return d, ok
		default:
			runtime.Gosched() // the client passes deliveries on one by one, without a buffer
		}
	}
	return d, ok
}

// use returns how many deliveries are in work, and whether the engine and the delays hold as many as the prefetch allows.
func (c *consumer) use() (inWork int, exhausted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := 0
	for tag := range c.open {
		if tag > c.before {
			mine++
		}
	}
	return len(c.open) - c.delayed, mine >= c.prefetch && c.delayed < mostDelayed
}
