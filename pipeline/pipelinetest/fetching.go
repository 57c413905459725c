package pipelinetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tenetdev/tenet/pipeline"
)

func (s *source) unchanged() {
	want := map[string]*pipeline.Transaction{}
	for _, t := range s.put(20) {
		want[t.ID()] = t
	}
	from, _ := s.open()
	for _, d := range s.fetch(from, 20) {
		put, ok := want[d.Transaction.ID()]
		if !ok {
			s.Fatalf("%s was not put, or came twice", d.Transaction.ID())
		}
		delete(want, put.ID())
		same(s.T, put, d.Transaction)
		if s.o.Counts && d.Count != 1 {
			s.Errorf("the first delivery of %s has the count %d", put.ID(), d.Count)
		}
		s.ack(from, d)
	}
}

func (s *source) maximum() {
	s.put(10)
	from, _ := s.open()
	seen := 0
	for end := time.Now().Add(s.o.Timeout); seen < 10; {
		got, err := from.Fetch(s.ctx, pipeline.FetchRequest{Max: 3, Wait: fetchWait})
		if len(got) > 3 {
			s.Fatalf("%d deliveries where 3 were asked for", len(got))
		}
		if seen += len(got); seen < 10 && (err != nil || time.Now().After(end)) {
			s.Fatalf("%d of 10 came: %v", seen, err)
		}
		s.ack(from, got...)
	}
}

// lag checks a source that knows its lag.
func (s *source) lag() {
	s.put(7)
	from, _ := s.open()
	lagger := optional[pipeline.Lagger](s.T, from)
	is := func(want int64) {
		s.Helper()
		for end := time.Now().Add(s.o.Timeout); ; time.Sleep(10 * time.Millisecond) {
			n, err := lagger.Lag(s.ctx)
			if n == want && err == nil {
				return
			}
			if time.Now().After(end) {
				s.Fatalf("a lag of %d instead of %d: %v", n, want, err)
			}
		}
	}
	is(7)
	s.ack(from, s.fetch(from, 7)...)
	is(0)
}

func (s *source) order() {
	put := s.put(50)
	from, _ := s.open()
	for i, d := range append(s.fetch(from, 20), s.fetch(from, 30)...) {
		if d.Transaction.ID() != put[i].ID() {
			s.Fatalf("delivery %d is %s instead of %s", i+1, d.Transaction.ID(), put[i].ID())
		}
		s.ack(from, d)
	}
}

func (s *source) empty() {
	from, _ := s.open()
	start := time.Now()
	got, err := from.Fetch(s.ctx, pipeline.FetchRequest{Max: 5})
	if len(got) > 0 || errors.Is(err, pipeline.ErrEnd) != s.o.Finite || err != nil && !s.o.Finite {
		s.Errorf("an empty queue gave %d and %v", len(got), err)
	}
	if took := time.Since(start); took > s.o.Timeout/2 {
		s.Errorf("a fetch that must not wait took %v", took)
	}
}

func (s *source) waits() {
	from, _ := s.open()
	put := make(chan struct{})
	go func() {
		defer close(put)
		time.Sleep(2 * fetchWait)
		s.put(1)
	}()
	s.ack(from, s.fetch(from, 1)...)
	<-put
}

func (s *source) cancelled() {
	from, _ := s.open()
	ctx, cancel := context.WithTimeout(s.ctx, 2*fetchWait)
	defer cancel()
	start := time.Now()
	got, _ := from.Fetch(ctx, pipeline.FetchRequest{Max: 1, Wait: s.o.Timeout * 4})
	if took := time.Since(start); len(got) > 0 || took > s.o.Timeout {
		s.Errorf("a cancelled fetch gave %d after %v", len(got), took)
	}
	s.put(1) // the handle is still good
	s.ack(from, s.fetch(from, 1)...)
}

func (s *source) acknowledged() {
	s.put(10)
	from, end := s.open()
	optional[pipeline.Acker](s.T, from)
	got := s.fetch(from, 10)
	s.ack(from, got[:4]...)
	s.ack(from, got[4:]...)
	s.noneAfterLease(from)
	end()
	reopened, _ := s.open()
	s.none(reopened, 3*fetchWait)
}

func (s *source) acknowledgedTwice() {
	s.put(3)
	from, end := s.open()
	a := optional[pipeline.Acker](s.T, from)
	got := s.fetch(from, 3)
	s.ack(from, got[0])
	_ = a.Ack(s.ctx, got[:1]) // may be an error
	end()
	if s.o.Once {
		return
	}
	s.pass(s.o.Lease)
	reopened, _ := s.open()
	again := s.fetch(reopened, 2)
	for _, d := range again {
		if d.Transaction.ID() == got[0].Transaction.ID() {
			s.Errorf("%s was acknowledged and came again", d.Transaction.ID())
		}
	}
	s.ack(reopened, again...)
}

func (s *source) unacknowledged() {
	s.put(5)
	from, end := s.open()
	optional[pipeline.Acker](s.T, from)
	got := s.fetch(from, 5)
	s.ack(from, got[0], got[2])
	end()
	s.pass(s.o.Lease)
	reopened, _ := s.open()
	want := map[string]pipeline.Delivery{}
	for _, i := range []int{1, 3, 4} {
		want[got[i].Transaction.ID()] = got[i]
	}
	for _, d := range s.fetch(reopened, 3) {
		before, ok := want[d.Transaction.ID()]
		if !ok {
			s.Fatalf("%s came again", d.Transaction.ID())
		}
		delete(want, d.Transaction.ID())
		same(s.T, before.Transaction, d.Transaction)
		if s.o.Counts && d.Count <= before.Count {
			s.Errorf("the counts of %s are %d and %d", d.Transaction.ID(), before.Count, d.Count)
		}
		s.ack(reopened, d)
	}
	s.none(reopened, 3*fetchWait)
}

func (s *source) nackedWithDelay() {
	put := s.put(2)
	from, _ := s.open()
	got := s.fetch(from, 2)
	start := time.Now()
	s.nack(from, got[0], s.o.Delay, errDown)
	s.ack(from, got[1])
	again := s.fetch(from, 1)
	if took := time.Since(start); took < s.o.Delay-s.o.Early {
		s.Errorf("it came again after %v instead of %v", took, s.o.Delay)
	}
	same(s.T, put[indexOf(put, got[0])], again[0].Transaction)
	if again[0].Transaction.ID() != got[0].Transaction.ID() || s.o.Counts && again[0].Count <= got[0].Count {
		s.Errorf("%s (%d) came again as %s (%d)", got[0].Transaction.ID(), got[0].Count, again[0].Transaction.ID(), again[0].Count)
	}
	s.ack(from, again...)
	s.none(from, 3*fetchWait)
}

func indexOf(put []*pipeline.Transaction, d pipeline.Delivery) int {
	return max(0, slices.IndexFunc(put, func(t *pipeline.Transaction) bool { return t.ID() == d.Transaction.ID() }))
}

func (s *source) nackedAtOnce() {
	s.put(3)
	from, _ := s.open()
	for _, d := range s.fetch(from, 3) {
		s.nack(from, d, 0, nil)
	}
	s.ack(from, s.fetch(from, 3)...)
	s.none(from, 3*fetchWait)
}

func (s *source) nackedThenSettled() {
	s.put(1)
	from, _ := s.open()
	got := s.fetch(from, 1)
	s.nack(from, got[0], 0, nil)
	if a, ok := from.(pipeline.Acker); ok { // before the next delivery
		_ = a.Ack(s.ctx, got)
	}
	s.settledLate(from, got)
}

// settledLate settles an earlier delivery after the source has delivered its transaction again. The new delivery must remain unsettled.
func (s *source) settledLate(from pipeline.Source, earlier []pipeline.Delivery) {
	s.Helper()
	n := optional[pipeline.Nacker](s.T, from)
	latest := s.fetch(from, 1)
	if e, ok := from.(pipeline.Extender); ok {
		_ = e.Extend(s.ctx, earlier) // all of these may return errors
	}
	_ = n.Nack(s.ctx, earlier[0], 0, nil)
	s.none(from, fetchWait)
	if a, ok := from.(pipeline.Acker); ok {
		_ = a.Ack(s.ctx, earlier)
	}
	s.nack(from, latest[0], 0, nil)
	s.ack(from, s.fetch(from, 1)...)
	s.none(from, fetchWait)
}

func (s *source) twoConsumers() {
	s.put(20)
	one, _ := s.open()
	two, _ := s.open()
	seen := map[string]bool{}
	for end := time.Now().Add(s.o.Timeout); len(seen) < 20; {
		for _, from := range []pipeline.Source{one, two} {
			got, err := from.Fetch(s.ctx, pipeline.FetchRequest{Max: 3, Wait: fetchWait})
			if err != nil && !errors.Is(err, pipeline.ErrEnd) || time.Now().After(end) {
				s.Fatalf("%d of 20 came: %v", len(seen), err)
			}
			for _, d := range got {
				if seen[d.Transaction.ID()] {
					s.Fatalf("%s was delivered twice", d.Transaction.ID())
				}
				seen[d.Transaction.ID()] = true
			}
			s.ack(from, got...)
		}
	}
}

func (s *source) leaseExpires() {
	s.put(2)
	from, _ := s.open()
	got := s.fetch(from, 2)
	s.ack(from, got[0])
	s.pass(s.o.Lease)
	again := s.fetch(from, 1)
	if again[0].Transaction.ID() != got[1].Transaction.ID() {
		s.Errorf("%s came again instead of %s", again[0].Transaction.ID(), got[1].Transaction.ID())
	}
	s.ack(from, again...)
}

func (s *source) expiredThenSettled() {
	s.put(1)
	from, _ := s.open()
	got := s.fetch(from, 1)
	s.pass(s.o.Lease)
	s.settledLate(from, got)
}

func (s *source) leaseExtended() {
	s.put(1)
	from, _ := s.open()
	e, ok := from.(pipeline.Extender)
	if !ok {
		s.Fatal("deliveries have a lease and the source is no pipeline.Extender")
	}
	every := e.ExtendEvery()
	if every <= 0 || every >= s.o.Lease {
		s.Fatalf("leases of %v are to be extended every %v", s.o.Lease, every)
	}
	got := s.fetch(from, 1)
	for passed := time.Duration(0); passed < 3*s.o.Lease; passed += every {
		if s.o.Advance != nil {
			s.o.Advance(s.T, every)
		} else if passed > 0 {
			time.Sleep(every)
		}
		for _, err := range e.Extend(s.ctx, got) {
			if err != nil {
				s.Fatalf("Extend: %v", err)
			}
		}
		if more, err := from.Fetch(s.ctx, pipeline.FetchRequest{Max: 1}); len(more) > 0 || err != nil {
			s.Fatalf("%d came while the lease was extended (%v)", len(more), err)
		}
	}
	s.ack(from, got...)
	s.none(from, 3*fetchWait)
}
