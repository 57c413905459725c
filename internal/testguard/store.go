package testguard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// ErrDown is the error of a store that is down.
var ErrDown = errors.New("testguard: the store is down")

// Store is a minimal store: the pure functions of package idempotency under a lock. A test can make its methods fail.
type Store struct {
	mu         sync.Mutex
	records    map[idempotency.ID]*idempotency.Record
	beginDown  bool
	settleDown bool
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{records: map[idempotency.ID]*idempotency.Record{}} }

// Fail says whether Begin and Settle fail from now on.
func (s *Store) Fail(begin, settle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginDown, s.settleDown = begin, settle
}

// Records returns all records.
func (s *Store) Records() []idempotency.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]idempotency.Record, 0, len(s.records))
	for _, r := range s.records {
		list = append(list, *r)
	}
	return list
}

// Change changes all records, as other processes and operators may.
func (s *Store) Change(change func(*idempotency.Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		change(r)
	}
}

// Begin implements idempotency.Store.
func (s *Store) Begin(ctx context.Context, req idempotency.BeginRequest) (idempotency.Begun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beginDown {
		return idempotency.Begun{}, ErrDown
	}
	b, write := idempotency.Begin(s.records[req.ID], req, time.Now())
	if write {
		kept := b.Record
		s.records[req.ID] = &kept
	}
	return b, ctx.Err()
}

// Renew implements idempotency.Store.
func (s *Store) Renew(_ context.Context, c idempotency.Claim, lease time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := idempotency.Renew(s.records[c.ID], c, lease, time.Now())
	if err == nil {
		s.records[c.ID] = &next
	}
	return err
}

// Settle implements idempotency.Store.
func (s *Store) Settle(_ context.Context, c idempotency.Claim, x idempotency.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settleDown {
		return ErrDown
	}
	next, _, err := idempotency.Settle(s.records[c.ID], c, x, time.Now())
	if err == nil {
		s.records[c.ID] = &next
	}
	return err
}

// Get implements idempotency.Store.
func (s *Store) Get(_ context.Context, id idempotency.ID) (idempotency.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[id]; r != nil && !r.Expired(time.Now()) {
		return *r, nil
	}
	return idempotency.Record{}, idempotency.ErrNotFound
}
