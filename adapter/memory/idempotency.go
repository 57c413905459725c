package memory

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// Idempotency is an idempotency.Store and idempotency.Admin. It is safe for concurrent use. New claims remove expired records
// little by little; a record may use memory for up to twice its time to live.
type Idempotency struct {
	hash  func(idempotency.ID) uint64
	spare sync.Pool // of *stored, cleared

	door                                // guards the fields below
	records  map[uint64]*stored         // by hash: much smaller than by ID, and faster for it
	collided map[idempotency.ID]*stored // records with the same hash as another record
	lines    [64]*stored                // see join
	used     uint64                     // a bit for each line that is not nil
}

// stored is a record and its place in a line, or nil if it is not in a line.
type stored struct {
	idempotency.Record
	hash       uint64
	prev, next *stored
}

var (
	_ idempotency.Store = (*Idempotency)(nil)
	_ idempotency.Admin = (*Idempotency)(nil)
)

var errClosed = errors.New("memory: closed")

func newIdempotency() *Idempotency {
	seed := maphash.MakeSeed()
	return &Idempotency{
		hash:    func(id idempotency.ID) uint64 { return maphash.Comparable(seed, id) },
		spare:   sync.Pool{New: func() any { return new(stored) }},
		records: map[uint64]*stored{}, collided: map[idempotency.ID]*stored{},
	}
}

// enter locks the store for an operation at the time that it returns.
func (s *Idempotency) enter(ctx context.Context) (time.Time, error) {
	if err := s.lock(ctx, errClosed); err != nil {
		return time.Time{}, err
	}
	return time.Now(), nil
}

// current returns the record of an ID, or nil.
func (s *Idempotency) current(id idempotency.ID) (*stored, *idempotency.Record) {
	e := s.records[s.hash(id)]
	if e == nil || e.ID != id {
		e = s.collided[id]
	}
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
		s.write(e, &begun.Record)
		s.sweep(now, 2) // a claim adds at most one record, so the backlog shrinks
	}
	own(&begun.Record)
	return begun, nil
}

// Renew implements idempotency.Store.
func (s *Idempotency) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	return s.change(ctx, c.ID, func(r *idempotency.Record, now time.Time) (idempotency.Record, bool, error) {
		next, err := idempotency.Renew(r, c, lease, now)
		return next, true, err
	})
}

// Settle implements idempotency.Store.
func (s *Idempotency) Settle(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	return s.change(ctx, c.ID, func(r *idempotency.Record, now time.Time) (idempotency.Record, bool, error) {
		return idempotency.Settle(r, c, settlement, now)
	})
}

// step is one of the pure functions of package idempotency: the next version of a record. r is nil if there is none.
type step func(r *idempotency.Record, now time.Time) (next idempotency.Record, write bool, err error)

func (s *Idempotency) change(ctx context.Context, id idempotency.ID, f step) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, r := s.current(id)
	next, write, err := f(r, now)
	if err != nil || !write {
		return err
	}
	own(&next)
	s.write(e, &next)
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

// List implements idempotency.Admin.
func (s *Idempotency) List(ctx context.Context, f idempotency.Filter, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []idempotency.Record
	add := func(e *stored) {
		if e.Compare(after) > 0 && f.Match(&e.Record, now) {
			r := e.Record
			r.Result = nil
			own(&r)
			found = append(found, r)
		}
	}
	for _, e := range s.records {
		add(e)
	}
	for _, e := range s.collided {
		add(e)
	}
	slices.SortFunc(found, func(a, b idempotency.Record) int { return a.Compare(b.ID) })
	return found[:min(len(found), max(limit, 0))], nil
}

// Resolve implements idempotency.Admin.
func (s *Idempotency) Resolve(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	return s.change(ctx, c.ID, func(r *idempotency.Record, now time.Time) (idempotency.Record, bool, error) {
		next, err := idempotency.Resolve(r, c, settlement, now)
		return next, true, err
	})
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
	s.closed, s.records, s.collided, s.lines, s.used = true, nil, nil, [64]*stored{}, 0
}

// write stores a record over e, or as a new one where e is nil.
func (s *Idempotency) write(e *stored, r *idempotency.Record) {
	if e == nil {
		e = s.add(r.ID)
	}
	e.leave()
	e.Record = *r
	if !r.Expires.IsZero() {
		s.join(e)
	}
}

// add makes room for the record of an ID without one.
func (s *Idempotency) add(id idempotency.ID) *stored {
	e := s.spare.Get().(*stored)
	e.hash = s.hash(id)
	if s.records[e.hash] == nil {
		s.records[e.hash] = e
	} else {
		s.collided[id] = e
	}
	return e
}

func (s *Idempotency) remove(e *stored) {
	if s.records[e.hash] == e {
		delete(s.records, e.hash)
	} else {
		delete(s.collided, e.ID)
	}
	e.leave()
	*e = stored{}
	s.spare.Put(e)
}

// join puts a record at the end of the line for its time to live, rounded to a power of two. The records of a line expire
// nearly in order, so a sweep only looks at the first. A line is a ring around an empty record.
func (s *Idempotency) join(e *stored) {
	class := bits.Len64(uint64(e.Expires.Sub(e.Completed)))
	ring := s.lines[class]
	if ring == nil {
		ring = &stored{}
		ring.prev, ring.next = ring, ring
		s.lines[class] = ring
		s.used |= 1 << class
	}
	e.prev, e.next = ring.prev, ring
	e.prev.next, ring.prev = e, e
}

// leave removes a record from its line, if it is in one.
func (e *stored) leave() {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// sweep removes up to limit expired records.
func (s *Idempotency) sweep(now time.Time, limit int) (n int) {
	for used := s.used; used != 0; used &= used - 1 {
		ring := s.lines[bits.TrailingZeros64(used)]
		for ; n < limit && ring.next.Expired(now); n++ { // the ring's own record never expires
			s.remove(ring.next)
		}
	}
	return n
}

// own copies a record's contents, so that the store and its caller do not see each other's changes.
func own(r *idempotency.Record) {
	if r.Result != nil {
		r.Result = bytes.Clone(r.Result)
	}
	if r.Failure != nil {
		f := *r.Failure
		r.Failure = &f
	}
}
