package tenetnats

import (
	"context"
	"sync"

	"github.com/tenetdev/tenet/retry"
)

// single keeps the hedges of a call from doing what must not be done twice at once: they wait for their primary and fail
// like it. The policy may hedge all the same; it costs a goroutine.
type single struct {
	mu        sync.Mutex // guards primaries
	primaries map[int]*primary
}

type primary struct {
	done chan struct{}
	err  error // set before done is closed
}

func (s *single) run(ctx context.Context, f func() error) error {
	a, _ := retry.AttemptFromContext(ctx)
	p := s.primaryOf(a.RetryIndex)
	if a.HedgeIndex == 0 {
		p.err = context.Canceled // what remains of a panic
		defer close(p.done)
		p.err = f()
		return p.err
	}
	select {
	case <-p.done:
		if p.err == nil {
			return context.Canceled // the group has been won
		}
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *single) primaryOf(group int) *primary {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.primaries == nil {
		s.primaries = map[int]*primary{}
	}
	if s.primaries[group] == nil {
		s.primaries[group] = &primary{done: make(chan struct{})}
	}
	return s.primaries[group]
}
