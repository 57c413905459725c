package pipeline

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
)

// MemorySource is a queue in memory: a Source for tests, examples and pipelines inside one process. It delivers transactions
// in the order in which they were added. A transaction that is given back is delivered again after its delay. Acknowledging a
// delivery again does nothing. It is safe for concurrent use.
type MemorySource struct {
	mu      sync.Mutex
	ready   []Delivery
	delayed []delayed // by due time
	acked   []*Transaction
	held    map[delivered]int // how often each is delivered and not settled
	out     int               // their sum
	closed  bool
	changed chan struct{} // closed when something has been added
}

type delayed struct {
	due time.Time
	d   Delivery
}

// delivered is a delivery of a transaction, by its count.
type delivered struct {
	t     *Transaction
	count int
}

// NewMemorySource makes a source with transactions. The source ends when Close has been called and all transactions have been
// acknowledged.
func NewMemorySource(list ...*Transaction) *MemorySource {
	s := &MemorySource{held: map[delivered]int{}, changed: make(chan struct{})}
	s.Add(list...)
	return s
}

// Add puts transactions at the end of the queue. A nil one panics.
func (s *MemorySource) Add(list ...*Transaction) {
	argument.Need(!slices.Contains(list, nil), "pipeline: MemorySource.Add: a transaction")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = slices.Grow(s.ready, len(list))
	for _, t := range list {
		s.ready = append(s.ready, Delivery{Transaction: t, Count: 1})
	}
	s.signal()
}

// Close marks the end of the queue: no transactions are added after it.
func (s *MemorySource) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
	return nil
}

// signal wakes the fetches that wait for a change.
func (s *MemorySource) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Fetch implements Source.
func (s *MemorySource) Fetch(ctx context.Context, r FetchRequest) ([]Delivery, error) {
	var timeout <-chan time.Time
	if r.Wait > 0 {
		t := time.NewTimer(r.Wait)
		defer t.Stop()
		timeout = t.C
	}
	for {
		got, changed, err := s.take(r.Max)
		if len(got) > 0 || err != nil || r.Wait <= 0 {
			return got, err
		}
		due, stop := s.due()
		select {
		case <-changed:
		case <-due:
		case <-timeout:
			r.Wait = 0
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		}
		stop()
	}
}

// Lag implements Lagger.
func (s *MemorySource) Lag(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.ready)), nil
}

// take returns up to most ready deliveries, and a channel that is closed at the next change.
func (s *MemorySource) take(most int) ([]Delivery, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for now := time.Now(); len(s.delayed) > 0 && !s.delayed[0].due.After(now); s.delayed = s.delayed[1:] {
		s.ready = append(s.ready, s.delayed[0].d)
	}
	n := min(most, len(s.ready))
	got := s.ready[:n:n] // the source does not reuse these elements
	s.ready = s.ready[n:]
	for _, d := range got {
		s.held[delivered{d.Transaction, d.Count}]++
	}
	s.out += n
	if s.closed && n == 0 && s.out+len(s.delayed) == 0 {
		return nil, s.changed, ErrEnd
	}
	return got, s.changed, nil
}

// due returns a channel that fires when the next delayed transaction is ready; it is nil without one.
func (s *MemorySource) due() (<-chan time.Time, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.delayed) == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(s.delayed[0].due))
	return t.C, func() { t.Stop() }
}

// settle reports whether a delivery is held, and ends it. The caller holds mu.
func (s *MemorySource) settle(d Delivery) bool {
	this := delivered{d.Transaction, d.Count}
	switch s.held[this] {
	case 0:
		return false
	case 1:
		delete(s.held, this)
	default:
		s.held[this]--
	}
	s.out--
	return true
}

// Ack implements Acker.
func (s *MemorySource) Ack(_ context.Context, done []Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range done {
		if s.settle(d) {
			s.acked = append(s.acked, d.Transaction)
		}
	}
	if s.closed && s.out == 0 {
		s.signal()
	}
	return nil
}

// Nack implements Nacker.
func (s *MemorySource) Nack(_ context.Context, d Delivery, delay time.Duration, _ error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.settle(d) {
		return errors.New("pipeline: MemorySource.Nack: the delivery has been settled already")
	}
	d.Count++
	back := delayed{time.Now().Add(delay), d}
	at := sort.Search(len(s.delayed), func(i int) bool { return s.delayed[i].due.After(back.due) })
	s.delayed = slices.Insert(s.delayed, at, back)
	s.signal()
	return nil
}

// Acked lists the acknowledged transactions in the order of their acknowledgements.
func (s *MemorySource) Acked() []*Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acked)
}

// Len returns how many transactions are waiting, delayed ones included, and how many are delivered and not yet settled.
func (s *MemorySource) Len() (waiting, out int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready) + len(s.delayed), s.out
}

// MemorySink keeps what is dispatched to it. The zero value is ready; it is safe for concurrent use.
type MemorySink struct {
	mu   sync.Mutex
	list []*Transaction
}

// Dispatch implements Sink.
func (s *MemorySink) Dispatch(ctx context.Context, t *Transaction) error {
	if t == nil {
		return errors.New("pipeline: Dispatch: the transaction is nil")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, t)
	return nil
}

// Transactions lists the dispatched transactions in their order.
func (s *MemorySink) Transactions() []*Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}
