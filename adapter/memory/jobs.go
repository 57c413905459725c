package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/verdict"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Jobs is a job.Store, job.Admin, job.Notifier, job.Elector, job.Registry, job.Searcher and job.Finisher. It is safe for concurrent use.
type Jobs struct {
	door                   // guards all below
	world    virtual.World // nil outside of a simulation
	jobs     backlog
	queues   map[string]job.QueueState
	stats    map[string]*job.QueueStats // without the oldest
	deaths   map[cause]*deaths
	work     wait.Bell // rings when work becomes ready
	cancels  wait.Bell // rings when the cancellation of a running job is requested
	crew     crew
	redrives map[string]*redrive // by ID
	flows    flows
	events   relayed
	gate     gate
	settings settings
}

// backlog holds every job, in the place where the operations look for it.
type backlog struct {
	byID      map[string]*entry
	order     index
	ready     map[string]map[string]*line // by queue and type; each pile holds the jobs of all queues
	scheduled *pile                       // by run_at
	leases    *pile                       // by expiry
	finished  map[job.State]*pile
	unique    uniques
}

// entry is a stored job. It is in the pile of its state or, while it is ready, in a run.
type entry struct {
	*job.Record
	gated
	history []job.Attempt
	was     job.State // as it is counted; "" for not yet
	rows    int       // of the history, that are counted
	living  bool      // it holds its unique key, if any, until it ends, not for a window
	pile    *pile
	run     *run
	index   int       // in the pile or run
	node    *flowNode // of a job of a flow
	deaths  *deaths   // the group of a dead job
}

var (
	_ job.Store    = (*Jobs)(nil)
	_ job.Admin    = (*Jobs)(nil)
	_ job.Notifier = (*Jobs)(nil)
	_ job.Elector  = (*Jobs)(nil)
	_ job.Registry = (*Jobs)(nil)
	_ job.Searcher = (*Jobs)(nil)
	_ job.Relay    = (*Jobs)(nil)

	_ job.SettingStore = (*Jobs)(nil)

	_ job.CancelNotifier = (*Jobs)(nil)
)

func newJobs() *Jobs {
	return &Jobs{
		jobs:     newBacklog(),
		queues:   map[string]job.QueueState{},
		crew:     crew{announced: map[string]announcement{}},
		flows:    newFlows(),
		stats:    map[string]*job.QueueStats{},
		deaths:   map[cause]*deaths{},
		redrives: map[string]*redrive{},
		gate:     newGate(),
	}
}

func newBacklog() backlog {
	byEnd := func(a, b *entry) bool { return a.FinishedAt.Before(b.FinishedAt) }
	return backlog{
		byID:      map[string]*entry{},
		ready:     map[string]map[string]*line{},
		scheduled: newPile(func(a, b *entry) bool { return a.RunAt.Before(b.RunAt) }),
		leases:    newPile(func(a, b *entry) bool { return a.LeaseUntil.Before(b.LeaseUntil) }),
		finished:  map[job.State]*pile{job.Completed: newPile(byEnd), job.Dead: newPile(byEnd), job.Cancelled: newPile(byEnd)},
		unique:    uniques{holders: map[uniqueKey]holder{}},
	}
}

// enter locks the store for an operation at the time that it returns.
func (s *Jobs) enter(ctx context.Context) (now time.Time, err error) {
	if err := s.lock(ctx, job.ErrClosed); err != nil {
		return time.Time{}, err
	}
	return s.now(), nil
}

// now returns the time of the store.
func (s *Jobs) now() time.Time {
	if s.world != nil {
		return job.Stamp(virtual.Epoch.Add(s.world.Now()))
	}
	return job.Stamp(time.Now())
}

// Enqueue implements job.Store.
func (s *Jobs) Enqueue(ctx context.Context, list []job.Insert) ([]job.Receipt, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	receipts := make([]job.Receipt, len(list))
	added := make([]*entry, 0, len(list))
	for i, in := range list {
		key := uniqueKey{in.Queue, in.UniqueKey}
		if id, held := s.jobs.unique.holder(key, now); in.UniqueKey != "" && held {
			receipts[i] = job.Receipt{ID: id, Existed: true}
			continue
		}
		if _, exists := s.jobs.byID[in.ID]; exists {
			for _, e := range added {
				s.jobs.forget(e)
			}
			return nil, fmt.Errorf("%w: a job with the ID %s exists; give every job its own", job.ErrConflict, in.ID)
		}
		e := &entry{Record: clone(job.New(in, now)), living: in.UniqueFor <= 0}
		if in.UniqueKey != "" {
			s.jobs.unique.hold(key, in.ID, in.UniqueFor, now)
		}
		s.jobs.byID[in.ID] = e
		s.jobs.order.add(in.ID)
		added = append(added, e)
		receipts[i] = job.Receipt{ID: in.ID, Durability: job.InMemory}
	}
	for _, e := range added {
		s.place(e)
	}
	return receipts, nil
}

// forget takes back an entry that an abandoned Enqueue added.
func (b *backlog) forget(e *entry) {
	delete(b.unique.holders, uniqueKey{e.Queue, e.UniqueKey})
	delete(b.byID, e.ID)
	b.order.remove(b.byID)
}

// place moves an entry to the pile of its state, frees the unique key of a job that has ended, and signals ready work. Call
// it right after every change: a pile tolerates one entry that is out of order, as long as that entry is removed next.
func (s *Jobs) place(e *entry) {
	e.lift()
	s.pass(e)
	was := e.was
	s.count(e)
	switch e.State {
	case job.Waiting: // nothing looks for it but its ID, or the line that it enters once the gate is tended, before the lock is released
	case job.Ready:
		s.jobs.line(e.Queue, e.Type).add(e)
		s.work.Ring()
	case job.Scheduled:
		s.jobs.scheduled.add(e)
	case job.Running:
		s.jobs.leases.add(e)
	case job.Completed, job.Dead, job.Cancelled:
		if e.node == nil {
			s.jobs.finished[e.State].add(e)
		} else {
			s.flows.finished[e.State].add(e)
		}
		s.jobs.unique.release(uniqueKey{e.Queue, e.UniqueKey}, e.ID)
	}
	s.flows.moved(s, e, was)
}

// line returns the line of a queue and type.
func (b *backlog) line(queue, jobType string) *line {
	types := b.ready[queue]
	if types == nil {
		types = map[string]*line{}
		b.ready[queue] = types
	}
	if types[jobType] == nil {
		types[jobType] = newLine()
	}
	return types[jobType]
}

// waiting returns the lines of a queue with jobs of the types, or of all types if none are given.
func (b *backlog) waiting(queue string, types []string) (found lines) {
	if len(types) == 0 {
		types = slices.Collect(maps.Keys(b.ready[queue]))
	}
	for _, name := range types {
		if l := b.ready[queue][name]; l != nil && l.first() != nil {
			found = append(found, l)
		}
	}
	return found
}

// lift removes an entry from its pile or run.
func (e *entry) lift() {
	switch {
	case e.pile != nil:
		e.pile.remove(e)
	case e.run != nil:
		e.run.remove(e)
	}
}

// promote makes at most limit due jobs ready.
func (s *Jobs) promote(limit int, now time.Time) (n int) {
	for e := s.jobs.scheduled.first(); n < limit && e != nil && e.Due(now); e = s.jobs.scheduled.first() {
		e.State = job.Ready
		s.place(e)
		n++
	}
	return n
}

// Claim implements job.Store.
func (s *Jobs) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	s.promote(len(s.jobs.byID), now)
	s.tend(now)
	var claimed []*job.Record
	for _, slots := range c.Queues {
		if s.queues[slots.Queue].Holds(now) {
			continue
		}
		waiting := s.jobs.waiting(slots.Queue, c.Types)
		for e := waiting.first(); slots.Free > 0 && e != nil; e = waiting.first() {
			e.Claim(c.Worker, c.Lease, now)
			s.place(e)
			claimed = append(claimed, clone(e.Record))
			slots.Free--
		}
	}
	return claimed, nil
}

// Extend implements job.Store.
func (s *Jobs) Extend(ctx context.Context, leases []job.Ref, d time.Duration) []error {
	err := job.CheckLease(d)
	if err != nil {
		return slices.Repeat([]error{err}, len(leases))
	}
	now, err := s.enter(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(leases))
	}
	defer s.mu.Unlock()
	var errs verdict.List
	for i, lease := range leases {
		errs.Set(i, len(leases), s.extend(lease, d, now))
	}
	return errs
}

func (s *Jobs) extend(lease job.Ref, d time.Duration, now time.Time) error {
	e := s.jobs.byID[lease.ID]
	if e == nil {
		return job.ErrNotFound
	}
	if err := e.Holds(lease, now); err != nil {
		return err
	}
	e.LeaseUntil = job.Stamp(now.Add(d))
	s.place(e)
	if e.CancelRequested() {
		return job.ErrCancelRequested
	}
	return nil
}

// Settle implements job.Store.
func (s *Jobs) Settle(ctx context.Context, list []job.Settlement) []error {
	now, err := s.enter(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(list))
	}
	defer s.leave()
	var errs verdict.List
	for i, settlement := range list {
		errs.Set(i, len(list), s.settle(settlement, now))
	}
	return errs
}

func (s *Jobs) settle(settlement job.Settlement, now time.Time) error {
	if err := settlement.Check(); err != nil {
		return err
	}
	e := s.jobs.byID[settlement.ID]
	if e == nil {
		return job.ErrNotFound
	}
	err := e.Holds(settlement.Ref, now)
	switch {
	case err == nil:
		settlement.Output = bytes.Clone(settlement.Output)
		e.history = append(e.history, e.Settle(settlement, now)...)
		s.place(e)
	case !e.Repeats(e.history, settlement):
		return err
	}
	if e.CancelledBy(settlement) {
		return job.ErrCancelRequested
	}
	return nil
}

// Maintain implements job.Store.
func (s *Jobs) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return job.Maintained{}, err
	}
	defer s.leave()
	done := job.Maintained{Promoted: s.promote(m.Limit, now), Now: now}
	for e := s.jobs.leases.first(); done.Reclaimed < m.Limit && e != nil && !now.Before(e.LeaseUntil); e = s.jobs.leases.first() {
		e.history = append(e.history, e.Lose(now)...)
		s.place(e)
		done.Reclaimed++
		done.Lost = append(done.Lost, job.Lost{
			Ref: e.Ref(), Type: e.Type, Queue: e.Queue, Meta: maps.Clone(e.Meta), Worker: e.Worker, State: e.State, Attempts: e.Failures,
		})
	}
	for state, p := range s.jobs.finished {
		keep, listed := m.Keep[state]
		for e := p.first(); listed && done.Removed < m.Limit && e != nil && !now.Before(e.FinishedAt.Add(keep)); e = p.first() {
			s.drop(e)
			done.Removed++
		}
	}
	done.Removed += s.flows.remove(s, m, m.Limit-done.Removed, now)
	s.jobs.unique.expire(now)
	if e := s.jobs.scheduled.first(); e != nil {
		done.NextDue = e.RunAt
	}
	s.tend(now)
	if due := s.gate.due; len(due) > 0 && (done.NextDue.IsZero() || due[0].at.Before(done.NextDue)) {
		done.NextDue = due[0].at
	}
	return done, nil
}

// drop removes a job. A window of its unique key stays.
func (s *Jobs) drop(e *entry) {
	e.lift()
	s.gate.events.Leave(e.was, "", e.entrant.Line, e.places)
	*s.stats[e.Queue].Of(e.was)--
	s.revived(e)
	s.flows.dropped(s, e)
	s.jobs.unique.release(uniqueKey{e.Queue, e.UniqueKey}, e.ID)
	delete(s.jobs.byID, e.ID)
	s.jobs.order.remove(s.jobs.byID)
}

// Close implements job.Store: it ends all notifications and forgets all jobs. Closing again does nothing.
func (s *Jobs) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.work.Close()
	s.cancels.Close()
	s.jobs = backlog{}
	return nil
}

// clone copies a record with everything that it refers to.
func clone(r *job.Record) *job.Record {
	c := *r
	c.Payload, c.Output, c.Meta = bytes.Clone(r.Payload), bytes.Clone(r.Output), maps.Clone(r.Meta)
	return &c
}
