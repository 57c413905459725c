package memory

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// Idempotency is an idempotency.Store and idempotency.Admin. It is safe for concurrent use. Expired records are removed
// little by little as new claims come in.
type Idempotency struct {
	mu      sync.Mutex // guards all below
	closed  bool
	records map[idempotency.ID]*stored
	expiry  expiries // those that expire
}

// stored is a record and its place in the order of expiry, or -1.
type stored struct {
	idempotency.Record
	index int
}

var (
	_ idempotency.Store = (*Idempotency)(nil)
	_ idempotency.Admin = (*Idempotency)(nil)
)

var errClosed = errors.New("memory: closed")

func newIdempotency() *Idempotency {
	return &Idempotency{records: map[idempotency.ID]*stored{}}
}

// enter locks the store. It fails if the store is closed or ctx has ended; then nothing is locked.
func (s *Idempotency) enter(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("memory: %w", err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return time.Time{}, errClosed
	}
	return time.Now(), nil
}

// current is the record of an ID, or nil, as the pure functions want it.
func (s *Idempotency) current(id idempotency.ID) (*stored, *idempotency.Record) {
	e := s.records[id]
	if e == nil {
		return nil, nil
	}
	return e, &e.Record
}

// Begin implements idempotency.Store.
func (s *Idempotency) Begin(ctx context.Context, req idempotency.BeginRequest) (idempotency.Begun, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return idempotency.Begun{}, err
	}
	defer s.mu.Unlock()
	e, r := s.current(req.ID)
	begun, write := idempotency.Begin(r, req, now)
	if write {
		s.write(e, begun.Record)
		s.sweep(now, 2) // a claim adds at most one, so what is left behind shrinks
	}
	own(&begun.Record)
	return begun, nil
}

// Renew implements idempotency.Store.
func (s *Idempotency) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, r := s.current(c.ID)
	next, err := idempotency.Renew(r, c, lease, now)
	if err != nil {
		return err
	}
	s.write(e, next)
	return nil
}

// Settle implements idempotency.Store.
func (s *Idempotency) Settle(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, r := s.current(c.ID)
	next, write, err := idempotency.Settle(r, c, settlement, now)
	if err != nil || !write {
		return err
	}
	own(&next)
	s.write(e, next)
	return nil
}

// Get implements idempotency.Store.
func (s *Idempotency) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return idempotency.Record{}, err
	}
	defer s.mu.Unlock()
	_, r := s.current(id)
	if r == nil || r.Expired(now) {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	got := *r
	own(&got)
	return got, nil
}

// Resolve implements idempotency.Admin.
func (s *Idempotency) Resolve(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, r := s.current(c.ID)
	next, err := idempotency.Resolve(r, c, settlement, now)
	if err != nil {
		return err
	}
	own(&next)
	s.write(e, next)
	return nil
}

// Clear implements idempotency.Admin.
func (s *Idempotency) Clear(ctx context.Context, c idempotency.Claim) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, r := s.current(c.ID)
	if r == nil || r.Claim() != c || r.Live(now) {
		return idempotency.ErrFenced
	}
	s.remove(e)
	return nil
}

// Expire implements idempotency.Admin.
func (s *Idempotency) Expire(ctx context.Context, limit int) (int, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.sweep(now, limit), nil
}

func (s *Idempotency) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.records, s.expiry = true, nil, nil
}

// write stores a record over e, or as a new one where e is nil.
func (s *Idempotency) write(e *stored, r idempotency.Record) {
	if e == nil {
		e = &stored{index: -1}
		s.records[r.ID] = e
	}
	e.Record = r
	if e.index >= 0 {
		heap.Remove(&s.expiry, e.index)
	}
	if !r.Expires.IsZero() {
		heap.Push(&s.expiry, e)
	}
}

func (s *Idempotency) remove(e *stored) {
	delete(s.records, e.ID)
	if e.index >= 0 {
		heap.Remove(&s.expiry, e.index)
	}
}

// sweep removes up to limit expired records.
func (s *Idempotency) sweep(now time.Time, limit int) (n int) {
	for n < limit && len(s.expiry) > 0 && s.expiry[0].Expired(now) {
		s.remove(s.expiry[0].stored)
		n++
	}
	return n
}

// own makes a record's contents its own, so that its holder and the store's caller cannot see each other's changes.
func own(r *idempotency.Record) {
	if r.Result != nil {
		r.Result = bytes.Clone(r.Result)
	}
	if r.Failure != nil {
		f := *r.Failure
		r.Failure = &f
	}
}

// expiries is a heap of records by expiry, which lies in the heap itself because that is what it is compared by.
type expiries []expiry

type expiry struct {
	at int64
	*stored
}

func (x expiries) Len() int           { return len(x) }
func (x expiries) Less(i, j int) bool { return x[i].at < x[j].at }

func (x expiries) Swap(i, j int) {
	x[i], x[j] = x[j], x[i]
	x[i].index, x[j].index = i, j
}

// Push implements heap.Interface. It takes a record, which is what keeps it from allocating.
func (x *expiries) Push(v any) {
	e := v.(*stored)
	e.index = len(*x)
	*x = append(*x, expiry{e.Expires.UnixMicro(), e})
}

// Pop implements heap.Interface.
func (x *expiries) Pop() any {
	last := len(*x) - 1
	e := (*x)[last].stored
	(*x)[last] = expiry{}
	*x = (*x)[:last]
	e.index = -1
	return e
}
