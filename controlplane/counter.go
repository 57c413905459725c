package controlplane

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/striped"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/rollout"
)

// counter counts what calls do under each revision, between two reports. Calls on different goroutines use different stripes,
// so that they rarely wait for each other.
type counter struct {
	mechanisms *mechanisms
	pipelines  *pipelines
	trial      trial
	current    atomic.Pointer[epoch] // nil while no revision is in force

	mu    sync.Mutex // guards ended
	ended []*epoch   // that have not been reported yet
}

// epoch is the time for which one revision is in force.
type epoch struct {
	revision int64
	since    time.Time
	stripes  [striped.Stripes]stripe
}

type stripe struct {
	mu       sync.Mutex
	counters rollout.Counters
	_        [32]byte // the next stripe's lock is on another cache line
}

// begin starts the epoch of a revision.
func (c *counter) begin(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current.Load()
	if old != nil && old.revision == revision {
		return
	}
	c.current.Store(&epoch{revision: revision, since: time.Now()})
	if old != nil {
		c.ended = append(c.ended, old)
		c.ended = c.ended[max(0, len(c.ended)-protocol.MaxRevisions+1):] // the oldest ones are of no use to a rollout
	}
}

// Observe implements observe.Observer.
func (c *counter) Observe(_ context.Context, e *observe.Event) {
	c.note(e)
	now := c.current.Load()
	if now == nil {
		return
	}
	switch e.Type {
	case observe.CallEnded:
		t := e.Timeline
		if e.Policy == nil || t == nil || t.Start.Before(now.since) { // it began under another revision
			return
		}
		// An attempt of a stored job is a call of its own, which the attempts before it do not belong to.
		extra := min(t.Ran()-1, len(t.Attempts))
		s := &now.stripes[striped.Own()]
		s.mu.Lock()
		s.counters.Observe(t.End.Sub(t.Start), extra, t.Failed())
		s.mu.Unlock()
	case observe.CircuitChanged:
		if e.Circuit != nil && e.Circuit.To == "open" {
			s := &now.stripes[striped.Own()]
			s.mu.Lock()
			s.counters.Openings++
			s.mu.Unlock()
		}
	}
}

// note keeps what an event says of mechanisms and pipelines.
func (c *counter) note(e *observe.Event) {
	step := e.Work.Surface == policy.SurfaceStep
	switch {
	case e.Type == observe.AttemptEnded && e.Attempt != nil && e.Attempt.Denied:
		c.mechanisms.denied(e)
	case e.Type == observe.Decided && e.Decision != nil:
		c.trial.count(e)
	case e.Type == observe.CircuitChanged && e.Circuit != nil:
		c.mechanisms.changed(e)
	case e.Type == observe.Flowed && e.Flow != nil:
		c.pipelines.of(e).flow(e.Flow)
	case step && e.Type == observe.AttemptEnded && e.Attempt != nil && e.Attempt.RetryIndex > 0:
		c.pipelines.of(e).retries.Add(1)
	case step && e.Type == observe.CallEnded && e.Work.Key.Name == observe.StepRun:
		c.pipelines.of(e).end()
	}
}

// take returns what was counted since the last call of take, by revision.
func (c *counter) take() []protocol.RevisionCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.ended
	if now := c.current.Load(); now != nil {
		list = append(list, now)
	}
	c.ended = nil
	var out []protocol.RevisionCounters
	for _, e := range list {
		if sum := e.take(); sum.Calls > 0 || sum.Openings > 0 {
			out = append(out, protocol.RevisionCounters{Revision: e.revision, Counters: sum})
		}
	}
	return out
}

func (e *epoch) take() rollout.Counters {
	var sum rollout.Counters
	for i := range e.stripes {
		s := &e.stripes[i]
		s.mu.Lock()
		counted := s.counters
		s.counters = rollout.Counters{}
		s.mu.Unlock()
		sum.Add(counted)
	}
	return sum
}
