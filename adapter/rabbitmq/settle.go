package rabbitmq

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/verdict"
	"github.com/tenetdev/tenet/pipeline"
)

var (
	errForeign = errors.New("rabbitmq: the delivery is not from this source")
	errSettled = errors.New("rabbitmq: the delivery has already been settled")
)

// Ack implements pipeline.Acker. It acknowledges deliveries together if none before them is open.
func (s *Source) Ack(_ context.Context, done []pipeline.Delivery) []error {
	var errs verdict.List
	fail := func(i int, err error) { errs.Set(i, len(done), err) }
	for begin := 0; begin < len(done); {
		t, ok := done[begin].Token.(*token)
		if !ok {
			fail(begin, errForeign)
			begin++
			continue
		}
		end := begin + 1
		for ; end < len(done); end++ {
			if next, ok := done[end].Token.(*token); !ok || next.from != t.from {
				break
			}
		}
		t.from.ack(done[begin:end], func(i int, err error) { fail(begin+i, err) })
		begin = end
	}
	return errs
}

func (c *consumer) ack(done []pipeline.Delivery, fail func(i int, err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tags := make([]uint64, 0, len(done))
	for i := range done {
		tag := done[i].Token.(*token).tag
		if !c.inWork(tag) {
			fail(i, errSettled)
			continue
		}
		delete(c.open, tag)
		tags = append(tags, tag)
	}
	if err := c.tell(tags); err != nil {
		for i := range done {
			fail(i, err)
		}
	}
}

// inWork reports whether a delivery is handed out and not settled. The caller holds mu.
func (c *consumer) inWork(tag uint64) bool {
	state, open := c.open[tag]
	return open && state == running
}

// tell acknowledges tags that have left open. The caller holds mu.
func (c *consumer) tell(tags []uint64) error {
	slices.Sort(tags)
	low := ^uint64(0)
	for tag := range c.open {
		low = min(low, tag)
	}
	together, _ := slices.BinarySearch(tags, low) // deliveries that are not handed out yet have higher tags
	if together > 0 {
		if err := c.Ack(tags[together-1], true); err != nil {
			return c.loss()
		}
	}
	for _, tag := range tags[together:] {
		if err := c.Ack(tag, false); err != nil {
			return c.loss()
		}
	}
	if !c.alive() { // the acknowledgements may not have arrived
		return c.loss()
	}
	return nil
}

// mostDelay is the longest delay: a broker closes a channel whose deliveries are not settled within its consumer_timeout, 30
// minutes by default.
const mostDelay = 25 * time.Minute

// Nack implements pipeline.Nacker. The message returns to its place in the queue after the delay, for which this process
// keeps it: RabbitMQ has no delays, and moving messages to other queues and back can lose or duplicate them. When the process
// ends or its connection is lost, the broker gives the message to another consumer without waiting for the rest of the
// delay. Delays of more than 25 minutes end after 25 minutes.
func (s *Source) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	t, ok := d.Token.(*token)
	if !ok {
		return errForeign
	}
	c, tag := t.from, t.tag
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inWork(tag) {
		return errSettled
	}
	if !c.alive() {
		return c.loss()
	}
	s.remember(d)
	if delay <= 0 {
		return c.requeue(tag)
	}
	c.open[tag] = delayed
	c.delayed++
	time.AfterFunc(min(delay, mostDelay), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.delayed--
		_ = c.requeue(tag) // if it fails, the connection is lost, and the broker redelivers anyway
	})
	return nil
}

// requeue gives a delivery back at once. The caller holds mu.
func (c *consumer) requeue(tag uint64) error {
	delete(c.open, tag)
	if err := c.Nack(tag, false, true); err != nil {
		return c.loss()
	}
	return nil
}

// mostRemembered bounds the counts that are kept. Counts of messages that other consumers receive are never used again.
const mostRemembered = 1 << 16

// remember keeps the count of a delivery that is given back, because classic queues do not count.
func (s *Source) remember(d pipeline.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil || len(s.counts) >= mostRemembered {
		s.counts = map[string]int{}
	}
	s.counts[d.Transaction.ID()] = d.Count
}

// recall corrects the counts of redeliveries.
func (s *Source) recall(list []pipeline.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		id := list[i].Transaction.ID()
		if before, ok := s.counts[id]; ok && list[i].Count > 1 {
			list[i].Count = max(list[i].Count, before+1)
			delete(s.counts, id)
		}
	}
}
