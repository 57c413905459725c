package audit

import (
	"context"
	"strings"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// target is what a policy is found by.
type target struct{ key, surface, category string }

// speculator asks what would have become of work, one piece after another.
type speculator struct {
	set        *policy.Set
	recorded   map[string]*policy.Policy // by revision
	resolved   map[target]*policy.Policy
	categories map[string]*WhatIfCategory
	facts      map[int]decision.Facts // of the attempts of hedged groups of the present work
}

// work asks about a call, a job, or each step of a transaction. Steps after one that would have ended otherwise might not
// have been taken.
func (s *speculator) work(events []Event) {
	otherwise := false
	for len(events) > 0 {
		n := stepEnd(events)
		before, after, c := s.envelope(events[:n])
		if otherwise {
			after = ended{}
		}
		c.count(before, after)
		otherwise = otherwise || !after.known || after.success != before.success
		events = events[n:]
	}
}

// stepEnd is how many of a work's events belong together: the steps of a transaction have keys and attempts of their own,
// and begin anew with every delivery.
func stepEnd(events []Event) int {
	transaction := events[0].Surface == string(policy.SurfaceStep)
	n := 1
	for n < len(events) && events[n].Key == events[0].Key {
		if before := &events[n-1]; transaction && isDecision(before.Type) && before.Decision != decision.Retry.String() {
			break
		}
		n++
	}
	return n
}

func (s *speculator) envelope(events []Event) (before, after ended, c *WhatIfCategory) {
	s.facts = map[int]decision.Facts{}
	steps := make([]step, 0, len(events))
	sound := true
	for i := range events {
		e := &events[i]
		if e.Type == Hedge {
			if f, judged, err := e.JudgedFrom(); err == nil && judged {
				s.facts[e.Attempt] = f
			}
			continue
		}
		var err error
		if steps, err = s.step(steps, e); err != nil {
			sound = false
		}
	}
	last := &events[len(events)-1]
	if c = s.categories[last.Category]; c == nil {
		c = &WhatIfCategory{}
		s.categories[last.Category] = c
	}
	before = recordedEnd(steps)
	if sound && complete(steps) {
		after = s.walk(steps, s.policyOf(last))
	}
	return before, after, c
}

// step is one decision on record.
type step struct {
	e       *Event
	facts   decision.Facts
	judged  bool // else the decision came from outside: a denial, an interruption
	verdict decision.Verdict
	at      time.Duration // since the work began
	took    time.Duration // the attempt or group
}

func (s *speculator) step(steps []step, e *Event) ([]step, error) {
	x := step{e: e}
	var err error
	if x.facts, x.judged, err = e.JudgedFrom(); err != nil {
		return steps, err
	}
	if x.verdict, err = e.Verdict(); err != nil {
		return steps, err
	}
	x.verdict.Delay = max(x.verdict.Delay, 0)
	x.at, x.took = e.Elapsed(), e.Elapsed()
	if e.Surface == string(policy.SurfaceJob) { // elapsed is that of the present lease
		if len(steps) > 0 {
			began := steps[0].e.Time.Add(-steps[0].e.Elapsed())
			x.at = e.Time.Sub(began)
		}
	} else if len(steps) > 0 {
		before := &steps[len(steps)-1]
		x.took = max(x.at-before.at-before.verdict.Delay, 0)
	}
	return append(steps, x), nil
}

// complete reports whether every attempt from the first on is there, and nothing follows the end.
func complete(steps []step) bool {
	next := 1
	for i := range steps {
		if i > 0 && steps[i-1].verdict.Action != decision.Retry { //nolint:gosec // i is above 0
			return false
		}
		if !steps[i].judged {
			continue
		}
		if steps[i].e.StateNumber != next {
			return false
		}
		next++
	}
	return len(steps) > 0
}

// recordedEnd adds up what is on record.
func recordedEnd(steps []step) ended {
	var r ended
	for i := range steps {
		x := &steps[i]
		if x.judged {
			r.effort.Attempts++
		}
		r.known = x.verdict.Action != decision.Retry
		r.success = x.verdict.Action == decision.Done
		r.at = x.at
		if x.verdict.Action == decision.Retry {
			r.effort.Waiting = Seconds(saturating(time.Duration(r.effort.Waiting), waited(steps, i)))
		}
	}
	return r
}

// waited is how long the wait after step i lasted: its delay, unless it was interrupted.
func waited(steps []step, i int) time.Duration {
	delay := steps[i].verdict.Delay
	if i+1 < len(steps) && !steps[i+1].judged {
		return min(delay, max(steps[i+1].at-steps[i].at, 0))
	}
	return delay
}

// walk goes through the steps under p for as long as they tell what happens.
func (s *speculator) walk(steps []step, p *policy.Policy) ended {
	var r ended
	var shift time.Duration // by how much the work is later than on record
	for i := range steps {
		x := &steps[i]
		if !x.judged { // nothing to decide: it was denied or interrupted before
			return ended{known: true, effort: r.effort, at: x.at + shift}
		}
		cut, ok := s.cutShort(x, p)
		if !ok {
			return ended{}
		}
		shift -= cut
		r.effort.Attempts++
		r.at = x.at + shift
		v := s.verdict(x, p, shift)
		switch v.Action {
		case decision.Done:
			r.known, r.success = true, true
			return r
		case decision.Stop:
			r.known = true
			return r
		}
		if i+1 == len(steps) || x.verdict.Action != decision.Retry {
			return ended{} // more attempts than are recorded
		}
		if next := &steps[i+1]; !next.judged {
			return r.interrupted(x, next, v.Delay, shift)
		}
		r.effort.Waiting = Seconds(saturating(time.Duration(r.effort.Waiting), v.Delay))
		shift += v.Delay - x.verdict.Delay
	}
	return ended{}
}

// interrupted ends the work during a wait that was cut short on record, or at a launch that was denied.
func (r ended) interrupted(x, next *step, delay, shift time.Duration) ended {
	r.known = true
	if refused(next.verdict.Reason) || fromOutside(next.verdict.Reason) {
		r.effort.Waiting = Seconds(saturating(time.Duration(r.effort.Waiting), delay))
		r.at = next.at + shift + delay - x.verdict.Delay
		return r
	}
	if shift+delay < x.verdict.Delay && x.at+shift+delay < next.at { // another attempt may have begun before
		return ended{}
	}
	waiting := min(delay, max(next.at-x.at-shift, 0))
	r.effort.Waiting = Seconds(saturating(time.Duration(r.effort.Waiting), waiting))
	r.at = max(next.at, x.at+shift)
	return r
}

// cutShort is by how much the timeout of p would have ended the attempt sooner; ok is false where the recording cannot tell
// what would have come of it.
func (s *speculator) cutShort(x *step, p *policy.Policy) (cut time.Duration, ok bool) {
	timeout, before := p.Retry.TimeoutPerAttempt, time.Duration(0)
	if old := s.recorded[x.e.PolicyRevision]; old != nil {
		before = old.Retry.TimeoutPerAttempt
	}
	switch {
	case timeout == before || len(x.e.Group) > 1:
		return 0, true
	case !x.facts.TimedOut:
		return 0, timeout == 0 || x.took <= timeout
	case before == 0:
		before = x.took
	}
	return before - timeout, timeout > 0 && timeout <= before
}

// verdict asks what p decides after a step.
func (s *speculator) verdict(x *step, p *policy.Policy, shift time.Duration) decision.Verdict {
	if x.verdict.Action == decision.Stop && fromOutside(x.verdict.Reason) {
		return x.verdict
	}
	o := s.outcome(x, p)
	state := s.state(x, p, shift)
	if x.verdict.External && !state.External {
		state.Left = decision.Unbounded // the delay that did not fit is not on record
	}
	v := decision.Next(&p.Retry, state, o)
	if v.Action == decision.Retry && x.verdict.Action == decision.Stop && refused(x.verdict.Reason) {
		return x.verdict // the denial stands
	}
	return v
}

// outcome judges a step again.
func (s *speculator) outcome(x *step, p *policy.Policy) classify.Outcome {
	o, rule := decision.Judge(&p.Retry, x.facts)
	if len(x.e.Group) < 2 || rule == decision.RuleContext {
		return o
	}
	g := decision.Group{CancelOnFirstTerminal: p.Hedge.CancelOnFirstTerminal}
	for range x.e.Group {
		g.Launch()
	}
	for _, n := range x.e.Group {
		f, ok := s.facts[n]
		if !ok {
			o.Pushback = max(o.Pushback, x.e.PushbackNS.Duration())
			return o
		}
		attempt, _ := decision.Judge(&p.Retry, f)
		g.End(n, attempt)
	}
	o, _ = g.Outcome()
	return o
}

// state is that of the record with what p changes.
func (s *speculator) state(x *step, p *policy.Policy, shift time.Duration) decision.State {
	state := x.e.State()
	old := s.recorded[x.e.PolicyRevision]
	switch own := state.MaxAttempts; { // the work's own maximum shows where it is below the policy's
	case own > 0 && old != nil && own < old.Retry.MaxAttempts:
		state.MaxAttempts = min(own, p.Retry.MaxAttempts)
	default:
		state.MaxAttempts = p.Retry.MaxAttempts
	}
	if state.Seed == 0 {
		state.Seed = decision.Seed(x.e.WorkID)
		if key := s.set.KeyNamed(x.e.Key); key.Surface() == policy.SurfaceStep {
			state.Seed = decision.StepSeed(x.e.WorkID, key.Name)
		}
	}
	left, reason := decision.Unbounded, policy.Reason("")
	if state.Left != decision.Unbounded && state.LeftReason != policy.ReasonOverallTimeout {
		left, reason = state.Left-shift, state.LeftReason // the caller's deadline stays where it was
	}
	if overall := p.Retry.OverallTimeout; overall > 0 {
		rest := overall - x.at - shift
		if state.LeftReason == policy.ReasonOverallTimeout && old != nil { // exactly as it was measured
			rest = state.Left - shift + overall - old.Retry.OverallTimeout
		}
		if rest < left {
			left, reason = rest, policy.ReasonOverallTimeout
		}
	}
	state.Left, state.LeftReason = left, reason
	return state
}

// policyOf finds the policy of an event's key. A call made under a category takes what the document leaves to built-in
// defaults from the catalog, as executors do.
func (s *speculator) policyOf(e *Event) *policy.Policy {
	t := target{e.Key, e.Surface, e.Category}
	if p := s.resolved[t]; p != nil {
		return p
	}
	key := s.set.KeyNamed(e.Key)
	p, _ := s.set.Policy(context.Background(), key) // a set never fails
	if category := policy.Category(strings.TrimPrefix(e.Category, "RETRY_")); category != "" && p.Category == "" {
		under := p.UnderCategory(category, s.limits(policy.Surface(e.Surface)))
		p = &under
	}
	s.resolved[t] = p
	return p
}

func (s *speculator) limits(surface policy.Surface) policy.Limits {
	if surface == policy.SurfaceCall || surface == "" {
		return s.set.CallLimits()
	}
	return policy.LimitsFor(surface)
}
