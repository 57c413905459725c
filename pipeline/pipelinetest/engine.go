package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// progress counts how often the steps of transactions ran.
type progress struct {
	mu      sync.Mutex
	calls   map[string]int
	done    map[string]bool
	running map[string]bool
	twice   []string
	letters pipeline.Sink // nil for none
}

func newProgress() *progress {
	return &progress{calls: map[string]int{}, done: map[string]bool{}, running: map[string]bool{}}
}

// call counts a call and returns which it is, from 1.
func (b *progress) call(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[name]++
	return b.calls[name]
}

// finish notes that a transaction is done.
func (b *progress) finish(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[id] = true
}

func (b *progress) finished() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.done)
}

// enter notes that a transaction runs until the function returned is called.
func (b *progress) enter(id string) func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[id] {
		b.twice = append(b.twice, id)
	}
	b.running[id] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.running, id)
	}
}

// flow is a policy under which nothing is given up: streaming, quick retries.
func flow(s *source) policy.Consumer {
	p := retryingPolicy(4 * s.o.Timeout)
	p.Loop.Streaming = !s.o.Finite
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = 4, 10
	quick := policy.Retry{MaxAttempts: 2, InitialBackoff: 10 * time.Millisecond}
	p.Steps.Process.Retry, p.Steps.Success.Retry, p.Steps.Exception.Retry = quick, quick, quick
	return p
}

// consume runs an engine until n transactions are done, or it is at its end. No more are to be done.
func (b *progress) consume(s *source, from pipeline.Source, task pipeline.Raw, n int) pipeline.Summary {
	s.Helper()
	opts := []pipeline.Option{pipeline.WithLogger(slog.New(slog.DiscardHandler)), pipeline.WithGrace(5 * time.Second)}
	if b.letters != nil {
		opts = append(opts, pipeline.WithDeadLetter(b.letters))
	}
	consumer := pipeline.NewConsumer(from, task, flow(s), opts...)
	ended := make(chan struct{})
	go func() {
		for end := time.Now().Add(3 * s.o.Timeout); b.finished() < n && time.Now().Before(end); {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		consumer.Drain()
	}()
	summary, err := consumer.Run(s.ctx)
	close(ended)
	if err != nil {
		s.Errorf("Run: %v (%+v)", err, summary)
	}
	if summary.Ended() != summary.Fetched {
		s.Errorf("%+v: every delivery ends once", summary)
	}
	if len(b.twice) > 0 {
		s.Errorf("ran twice at once: %v", b.twice)
	}
	if b.finished() != n {
		s.Errorf("%d of %d are done: %+v", b.finished(), n, summary)
	}
	return summary
}

// outcomes runs a load in which every third transaction fails once, some are business errors, and some fail for good at their
// first delivery.
func (s *source) outcomes() {
	put := s.put(s.o.Load)
	place := map[string]int{}
	for i, t := range put {
		place[t.ID()] = i
	}
	from, end := s.open()
	_, nacks := from.(pipeline.Nacker)
	b := newProgress()
	var letters pipeline.MemorySink
	b.letters = &letters
	task := pipeline.Raw{
		Process: func(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
			defer b.enter(t.ID())()
			n := b.call(t.ID())
			switch i := place[t.ID()]; {
			case i%10 == 9:
				return nil, classify.Business(errors.New("refused"))
			case i%10 == 8 && nacks && n <= 2: // both attempts of the first delivery
				return nil, errors.New("down")
			case i%3 == 0 && n == 1:
				return nil, errors.New("down once")
			}
			b.finish(t.ID())
			return nil, nil
		},
		Exception: func(_ context.Context, t *pipeline.Transaction, cause error) error {
			if failed, ok := errors.AsType[*pipeline.TransactionError](cause); ok && failed.Category != classify.CategoryBusiness {
				return errors.New("not handled") // it comes again
			}
			b.finish(t.ID())
			return nil
		},
	}
	summary := b.consume(s, from, task, len(put))
	if summary.Unsettled > 0 {
		s.Errorf("%d acknowledgements failed", summary.Unsettled)
	}
	if got := len(letters.Transactions()); got < len(put)/10 {
		s.Errorf("%d dead letters of %d", got, len(put))
	}
	end()
	if _, acks := from.(pipeline.Acker); acks {
		reopened, _ := s.open()
		s.noneAfterLease(reopened)
	}
}

func (s *source) poison() {
	put := s.put(30)
	poisonous := put[3].ID()
	from, _ := s.open()
	b := newProgress()
	summary := b.consume(s, from, pipeline.Map(func(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
		if t.ID() == poisonous {
			return nil, errors.New("poison")
		}
		b.finish(t.ID())
		return nil, nil
	}), len(put)-1)
	if summary.Failed+summary.Redelivered == 0 {
		s.Errorf("the poison was not given back: %+v", summary)
	}
}

func (s *source) duplicates() {
	list := []*pipeline.Transaction{s.o.Make(0), s.o.Make(1), s.o.Make(0), s.o.Make(0), s.o.Make(2)}
	s.queue.Put(s.T, list...)
	from, _ := s.open()
	b := newProgress()
	b.consume(s, from, pipeline.Map(func(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
		defer b.enter(t.ID())()
		time.Sleep(20 * time.Millisecond)
		b.finish(t.ID())
		return nil, nil
	}), 3)
}

// stopped cancels an engine in the middle of its work and lets another one do the rest.
func (s *source) stopped() {
	put := s.put(40)
	from, end := s.open()
	optional[pipeline.Acker](s.T, from)
	b := newProgress()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	half := pipeline.Map(func(ctx context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
		if b.finished() >= 10 {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b.finish(t.ID())
		return nil, nil
	})
	summary, err := pipeline.NewConsumer(from, half, flow(s), pipeline.WithLogger(slog.New(slog.DiscardHandler))).Run(ctx)
	if !errors.Is(err, context.Canceled) || summary.Redelivered == 0 {
		s.Errorf("%+v, %v", summary, err)
	}
	end()
	s.pass(s.o.Lease)
	reopened, _ := s.open()
	b.consume(s, reopened, pipeline.Map(func(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
		b.finish(t.ID())
		return nil, nil
	}), len(put))
}

// restarted restarts the server while an engine works. Half of the load comes afterwards: an engine that lost its connection for good would
// still have what it had fetched.
func (s *source) restarted() {
	if s.queue.Restart == nil {
		s.Logf("the queue has no server to restart")
		return
	}
	put := makeAll(s.o.Load, s.o.Make)
	half := (len(put) + 1) / 2
	early, late := put[:half], put[half:]
	s.queue.Put(s.T, early...)
	from, _ := s.open()
	b := newProgress()
	var restarts sync.WaitGroup
	summary := b.consume(s, from, pipeline.Map(func(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
		if b.call("all") == (half+1)/2 {
			restarts.Go(func() {
				s.queue.Restart(s.T)
				s.queue.Put(s.T, late...)
			})
		}
		time.Sleep(5 * time.Millisecond)
		b.finish(t.ID())
		return nil, nil
	}), len(put))
	restarts.Wait()
	missing := slices.DeleteFunc(lists.Map(put, (*pipeline.Transaction).ID), func(id string) bool { return b.done[id] })
	slices.Sort(missing)
	if len(missing) > 0 {
		s.Errorf("%d of %d are lost: %s (%+v)", len(missing), len(put), fmt.Sprint(missing[:min(len(missing), 10)]), summary)
	}
	s.Logf("%+v", summary)
}
