package sqlite

import (
	"context"
	"errors"
	"sync"
)

// maxReaders bounds the connections that read at the same time. Further readers wait for one of them, so that the rest of the pool is left
// for the writer and for transactions.
const maxReaders = 6

// readers are the connections for reading.
type readers struct {
	turns chan struct{} // has an element for each connection in use

	mu     sync.Mutex // guards both
	free   []*session
	closed bool
}

// take returns a free session, or nil.
func (r *readers) take() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.free) - 1
	if last < 0 {
		return nil
	}
	s := r.free[last]
	r.free = r.free[:last]
	return s
}

// give keeps a session for the next reader. It returns false if the readers are closed.
func (r *readers) give(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.free = append(r.free, s)
	return true
}

func (r *readers) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, s := range r.free {
		errs = append(errs, s.close())
	}
	r.free = nil
	return errors.Join(errs...)
}

// viewed returns what f reads in a view.
func viewed[T any](ctx context.Context, s *Jobs, what string, f func(q querier) (T, error)) (x T, err error) {
	err = s.view(ctx, what, func(q querier) (err error) {
		x, err = f(q)
		return err
	})
	return x, err
}

// view runs f on a reader's connection, over one state of the file.
func (s *Jobs) view(ctx context.Context, what string, f func(q querier) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	select {
	case s.db.readers.turns <- struct{}{}:
		defer func() { <-s.db.readers.turns }()
	case <-ctx.Done():
		return s.db.wrap(what, ctx.Err())
	}
	r := s.db.readers.take()
	if r == nil {
		conn, err := s.db.connect(ctx)
		if err != nil {
			return s.db.wrap(what, err)
		}
		r = newSession(ctx, conn)
	}
	r.ctx = ctx
	err := s.db.patiently(ctx, func() error { // others can refuse only the first statement, before f has read anything
		r.rollback()
		err := r.begin(`BEGIN`)
		if err == nil {
			err = f(r)
		}
		return err
	})
	if err == nil {
		err = r.commit()
	}
	if err != nil || !s.db.readers.give(r) { // an interrupted connection is not used again
		r.rollback()
		_ = r.close()
	}
	return s.db.wrap(what, err)
}
