package pipelinetest

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// Target is what a sink under test writes to.
type Target struct {
	// Sink opens a handle. Required. The suite closes it if it is an io.Closer.
	Sink func(t *testing.T) pipeline.Sink
	// Taken lists the transactions that have arrived, in any order, including duplicates. Required. The suite calls it until
	// the expected transactions have arrived.
	Taken func(t *testing.T) []*pipeline.Transaction
	// Restart stops the server under the target and starts it again. Nil leaves out the cases that need it.
	Restart func(t *testing.T)
}

// SinkOptions say how the suite opens a sink, and what the sink supports.
type SinkOptions struct {
	// Open makes a new, empty target. Required.
	Open func(t *testing.T) Target
	// Make makes the i-th transaction, with an ID that is different for each. Default [MakeFull].
	Make func(i int) *pipeline.Transaction
	// Ordered says that transactions dispatched by one goroutine arrive in their order.
	Ordered bool
	// Deduplicates says that a repeated dispatch arrives once.
	Deduplicates bool
	// Timeout is how long the suite waits for a transaction before it counts as lost. Default 15 s.
	Timeout time.Duration
	// Load is the number of transactions of cases under load. Default 200.
	Load int
}

// Sinks checks that a sink keeps the contract of pipeline.Sink.
func Sinks(t *testing.T, o SinkOptions) {
	if o.Make == nil {
		o.Make = MakeFull
	}
	o.Timeout, o.Load = cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.Load, defaultLoad)
	cases := []struct {
		name string
		when bool
		run  func(s *sink)
	}{
		{"L11/transactions arrive unchanged", true, (*sink).unchanged},
		{"L10/order", o.Ordered, (*sink).order},
		{"L10/concurrent dispatches arrive", true, (*sink).concurrent},
		{"L4/a transaction that is dispatched again arrives once", o.Deduplicates, (*sink).deduplicated},
		{"L4/a dispatch with an ended context fails", true, (*sink).cancelled},
		{"L10/a producer's transactions arrive", true, (*sink).produced},
		{"L4/a server that restarts under load loses nothing", true, (*sink).restarted},
	}
	for _, c := range cases {
		if c.when {
			t.Run(c.name, func(t *testing.T) { c.run(&sink{T: t, o: o, target: o.Open(t), ctx: t.Context()}) })
		}
	}
}

// sink is a target under test.
type sink struct {
	*testing.T
	o      SinkOptions
	target Target
	ctx    context.Context
}

func (s *sink) open() pipeline.Sink {
	s.Helper()
	return closing(s.T, s.target.Sink(s.T))
}

func (s *sink) make(n int) []*pipeline.Transaction { return makeAll(n, s.o.Make) }

func (s *sink) dispatch(to pipeline.Sink, list ...*pipeline.Transaction) {
	s.Helper()
	for _, t := range list {
		if err := to.Dispatch(s.ctx, t); err != nil {
			s.Fatalf("Dispatch of %s: %v", t.ID(), err)
		}
	}
}

// arrived waits until all of list have arrived and returns everything that has.
func (s *sink) arrived(list []*pipeline.Transaction) []*pipeline.Transaction {
	s.Helper()
	for end := time.Now().Add(s.o.Timeout); ; time.Sleep(20 * time.Millisecond) {
		taken := s.target.Taken(s.T)
		missing := map[string]*pipeline.Transaction{}
		for _, t := range list {
			missing[t.ID()] = t
		}
		for _, t := range taken {
			delete(missing, t.ID())
		}
		if len(missing) == 0 {
			return taken
		}
		if time.Now().After(end) {
			s.Fatalf("%d of %d have not arrived", len(missing), len(list))
		}
	}
}

// once checks that everything has arrived exactly once.
func (s *sink) once(list []*pipeline.Transaction) {
	s.Helper()
	if taken := s.arrived(list); len(taken) != len(list) {
		s.Errorf("%d arrived of %d", len(taken), len(list))
	}
}

func (s *sink) unchanged() {
	list := s.make(20)
	to := s.open()
	s.dispatch(to, list...)
	want := map[string]*pipeline.Transaction{}
	for _, t := range list {
		want[t.ID()] = t
	}
	for _, t := range s.arrived(list) {
		if put, ok := want[t.ID()]; ok {
			same(s.T, put, t)
		} else {
			s.Errorf("%s was not dispatched", t.ID())
		}
	}
	s.once(list)
}

func (s *sink) order() {
	list := s.make(50)
	to := s.open()
	s.dispatch(to, list...)
	for i, t := range s.arrived(list) {
		if t.ID() != list[i].ID() {
			s.Fatalf("number %d is %s instead of %s", i+1, t.ID(), list[i].ID())
		}
	}
}

func (s *sink) concurrent() {
	list := s.make(s.o.Load)
	to := s.open()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < len(list); i += 8 {
				if err := to.Dispatch(s.ctx, list[i]); err != nil {
					s.Errorf("Dispatch: %v", err)
				}
			}
		})
	}
	group.Wait()
	s.once(list)
}

func (s *sink) deduplicated() {
	list := s.make(10)
	to := s.open()
	s.dispatch(to, list...)
	s.dispatch(to, list...)
	s.dispatch(s.open(), list[:3]...)
	s.once(list)
}

func (s *sink) cancelled() {
	to := s.open()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := to.Dispatch(ctx, s.o.Make(0)); err == nil {
		s.Error("a dispatch whose context was over before it began succeeded")
	}
	s.dispatch(to, s.o.Make(1)) // the handle is still good
	s.arrived([]*pipeline.Transaction{s.o.Make(1)})
}

func (s *sink) produce(list []*pipeline.Transaction, task pipeline.Raw) pipeline.Summary {
	s.Helper()
	var p policy.Producer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Timeout = 8, 50, 4*s.o.Timeout
	p.Steps.Produce.Retry = policy.Retry{
		MaxAttempts: 1000, InitialBackoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, TimeoutPerAttempt: 5 * time.Second,
	}
	summary, err := pipeline.NewProducer(s.open(), task, p).Run(s.ctx, pipeline.Values(list...))
	if err != nil || summary.Success != len(list) {
		s.Errorf("%+v, %v", summary, err)
	}
	return summary
}

func (s *sink) produced() {
	list := s.make(s.o.Load)
	s.produce(list, pipeline.Raw{})
	s.once(list)
}

// restarted restarts the server while a producer works. Transactions may arrive twice, unless the sink says that they
// do not.
func (s *sink) restarted() {
	if s.target.Restart == nil {
		s.Logf("the target has no server to restart")
		return
	}
	list := s.make(s.o.Load)
	b := newProgress()
	var restarts sync.WaitGroup
	summary := s.produce(list, pipeline.Map(func(_ context.Context, t *pipeline.Transaction) (*pipeline.Transaction, error) {
		if b.call("all") == s.o.Load/2 {
			restarts.Go(func() { s.target.Restart(s.T) })
		}
		time.Sleep(2 * time.Millisecond)
		return t, nil
	}))
	restarts.Wait()
	s.Logf("%+v", summary)
	if s.o.Deduplicates {
		s.once(list)
		return
	}
	s.arrived(list)
}
