package storetest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
)

// modelRedrive is what a store should hold of a redrive.
type modelRedrive struct {
	job.Redrive
	waiting []modelRedriven
	pending []modelRedriven // in the order of their positions
}

type modelRedriven struct {
	at    int
	id    string
	fence int64
	was   job.DeadFacts
}

// redriver returns the store as one that keeps redrives, or nil.
func (m *model) redriver() job.RedriveStepper {
	store, _ := m.s.Store.(job.RedriveStepper)
	return store
}

// plan draws a plan. Rates depend on the time.
func (m *model) plan(t *rapid.T) job.RedrivePlan {
	p := job.RedrivePlan{
		Canary: rapid.IntRange(0, 2).Draw(t, "canary"), StopShare: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "stop"),
		MaxPending: rapid.IntRange(0, 3).Draw(t, "pending"),
	}
	if p.StopShare > 0 {
		p.StopLeast = rapid.IntRange(0, 2).Draw(t, "least")
	}
	if m.s.virtual {
		p.Rate = rapid.SampledFrom([]float64{0, 0.1, 3}).Draw(t, "rate")
	}
	return p
}

func (m *model) createRedrive(t *rapid.T) {
	if m.redriver() == nil {
		return
	}
	m.maintain()
	n := job.NewRedrive{ID: newID(), Filter: job.Filter{Queue: rapid.SampledFrom(m.queues).Draw(t, "queue")}, Actor: "a", RedrivePlan: m.plan(t)}
	got, err := m.redriver().CreateRedrive(m.s.ctx, n)
	var want modelRedrive
	counts := map[job.RedriveGroup]int{}
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if r := m.jobs[id]; r.Queue == n.Filter.Queue && r.State == job.Dead {
			want.waiting = append(want.waiting, modelRedriven{at: len(want.waiting) + 1, id: id, fence: r.Fence})
			counts[job.RedriveGroup{Queue: r.Queue, Type: r.Type}]++
		}
	}
	if len(want.waiting) == 0 {
		m.s.must(err, job.ErrNotFound)
		return
	}
	m.s.must(err, nil)
	var groups []job.RedriveGroup
	for g, jobs := range counts {
		g.Jobs = jobs
		groups = append(groups, g)
	}
	want.Redrive = n.Start(groups, time.Now())
	m.redrives = append(m.redrives, &want)
	m.sameRedrive(t, got, &want)
}

func (m *model) sameRedrive(t *rapid.T, got job.Redrive, want *modelRedrive) {
	options := cmp.Options{cmpopts.EquateEmpty()}
	if !m.s.virtual {
		options = append(options, cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() }))
	}
	noDiff(t, "J23: redrive", cmp.Diff(want.Redrive, got, options))
}

func (m *model) stepRedrive(t *rapid.T) {
	if len(m.redrives) == 0 {
		return
	}
	m.maintain()
	r := rapid.SampledFrom(m.redrives).Draw(t, "redrive")
	got, v, err := m.redriver().StepRedrive(m.s.ctx, r.ID, 0)
	m.s.must(err, nil)
	now := time.Now()
	want, err := r.Step(job.Stamp(now), 0, modelStep{m, r, now})
	m.s.must(err, nil)
	if !m.s.virtual {
		v.Wait, want.Wait = 0, 0
	}
	same(t, "J23: what the step said", v, want)
	m.sameRedrive(t, got, r)
	if v.State != "" && rapid.Bool().Draw(t, "end") {
		m.update(t, r, job.RedriveChange{Action: job.RedriveEnd, State: v.State, Reason: v.Reason})
	}
}

func (m *model) updateRedrive(t *rapid.T) {
	if len(m.redrives) == 0 {
		return
	}
	c := job.RedriveChange{Actor: "b", Action: rapid.SampledFrom([]job.RedriveAction{
		job.RedrivePause, job.RedriveResume, job.RedriveResume, job.RedriveAbort, job.RedriveUndo, job.RedriveSetRate,
	}).Draw(t, "action")}
	if m.s.virtual {
		c.Rate = rapid.SampledFrom([]float64{0, 1}).Draw(t, "rate")
	}
	m.update(t, rapid.SampledFrom(m.redrives).Draw(t, "redrive"), c)
}

func (m *model) update(t *rapid.T, r *modelRedrive, c job.RedriveChange) {
	got, err := m.redriver().UpdateRedrive(m.s.ctx, r.ID, c)
	if want := r.Apply(c, time.Now()); (err == nil) != (want == nil) {
		t.Fatalf("J23: %s of a redrive that is %s: %v, want %v", c.Action, r.State, err, want)
	}
	if err == nil {
		m.sameRedrive(t, got, r)
	}
}

// modelStep is a selection in the model.
type modelStep struct {
	m   *model
	r   *modelRedrive
	now time.Time
}

// look visits n pending jobs behind a position, and keeps those for which f returns true.
func (s modelStep) look(after, n int, f func(modelRedriven, *job.Record) bool) (last int) {
	var kept []modelRedriven
	looked, more := 0, false
	for _, d := range s.r.pending {
		switch {
		case d.at <= after:
			kept = append(kept, d)
		case looked == n:
			more = true
			kept = append(kept, d)
		default:
			looked++
			last = d.at
			if f(d, s.m.jobs[d.id]) {
				kept = append(kept, d)
			}
		}
	}
	if s.r.pending = kept; !more {
		return 0
	}
	return last
}

// Settled implements job.RedriveSelection.
func (s modelStep) Settled(after, n int) (ended []job.RedriveEnded, last int, err error) {
	last = s.look(after, n, func(d modelRedriven, r *job.Record) bool {
		if r != nil && !r.State.Finished() {
			return true
		}
		e := job.RedriveEnded{ID: d.id}
		if r != nil {
			e.State = r.State
		}
		ended = append(ended, e)
		return false
	})
	return ended, last, nil
}

// Release implements job.RedriveSelection.
func (s modelStep) Release(after, n int) (released int, err error) {
	for _, d := range s.r.waiting[after : after+n] {
		r := s.m.jobs[d.id]
		if r == nil || r.State != job.Dead || r.Fence != d.fence {
			continue
		}
		d.was = r.DeadFacts()
		if !s.m.apply(job.ActionRetry, r, s.now) {
			continue
		}
		s.m.s.retried[d.id] = true
		s.r.pending = append(s.r.pending, d)
		released++
	}
	return released, nil
}

// Undo implements job.RedriveSelection.
func (s modelStep) Undo(after, n int) (undone, last int, err error) {
	last = s.look(after, n, func(d modelRedriven, r *job.Record) bool {
		if r == nil || r.State != job.Ready || r.Fence != d.fence {
			return true
		}
		r.PutBack(d.was)
		if d.was.Refusals > 0 {
			past := s.m.history[d.id]
			if last := past[len(past)-1]; last.Outcome != job.AttemptRefused {
				s.m.t.Fatalf("the model's last row is %+v", last)
			}
			s.m.history[d.id] = past[:len(past)-1]
		}
		undone++
		return false
	})
	return undone, last, nil
}

// Discard implements job.RedriveSelection.
func (s modelStep) Discard(after, n int) error {
	if after+n > len(s.r.waiting) {
		return fmt.Errorf("discard %d behind %d of %d", n, after, len(s.r.waiting))
	}
	return nil
}
