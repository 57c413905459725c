package pipelinetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handle is one consumer of a queue in memory: unacknowledged deliveries go back when it is closed or their leases expire.
type handle struct {
	*queue
	held map[*pipeline.Transaction]lease
}

// lease is the timer of the last delivery of a transaction.
type lease struct {
	*time.Timer
	count int
}

type queue struct {
	*pipeline.MemorySource
	lease time.Duration

	mu   sync.Mutex
	down bool // the simulated server is being restarted
}

var errAway = errors.New("the server is down")

func (q *queue) open() *handle {
	return &handle{queue: q, held: map[*pipeline.Transaction]lease{}}
}

func (h *handle) away() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

func (h *handle) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	if h.away() {
		return nil, errAway
	}
	got, err := h.MemorySource.Fetch(ctx, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range got {
		h.held[d.Transaction] = lease{time.AfterFunc(h.lease, func() { h.back(d) }), d.Count}
	}
	return got, err
}

func (h *handle) take(d pipeline.Delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.held[d.Transaction]
	if !ok || l.count != d.Count {
		return false
	}
	l.Stop()
	delete(h.held, d.Transaction)
	return true
}

func (h *handle) back(d pipeline.Delivery) {
	if h.take(d) {
		_ = h.MemorySource.Nack(context.Background(), d, 0, nil)
	}
}

func (h *handle) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	errs := make([]error, len(done))
	for i, d := range done {
		switch {
		case h.away():
			errs[i] = errAway
		case h.take(d):
			h.MemorySource.Ack(ctx, done[i:i+1])
		default:
			errs[i] = errors.New("not held")
		}
	}
	return errs
}

func (h *handle) Nack(ctx context.Context, d pipeline.Delivery, delay time.Duration, cause error) error {
	if h.away() {
		return errAway
	}
	if !h.take(d) {
		return errors.New("not held")
	}
	return h.MemorySource.Nack(ctx, d, delay, cause)
}

func (h *handle) Extend(_ context.Context, held []pipeline.Delivery) []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range held {
		if l, ok := h.held[d.Transaction]; ok && l.count == d.Count {
			l.Reset(h.lease)
		}
	}
	return nil
}

func (h *handle) ExtendEvery() time.Duration { return h.lease / 3 }

func (h *handle) Close() error {
	h.mu.Lock()
	var left []pipeline.Delivery
	for t, l := range h.held {
		l.Stop()
		left = append(left, pipeline.Delivery{Transaction: t, Count: l.count})
	}
	clear(h.held)
	h.mu.Unlock()
	for _, d := range left {
		_ = h.MemorySource.Nack(context.Background(), d, 0, nil)
	}
	return nil
}

func (q *queue) restart(*testing.T) {
	set := func(down bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.down = down
	}
	set(true)
	time.Sleep(50 * time.Millisecond)
	set(false)
}

func TestSourceOfAQueue(t *testing.T) {
	pipelinetest.Sources(t, pipelinetest.SourceOptions{
		Open: func(*testing.T) pipelinetest.Queue {
			q := &queue{MemorySource: pipeline.NewMemorySource(), lease: time.Second}
			return pipelinetest.Queue{
				Put:     func(_ *testing.T, list ...*pipeline.Transaction) { q.Add(list...) },
				Source:  func(*testing.T) pipeline.Source { return q.open() },
				Restart: q.restart,
			}
		},
		Ordered: true, Counts: true, Lease: time.Second, Delay: 300 * time.Millisecond, Load: 60, Bubble: synctest.Test,
	})
}

func TestSourceWithoutAbilities(t *testing.T) {
	type bare struct{ pipeline.Source }
	pipelinetest.Sources(t, pipelinetest.SourceOptions{
		Open: func(*testing.T) pipelinetest.Queue {
			q := pipeline.NewMemorySource()
			return pipelinetest.Queue{
				Put:    func(_ *testing.T, list ...*pipeline.Transaction) { q.Add(list...) },
				Source: func(*testing.T) pipeline.Source { return bare{q} },
			}
		},
		Make: pipelinetest.MakePlain, Ordered: true, Once: true, Load: 20,
	})
}

// target is a sink in memory that stores each ID once.
type target struct {
	pipeline.MemorySink
	mu   sync.Mutex
	ids  map[string]bool
	down bool
}

func (s *target) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errAway
	}
	if s.ids[t.ID()] {
		return nil
	}
	if err := s.MemorySink.Dispatch(ctx, t); err != nil {
		return err
	}
	s.ids[t.ID()] = true
	return nil
}

func (s *target) restart(*testing.T) {
	for _, down := range []bool{true, false} {
		s.mu.Lock()
		s.down = down
		s.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

func TestSinkInMemory(t *testing.T) {
	pipelinetest.Sinks(t, pipelinetest.SinkOptions{
		Open: func(*testing.T) pipelinetest.Target {
			s := &target{ids: map[string]bool{}}
			return pipelinetest.Target{
				Sink:  func(*testing.T) pipeline.Sink { return s },
				Taken: func(*testing.T) []*pipeline.Transaction { return s.Transactions() }, Restart: s.restart,
			}
		},
		Ordered: true, Deduplicates: true, Load: 60,
	})
}

func TestCrashesInMemory(t *testing.T) { synctest.Test(t, crashesInMemory) }

func crashesInMemory(t *testing.T) {
	queues := map[string]*queue{}
	for _, name := range []string{pipelinetest.Work, pipelinetest.DeadLetters} {
		queues[name] = &queue{MemorySource: pipeline.NewMemorySource(), lease: time.Second}
	}
	pipelinetest.Crashes(t, pipelinetest.Broker{
		Source: func(_ *testing.T, name string) pipeline.Source { return queues[name].open() },
		Sink: func(_ *testing.T, name string) pipeline.Sink {
			return pipeline.SinkFunc(func(_ context.Context, x *pipeline.Transaction) error {
				queues[name].Add(x)
				return nil
			})
		},
		Left: func(_ *testing.T, name string) int {
			waiting, out := queues[name].Len()
			return waiting + out
		},
		Kill:  queues[pipelinetest.Work].restart,
		Lease: time.Second, Transactions: 10_000,
	})
}
