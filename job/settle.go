package job

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/verdict"
	"github.com/tenetdev/tenet/internal/wait"
)

// settler writes settlements in groups: while one group is being written, the next one gathers. If a write fails
// temporarily, it repeats the settlements until the store takes them or reports that the lease has ended.
type settler struct {
	store    Store
	timeout  time.Duration                             // of one group
	answered func(x settling, err error, at time.Time) // called once for each settlement with its final answer
	failing  func(err error)                           // called after each group, with nil or a temporary error
	room     chan struct{}                             // one token per pending settlement
	wake     wait.Signal
	drained  chan struct{} // closed when run has written everything after close

	mu      sync.Mutex
	pending []settling
	spare   []settling // an empty array to gather in
	closing bool
}

// settling is a pending settlement, with the job as it was claimed or its index in the caller's list.
type settling struct {
	Settlement
	record    *Record
	index     int
	cancelled bool // the job will not run again: its cancellation was requested
}

const (
	settleRoom  = 4096 // pending settlements; more wait in their handler's slot
	settleBatch = 1000
	settleBytes = 16 << 20 // of outputs in a group, not counting the last one: PostgreSQL takes 1 GiB in a message, and a group has a time limit

	firstPause   = 20 * time.Millisecond // before the first repetition after a failure
	longestPause = 5 * time.Second
)

func newSettler(store Store, timeout time.Duration) *settler {
	return &settler{store: store, timeout: timeout, room: make(chan struct{}, settleRoom), wake: wait.NewSignal(), drained: make(chan struct{})}
}

// Settle writes settlements in groups. It repeats those that fail temporarily, with growing waits, until the store has given
// a final answer for each or ctx ends. The errors are in the order of the list; nil means that all were written.
func Settle(ctx context.Context, store Store, list []Settlement) []error {
	var errs verdict.List
	var last error
	s := newSettler(store, DefaultLease)
	s.failing = func(err error) { last = err }
	s.answered = func(x settling, err error, _ time.Time) { errs.Set(x.index, len(list), err) }
	s.room, s.closing = nil, true
	for i, x := range list {
		s.pending = append(s.pending, settling{Settlement: x, index: i})
	}
	s.run(ctx)
	for _, x := range s.pending { // ctx has ended
		errs.Set(x.index, len(list), errors.Join(context.Cause(ctx), last))
	}
	return errs
}

// add adds a settlement. It waits only while too many are pending, and adds nothing if ctx ends before there is room.
func (s *settler) add(ctx context.Context, r *Record, x Settlement) {
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	s.pending = append(s.pending, settling{Settlement: x, record: r})
	s.mu.Unlock()
	s.wake.Send()
}

// close waits until everything is written, for at most d, and returns the number of settlements that are still pending.
func (s *settler) close(d time.Duration) (left int) {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.wake.Send()
	if wait.Closed(s.drained, d) {
		return 0
	}
	return len(s.room)
}

// run writes groups until it is closed and everything is written, or until ctx ends.
func (s *settler) run(ctx context.Context) {
	backoff := wait.Backoff{Min: firstPause, Max: longestPause}
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
			backoff.Reset()
			s.reuse(group)
			continue
		}
		s.mu.Lock()
		s.pending = append(again, s.pending...)
		s.mu.Unlock()
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}

func (s *settler) take() (group []settling, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for bytes := 0; n < min(len(s.pending), settleBatch) && bytes < settleBytes; n++ {
		bytes += len(s.pending[n].Output)
	}
	switch group = s.pending; {
	case len(group) > n:
		group, s.pending = group[:n:n], group[n:]
	case len(group) > 0:
		s.pending, s.spare = s.spare, nil
	}
	return group, s.closing
}

// reuse makes the array of a group that was written the next one to gather in.
func (s *settler) reuse(group []settling) {
	clear(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = group[:0]
}

// write settles a group and returns the settlements to repeat.
func (s *settler) write(ctx context.Context, group []settling) (again []settling) {
	list := lists.Map(group, func(x settling) Settlement { return x.Settlement })
	// A store may have written a settlement although it did not answer in time; repeating the settlement is safe.
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	at := time.Now() // read before another worker can claim the job again
	errs := s.store.Settle(limited, list)
	cancel()
	var failed error
	for i, x := range group {
		var err error
		if errs != nil {
			err = errs[i]
		}
		if err != nil && !IsFinal(err) {
			failed = err
			again = append(again, x)
			continue
		}
		if errors.Is(err, ErrCancelRequested) {
			x.cancelled, err = true, nil
		}
		s.answered(x, err, at)
		if s.room != nil {
			<-s.room
		}
	}
	if ctx.Err() == nil {
		s.failing(failed)
	}
	return again
}

// IsFinal reports whether a store's error for a settlement or an extension leaves nothing to repeat: the request was refused for good or,
// with ErrCancelRequested, carried out.
func IsFinal(err error) bool {
	for _, known := range []error{ErrNotFound, ErrNotRunning, ErrLeaseExpired, ErrFenced, ErrConflict, ErrClosed, ErrCancelRequested} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, ok := errors.AsType[*DurationError](err)
	return ok
}
