package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// index lists IDs in ascending order. It is sorted when it is read, and compacted when half of its jobs are removed.
type index struct {
	ids    []string
	sorted int // how many of ids are in order
	gone   int // how many of ids belong to removed jobs or are duplicates
}

func (x *index) add(id string) {
	if x.sorted == len(x.ids) && (len(x.ids) == 0 || x.ids[len(x.ids)-1] < id) {
		x.sorted++
	}
	x.ids = append(x.ids, id)
}

// remove notes that a job was removed from jobs.
func (x *index) remove(jobs map[string]*entry) {
	x.gone++
	if x.gone <= len(x.ids)/2 {
		return
	}
	x.ids = slices.DeleteFunc(x.ids, func(id string) bool { return jobs[id] == nil })
	x.sorted, x.gone = 0, 0
}

// from returns the IDs from first on, in order, each once. Some may belong to removed jobs.
func (x *index) from(first string) []string {
	if x.sorted < len(x.ids) {
		slices.Sort(x.ids)
		x.ids = slices.Compact(x.ids)
	}
	x.sorted = len(x.ids)
	at, _ := slices.BinarySearch(x.ids, first)
	return x.ids[at:]
}

// matching returns at most limit jobs that match f and pick, with an ID above after, in the order of their IDs.
func (s *Jobs) matching(f job.Filter, after string, limit int, pick func(*entry) bool) []*entry {
	candidates := f.IDs
	if len(candidates) == 0 {
		candidates = s.jobs.order.from(after)
	} else {
		candidates = slices.Compact(slices.Sorted(slices.Values(candidates)))
	}
	var list []*entry
	for _, id := range candidates {
		if len(list) >= limit {
			break
		}
		if e := s.jobs.byID[id]; e != nil && id > after && f.Matches(e.Record) && pick(e) {
			list = append(list, e)
		}
	}
	return list
}

// Get implements job.Admin.
func (s *Jobs) Get(ctx context.Context, id string) (*job.Record, []job.Attempt, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer s.mu.Unlock()
	e := s.jobs.byID[id]
	if e == nil {
		return nil, nil, &job.NotFoundError{What: "job", ID: id}
	}
	return unleased(e.Record), e.History(slices.Clone(e.history)), nil
}

// List implements job.Admin.
func (s *Jobs) List(ctx context.Context, f job.Filter, after string, limit int) ([]*job.Record, error) {
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []*job.Record
	for _, e := range s.matching(f, after, limit, anyEntry) {
		list = append(list, unleased(e.Record))
	}
	return list, nil
}

// unleased copies a record for a reader, without its fence.
func unleased(r *job.Record) *job.Record {
	c := clone(r)
	c.Fence = 0
	return c
}

// Change implements job.Admin. It does not retry a job whose unique key now belongs to another job.
func (s *Jobs) Change(ctx context.Context, action job.Action, f job.Filter, limit int) ([]string, error) {
	if err := action.Check(); err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	var changed []string
	// A job that is retried takes its key when it is picked: a later job of the same call then finds the key taken.
	picked := s.matching(f, "", limit, func(e *entry) bool {
		return action.Applies(e.State) && (action != job.ActionRetry || s.hold(e, now))
	})
	if action == job.ActionCancel { // all, before the end of one cancels or frees another
		for _, e := range picked {
			e.Apply(action, now)
		}
	}
	for _, e := range picked {
		if e.State == job.Waiting && e.WaitsFor == "" { // freed by this call, and on its way to the gate
			s.tend(now)
		}
		if action == job.ActionDelete {
			s.drop(e)
		} else {
			e.history = append(e.history, e.Apply(action, now)...)
			if action == job.ActionRetry && e.node != nil && e.node.unmet > 0 {
				e.Hold()
			}
			s.place(e)
			if e.State == job.Running {
				s.cancels.Ring()
			}
		}
		changed = append(changed, e.ID)
	}
	return changed, nil
}

// hold gives a retried job its unique key again, and reports whether the key was free. It does not start a new window.
func (s *Jobs) hold(e *entry, now time.Time) bool {
	key := uniqueKey{e.Queue, e.UniqueKey}
	if e.UniqueKey == "" || !e.living {
		return true
	}
	if id, held := s.jobs.unique.holder(key, now); held && id != e.ID {
		return false
	}
	s.jobs.unique.hold(key, e.ID, 0, now)
	return true
}

// Queues implements job.Admin.
func (s *Jobs) Queues(ctx context.Context) ([]job.QueueState, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.queues), func(a, b job.QueueState) int { return cmp.Compare(a.Queue, b.Queue) }), nil
}

// SetQueue implements job.Admin.
func (s *Jobs) SetQueue(ctx context.Context, q job.QueueState) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := q.Check(); err != nil {
		return err
	}
	q.Reason, q.Until, q.Actor = job.CleanText(q.Reason), job.Stamp(q.Until), job.CleanText(q.Actor)
	s.queues[q.Queue] = q
	s.work.Ring()
	return nil
}

// Notify implements job.Notifier. The channel is closed when ctx ends or the store is closed.
func (s *Jobs) Notify(ctx context.Context) (<-chan struct{}, error) { return s.listen(ctx, &s.work) }

// NotifyCancel implements job.CancelNotifier. The channel is closed when ctx ends or the store is closed.
func (s *Jobs) NotifyCancel(ctx context.Context) (<-chan struct{}, error) {
	return s.listen(ctx, &s.cancels)
}

func (s *Jobs) listen(ctx context.Context, to *wait.Bell) (<-chan struct{}, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return to.Listen(ctx), nil
}

// Lead implements job.Elector.
func (s *Jobs) Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error) {
	if err := job.CheckLease(ttl); err != nil {
		return false, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if s.crew.leader != worker && now.Before(s.crew.leads) {
		return false, nil
	}
	s.crew.leader, s.crew.leads = worker, now.Add(ttl)
	return true, nil
}
