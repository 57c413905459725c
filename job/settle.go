package job

import (
	"context"
	"errors"
	"sync"
	"time"
)

// settler writes settlements in groups: while one group is being written, the next one gathers. What a store cannot take
// for a while is repeated until it is taken or the store says that the lease is over.
type settler struct {
	w       *Worker
	room    chan struct{} // one token per settlement that is on its way
	mu      sync.Mutex
	pending []settling
	closing bool
	wake    chan struct{}
	drained chan struct{} // closed when run has written everything after close
}

// settling is a settlement on its way, with the job as it was claimed.
type settling struct {
	Settlement
	record *Record
}

const (
	settleRoom  = 4096 // settlements on their way; more wait in their handler's slot
	settleBatch = 1000
)

func newSettler(w *Worker) *settler {
	return &settler{w: w, room: make(chan struct{}, settleRoom), wake: make(chan struct{}, 1), drained: make(chan struct{})}
}

// add hands a settlement over. It waits only where too many are on their way.
func (s *settler) add(r *Record, x Settlement) {
	s.room <- struct{}{}
	s.mu.Lock()
	s.pending = append(s.pending, settling{x, r})
	s.mu.Unlock()
	signal(s.wake)
}

// close waits until everything is written. A store that is down gets as long as a lease lasts: after that it would refuse.
func (s *settler) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	signal(s.wake)
	if !await(s.drained, s.w.lease) {
		s.w.log.Error("job: settlements could not be written before the leases ended; the jobs will run again", "count", len(s.room))
	}
}

// run writes groups until it is closed and everything is written, or until ctx ends.
func (s *settler) run(ctx context.Context) {
	failures := 0
	for {
		group, closing := s.take()
		if len(group) == 0 {
			if closing {
				close(s.drained)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		again := s.write(ctx, group)
		if len(again) == 0 {
			failures = 0
			continue
		}
		failures++
		s.mu.Lock()
		s.pending = append(again, s.pending...)
		s.mu.Unlock()
		if pause(ctx, failures); ctx.Err() != nil {
			return
		}
	}
}

func (s *settler) take() (group []settling, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.pending), settleBatch)
	group = s.pending[:n:n]
	if s.pending = s.pending[n:]; len(s.pending) == 0 {
		s.pending = nil
	}
	return group, s.closing
}

// write settles a group and returns what has to be repeated.
func (s *settler) write(ctx context.Context, group []settling) (again []settling) {
	list := make([]Settlement, len(group))
	for i, x := range group {
		list[i] = x.Settlement
	}
	patience, cancel := context.WithTimeout(ctx, s.w.lease) // what a store that hangs has written all the same can be repeated
	at := time.Now()                                        // before another worker can take a job up again
	errs := s.w.store.Settle(patience, list)
	cancel()
	var failed error
	for i, x := range group {
		var err error
		if errs != nil {
			err = errs[i]
		}
		switch {
		case err == nil:
			s.w.scheduled(x.Settlement)
			s.w.moved(x.record, x.Settlement, at)
			s.w.logDead(x.record, x.Settlement)
		case final(err):
			s.w.log.Warn("job: a late result was refused", "job", x.ID, "kind", x.Kind, "error", err)
		default:
			failed = err
			again = append(again, x)
			continue
		}
		s.w.forget(x.Ref)
		<-s.room
	}
	if ctx.Err() == nil {
		s.w.outage.tell("settle", failed)
	}
	return again
}

// final reports whether a store's answer will not change.
func final(err error) bool {
	for _, known := range []error{ErrNotFound, ErrNotRunning, ErrLeaseExpired, ErrFenced, ErrConflict, ErrClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, ok := errors.AsType[*DurationError](err)
	return ok
}
