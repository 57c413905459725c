package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// script says what becomes of the i-th transaction.
type script struct {
	t      *testing.T
	place  map[string]int
	outage func()

	mu   sync.Mutex
	runs map[string]int
	done map[string]int
	all  int
}

const (
	failsOnce     = 3 // of ten: its first delivery fails and is given back
	isNoBusiness  = 7 // of ten: a business error, a dead letter
	transactions  = 3000
	betweenOutage = transactions / 3
)

func (s *script) process(_ context.Context, x *pipeline.Transaction) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if s.all == betweenOutage || s.all == 2*betweenOutage {
		s.outage()
	}
	id := x.ID()
	s.runs[id]++
	switch s.place[id] % 10 {
	case failsOnce:
		if s.runs[id] == 1 {
			return nil, errors.New("down")
		}
	case isNoBusiness:
		return nil, classify.Business(errors.New("refused"))
	}
	s.done[id]++
	return nil, nil
}

// TestL11EveryTransactionIsSettledThroughOutages: with two outages under load each transaction ends as the script says, and
// nothing is left.
func TestL11EveryTransactionIsSettledThroughOutages(t *testing.T) {
	n := start(t)
	o := n.stream(t, "orders")
	list := plain(transactions)
	put(t, n, o, list)
	var outages sync.WaitGroup
	s := &script{t: t, place: map[string]int{}, runs: map[string]int{}, done: map[string]int{}}
	s.outage = func() { outages.Go(func() { n.restart(t) }) }
	for i, x := range list {
		s.place[x.ID()] = i
	}
	source := openSource(t, n, o)
	defer source.Close()
	var letters pipeline.MemorySink
	consumer := pipeline.NewConsumer(source, pipeline.TaskFunc(s.process), steady(), pipeline.WithDeadLetter(onlyBusiness(&letters)),
		pipeline.WithLogger(slog.New(slog.DiscardHandler)))
	go func() {
		for !s.complete(&letters) {
			time.Sleep(20 * time.Millisecond)
		}
		consumer.Drain()
	}()
	summary, err := consumer.Run(t.Context())
	outages.Wait()
	t.Logf("%+v", summary)
	if err != nil || !s.complete(&letters) {
		t.Errorf("%d succeeded, %d letters: %v", len(s.done), len(ids(&letters)), err)
	}
	for i, x := range list {
		letter, success := ids(&letters)[x.ID()], s.done[x.ID()] > 0
		if letter != (i%10 == isNoBusiness) || success == letter || i%10 == failsOnce && s.runs[x.ID()] < 2 {
			t.Fatalf("%s: a dead letter %v, a success %v, after %d runs", x.ID(), letter, success, s.runs[x.ID()])
		}
	}
	for range 3 { // what was redelivered in vain is taken away
		got, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: transactions, Wait: 2 * o.AckWait})
		must(t, err)
		for _, d := range got {
			if s.done[d.Transaction.ID()] == 0 && !ids(&letters)[d.Transaction.ID()] {
				t.Errorf("%s was not settled", d.Transaction.ID())
			}
		}
		ackAll(t, source, got)
	}
	if got, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: 2 * o.AckWait}); len(got) > 0 || err != nil {
		t.Errorf("%d are left, %v", len(got), err)
	}
}

// complete tells whether everything has ended.
func (s *script) complete(letters *pipeline.MemorySink) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done)+len(ids(letters)) == transactions
}

func ids(letters *pipeline.MemorySink) map[string]bool {
	set := map[string]bool{}
	for _, x := range letters.Transactions() {
		set[x.ID()] = true
	}
	return set
}

// onlyBusiness refuses the letters of what is to come again.
func onlyBusiness(letters *pipeline.MemorySink) pipeline.Sink {
	return pipeline.SinkFunc(func(ctx context.Context, x *pipeline.Transaction) error {
		if x.Metadata(pipeline.MetaCategory) != classify.CategoryBusiness.String() {
			return classify.Permanent(errors.New("it comes again"))
		}
		return letters.Dispatch(ctx, x)
	})
}

// steady gives nothing up but what the script fails.
func steady() (p policy.Consumer) {
	p.Loop.Streaming, p.Loop.Timeout = true, 5*time.Minute
	p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Batch.Interval = 10, 50, 100*time.Millisecond
	p.Steps.Process.Retry = policy.Retry{MaxAttempts: 1, InitialBackoff: 50 * time.Millisecond}
	p.Steps.Exception.Retry = policy.Retry{MaxAttempts: 1}
	p.Steps.Fetch.Retry = policy.Retry{MaxAttempts: 1000, InitialBackoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}
	return p
}
