package memory

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

var _ job.Limiter = (*Jobs)(nil)

// gate holds the limits of the store, their buckets, and the jobs that wait for places.
type gate struct {
	limits  []job.StoredLimit // sorted
	inForce *job.Gate
	lastID  int64
	buckets map[string]*job.Bucket
	lines   map[string]*pile     // by bucket
	due     timeHeap[string]     // when buckets are to be looked at; a bucket may be in it more than once
	dueAt   map[string]time.Time // the time that counts of those at which a bucket is in due
	events  job.GateEvents       // since the gate was last tended
}

func newGate() gate {
	return gate{inForce: job.NewGate(nil), dueAt: map[string]time.Time{}, buckets: map[string]*job.Bucket{}, lines: map[string]*pile{}}
}

// gated is what an entry knows of its limits.
type gated struct {
	entrant job.Entrant // while the job waits for places
	places  []string    // that the job holds
}

// pass notes what a change of an entry's state means for its places. A job with limits that has become ready waits at the gate
// until it is tended.
func (s *Jobs) pass(e *entry) {
	v := &s.gate.events
	switch from := e.was; {
	case from == e.State:
		return
	case e.State == job.Running:
		v.Start(e.places, e.ClaimedAt)
		return
	default:
		e.places = v.Leave(from, e.State, e.entrant.Line, e.places)
	}
	if e.entrant.Line != "" {
		e.entrant, e.WaitsFor = job.Entrant{}, ""
	}
	if e.State == job.Ready && (s.gate.inForce.Bounds(e.Queue, e.Type) || len(e.places) > 0) {
		s.arrive(e)
	}
}

// arrive makes an entry wait at the gate.
func (s *Jobs) arrive(e *entry) {
	s.gate.events.Arrived = append(s.gate.events.Arrived, s.gate.inForce.Entrant(e.Record, e.places))
	e.State = job.Waiting
}

// leave tends the gate and unlocks the store.
func (s *Jobs) leave() {
	if !s.closed {
		s.tend(s.now())
	}
	s.mu.Unlock()
}

// tend gives free places to those who come next.
func (s *Jobs) tend(now time.Time) {
	g := &s.gate
	for len(g.due) > 0 && !g.due[0].at.After(now) {
		if d := heap.Pop(&g.due).(timed[string]); g.dueAt[d.value].Equal(d.at) { // not one that was put off
			delete(g.dueAt, d.value)
			g.events.Touched = append(g.events.Touched, d.value)
		}
	}
	for !g.events.Empty() {
		events := g.events
		g.events = job.GateEvents{}
		done, _ := g.inForce.Tend([]job.GateEvents{events}, s, now) // reading does not fail
		for _, e := range done.Lined {
			s.enlist(e)
		}
		for _, e := range done.Admitted {
			s.admit(e)
		}
		for _, b := range done.Buckets {
			s.keep(b, now)
		}
		g.events.Touched = done.More
	}
}

// enlist puts an entry in the line of a bucket.
func (s *Jobs) enlist(to *job.Entrant) {
	e := s.jobs.byID[to.ID]
	e.lift()
	e.State, e.entrant, e.places, e.WaitsFor = job.Waiting, *to, to.Holds, s.gate.inForce.WaitsFor(to.Line)
	line := s.gate.lines[to.Line]
	if line == nil {
		line = newPile(func(a, b *entry) bool { return a.entrant.Before(&b.entrant) })
		s.gate.lines[to.Line] = line
	}
	line.add(e)
	s.count(e)
}

// admit makes an entry ready.
func (s *Jobs) admit(to *job.Entrant) {
	e := s.jobs.byID[to.ID]
	e.lift()
	e.State, e.entrant, e.places, e.WaitsFor = job.Ready, job.Entrant{}, to.Needs, ""
	s.count(e)
	s.jobs.line(e.Queue, e.Type).add(e)
	s.work.Ring()
}

// keep stores the state of a bucket while there is one.
func (s *Jobs) keep(b *job.Bucket, now time.Time) {
	if b.Waiting == 0 {
		delete(s.gate.lines, b.Name)
	}
	if b.Idle(now) {
		delete(s.gate.buckets, b.Name)
		return
	}
	s.gate.buckets[b.Name] = b
	if at := s.gate.inForce.Due(b, now); !at.IsZero() && !s.gate.dueAt[b.Name].Equal(at) {
		s.gate.dueAt[b.Name] = at
		heap.Push(&s.gate.due, timed[string]{at, b.Name})
	}
}

// Buckets implements job.GateStore.
func (s *Jobs) Buckets(names []string) (found []*job.Bucket, err error) {
	for _, name := range names {
		if b := s.gate.buckets[name]; b != nil {
			found = append(found, b)
		}
	}
	return found, nil
}

// Lines implements job.GateStore.
func (s *Jobs) Lines(first map[string]int) (list []*job.Entrant, err error) {
	for name, n := range first {
		line := s.gate.lines[name]
		var taken []*entry
		for e := line.first(); e != nil && len(taken) < n; e = line.first() {
			line.remove(e)
			taken = append(taken, e)
			found := e.entrant
			list = append(list, &found)
		}
		for _, e := range taken {
			line.add(e)
		}
	}
	return list, nil
}

// Limits implements job.Limiter.
func (s *Jobs) Limits(ctx context.Context) ([]job.LimitState, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []job.LimitState
	for _, l := range s.gate.limits {
		l.Document, l.Setting = cloneLimit(l.Document), cloneLimit(l.Setting)
		list = append(list, l.LimitState)
	}
	return list, nil
}

func cloneLimit(l *policy.JobLimit) *policy.JobLimit {
	if l == nil {
		return nil
	}
	c := *l
	c.Key = slices.Clone(l.Key)
	return &c
}

// SetLimit implements job.Limiter. Its cost grows with the number of jobs in the store when it changes the buckets of jobs or lowers a
// number.
func (s *Jobs) SetLimit(ctx context.Context, setting job.LimitSetting) error {
	if err := setting.Check(); err != nil {
		return err
	}
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	changes, err := job.ApplySetting(s.gate.limits, setting, s.gate.nextID)
	if err != nil {
		return err
	}
	s.changeLimits(changes)
	return nil
}

// PublishLimits implements job.Limiter.
func (s *Jobs) PublishLimits(ctx context.Context, scopes []policy.LimitScope) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.changeLimits(job.ApplyDocument(s.gate.limits, scopes, s.gate.nextID))
	return nil
}

func (g *gate) nextID() int64 {
	g.lastID++
	return g.lastID
}

func (s *Jobs) changeLimits(c job.LimitChanges) {
	g := &s.gate
	g.limits = c.Apply(g.limits)
	g.inForce = job.NewGate(g.limits)
	for _, id := range c.Touch {
		prefix := g.inForce.Prefix(id)
		for name := range g.lines {
			if strings.HasPrefix(name, prefix) {
				g.events.Touched = append(g.events.Touched, name)
			}
		}
	}
	if len(c.Gate) == 0 {
		return
	}
	for _, e := range s.jobs.byID {
		if slices.ContainsFunc(c.Gate, func(n job.LimitName) bool { return n.Bounds(e.Record) }) {
			s.again(e)
		}
	}
}

// again gives a job its buckets anew.
func (s *Jobs) again(e *entry) {
	v := &s.gate.events
	switch {
	case e.State == job.Running:
		needs := s.gate.inForce.Needs(e.Record)
		v.Replace(e.places, needs)
		e.places = needs
	case e.State == job.Ready:
		v.Dropped, e.places = append(v.Dropped, e.places...), nil
		e.lift()
		s.arrive(e)
		s.count(e)
	case e.State == job.Waiting && e.entrant.Line != "":
		v.Left = append(v.Left, e.entrant.Line)
		e.lift()
		e.entrant = job.Entrant{}
		s.arrive(e)
	}
}

// LimitUse implements job.Limiter.
func (s *Jobs) LimitUse(ctx context.Context, name job.LimitName, n int) (use job.LimitUse, err error) {
	if _, err := s.enter(ctx); err != nil {
		return use, err
	}
	defer s.mu.Unlock()
	prefix, err := s.gate.inForce.PrefixOf(s.gate.limits, name)
	if err != nil || prefix == "" {
		return use, err
	}
	for bucket, b := range s.gate.buckets {
		if strings.HasPrefix(bucket, prefix) {
			use.Add(b, n)
		}
	}
	use.Cut(n)
	return use, nil
}
