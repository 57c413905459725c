package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	bg      = context.Background()
	errDown = errors.New("down")
	quiet   = pipeline.WithLogger(slog.New(slog.DiscardHandler))
)

// act is one call of a scripted task: it takes some time and then returns err.
type act struct {
	takes time.Duration
	err   error
	deaf  bool // to its context
	panic any
}

func ok(takes time.Duration) []act { return []act{{takes: takes}} }
func fails(n int, err error) (acts []act) {
	for range n {
		acts = append(acts, act{err: err})
	}
	return append(acts, act{})
}

// script is a task that performs the acts of each transaction and step one after another and repeats the last one. It keeps
// an event log with the time since its start.
type script struct {
	process, success, exception map[string][]act
	handlers                    string // the handlers: "", "s" for success, "e" for exception, "se"

	mu      sync.Mutex
	start   time.Time
	calls   map[string]int
	running map[string]bool
	now     int
	most    int // in flight
	twice   []string
	log     []string
	causes  []error
}

func (s *script) task() pipeline.Task[*pipeline.Transaction, string] {
	s.start, s.calls, s.running = time.Now(), map[string]int{}, map[string]bool{}
	f := pipeline.Task[*pipeline.Transaction, string]{Process: func(ctx context.Context, t *pipeline.Transaction) (string, error) {
		return "result of " + t.ID(), s.act(ctx, "process", t.ID(), s.process)
	}}
	for _, h := range s.handlers {
		switch h {
		case 's':
			f.Success = func(ctx context.Context, t *pipeline.Transaction, result string) error {
				if result != "result of "+t.ID() {
					s.note("success of %s got %s", t.ID(), result)
				}
				return s.act(ctx, "success", t.ID(), s.success)
			}
		case 'e':
			f.Exception = func(ctx context.Context, t *pipeline.Transaction, cause error) error {
				s.mu.Lock()
				s.causes = append(s.causes, cause)
				s.mu.Unlock()
				return s.act(ctx, "exception", t.ID(), s.exception)
			}
		}
	}
	return f
}

func (s *script) act(ctx context.Context, step, id string, acts map[string][]act) error {
	a := s.enter(step, id, acts)
	defer s.leave(id)
	if a.takes > 0 {
		t := time.NewTimer(a.takes)
		defer t.Stop()
		done := ctx.Done()
		if a.deaf {
			done = nil
		}
		select {
		case <-t.C:
		case <-done:
			s.note("%s %s cut", step, id)
			return ctx.Err()
		}
	}
	if a.panic != nil {
		panic(a.panic)
	}
	return a.err
}

func (s *script) enter(step, id string, acts map[string][]act) act {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] {
		s.twice = append(s.twice, id)
	}
	s.running[id] = true
	s.now++
	s.most = max(s.most, s.now)
	name := step + " " + id
	s.log = append(s.log, fmt.Sprintf("%v %s", time.Since(s.start), name))
	list := acts[id]
	if list == nil {
		list = acts["*"]
	}
	n := s.calls[name]
	s.calls[name]++
	if len(list) == 0 {
		return act{}
	}
	return list[min(n, len(list)-1)]
}

func (s *script) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	delete(s.running, id)
}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%v ", time.Since(s.start))+fmt.Sprintf(format, args...))
}

// count counts the calls of a step, for example "process a".
func (s *script) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// ledger collects how deliveries ended.
type ledger struct {
	mu   sync.Mutex
	ends []pipeline.Ended
}

func (l *ledger) option() pipeline.Option {
	return pipeline.WithEnded(func(e pipeline.Ended) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, e)
	})
}

// of returns the outcomes of a transaction's deliveries.
func (l *ledger) of(id string) (list []pipeline.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ends {
		if e.Delivery.Transaction.ID() == id {
			list = append(list, e.Outcome)
		}
	}
	return list
}

func (l *ledger) err(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ends {
		if e.Delivery.Transaction.ID() == id {
			return e.Err
		}
	}
	return errors.New("it has not ended")
}

func transactions(ids ...string) (list []*pipeline.Transaction) {
	for _, id := range ids {
		list = append(list, pipeline.NewTransaction(id, []byte(`"`+id+`"`)))
	}
	return list
}

func ids(list []*pipeline.Transaction) (ids []string) {
	for _, t := range list {
		ids = append(ids, t.ID())
	}
	return ids
}

// retries makes a step's policy with delays of 1 s, 2 s, 4 s …
func retries(attempts int) policy.Step {
	return policy.Step{Retry: policy.Retry{MaxAttempts: attempts, InitialBackoff: time.Second, Jitter: policy.JitterNone}}
}

func consumerPolicy(concurrency, batch int) policy.Consumer {
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = concurrency, batch
	return p
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// scripted is a source that answers fetches from a list.
type scripted struct {
	mu       sync.Mutex
	answers  []answer // the last one is repeated
	requests []pipeline.FetchRequest
	times    []time.Duration
	start    time.Time
	acked    []string
	nacked   []nack
	ackErr   error
	extended map[string]int
	every    time.Duration
	active   int
	overlap  bool
}

type answer struct {
	ids   []string
	err   error
	takes time.Duration
	deaf  bool
	panic any
}

type nack struct {
	ID    string
	Delay time.Duration
	Cause bool
}

func newScripted(answers ...answer) *scripted {
	return &scripted{answers: answers, start: time.Now(), extended: map[string]int{}}
}

func (s *scripted) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	s.mu.Lock()
	if s.active++; s.active > 1 {
		s.overlap = true
	}
	a := s.answers[min(len(s.requests), len(s.answers)-1)]
	s.requests, s.times = append(s.requests, r), append(s.times, time.Since(s.start))
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.active--
		s.mu.Unlock()
	}()
	if a.takes > 0 {
		done := ctx.Done()
		if a.deaf {
			done = nil
		}
		select {
		case <-time.After(a.takes):
		case <-done:
			return nil, ctx.Err()
		}
	}
	if a.panic != nil {
		panic(a.panic)
	}
	var got []pipeline.Delivery
	for _, x := range transactions(a.ids...) {
		got = append(got, pipeline.Delivery{Transaction: x, Count: 1})
	}
	return got, a.err
}

func (s *scripted) Ack(_ context.Context, done []pipeline.Delivery) (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range done {
		s.acked = append(s.acked, d.Transaction.ID())
		errs = append(errs, s.ackErr)
	}
	return errs
}

func (s *scripted) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nacked = append(s.nacked, nack{d.Transaction.ID(), delay, cause != nil})
	return s.ackErr
}

func (s *scripted) Extend(_ context.Context, held []pipeline.Delivery) (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range held {
		s.extended[d.Transaction.ID()]++
		errs = append(errs, s.ackErr)
	}
	return errs
}

func (s *scripted) ExtendEvery() time.Duration { return s.every }
