package audit

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// neededForWhatIf selects the events that [WhatIf] reads: with those of a replay, the transitions of jobs that have not completed.
func neededForWhatIf(e *Event) bool {
	return neededForReplay(e) || e.Type == JobTransition && e.Reason != policy.ReasonSuccess
}

// target selects a policy.
type target struct{ key, surface, category string }

// simulator runs [WhatIf] for one piece of work after another.
type simulator struct {
	set      *policy.Set
	recorded map[string]*policy.Policy // by revision
	resolved map[target]*policy.Policy
	tallies  map[target]*keyTally
	facts    map[int]decision.Facts // of the hedged attempts of the current work
	verdicts []decision.Verdict     // of the last walk, by step
}

// work counts a call, a job, or each step of a transaction.
func (s *simulator) work(events []Event) {
	s.parts(events, func(e *Event, steps []step, before, after workEnd) {
		s.tallyOf(e).add(before, after, steps, s.verdicts)
	})
}

// parts walks through a call, a job, or each step of a transaction, and calls visit with its last event that is not a transition:
// another worker may have reported a transition, under its own policies. After a step that would have ended differently, later steps
// are unknown: they might not have run.
func (s *simulator) parts(events []Event, visit func(e *Event, steps []step, before, after workEnd)) {
	diverged := false
	for {
		first := slices.IndexFunc(events, func(e Event) bool { return e.Type != JobTransition })
		if first < 0 {
			return
		}
		events = events[first:]
		n := stepEnd(events)
		last := n - 1
		for events[last].Type == JobTransition {
			last--
		}
		e := &events[last]
		steps, sound := s.steps(events[:n])
		before, after := s.ends(steps, sound, e)
		if diverged {
			after, s.verdicts = workEnd{unknown: UnknownAfterStep}, s.verdicts[:0]
		}
		visit(e, steps, before, after)
		diverged = diverged || after.unknown != "" || after.success != before.success
		events = events[n:]
	}
}

// stepEnd returns how many of the events, from the first, belong to the same step. Each step of a transaction has its own key
// and attempts, and starts over with every delivery. Calls and jobs are one step. A transition belongs to the step before it.
func stepEnd(events []Event) int {
	transaction := events[0].Surface == string(policy.SurfaceStep)
	n := 1
	for n < len(events) && (events[n].Key == events[0].Key || events[n].Type == JobTransition) {
		if before := &events[n-1]; transaction && isDecision(before.Type) && before.Decision != decision.Retry.String() {
			break
		}
		n++
	}
	return n
}

// ends returns how some steps ended and would have ended under the policy of an event.
func (s *simulator) ends(steps []step, sound bool, e *Event) (before, after workEnd) {
	s.verdicts = s.verdicts[:0]
	if !sound || !complete(steps) {
		return recordedEnd(steps), workEnd{unknown: UnknownRecord}
	}
	return recordedEnd(steps), s.walk(steps, s.policyOf(e))
}

// steps returns the decisions among the events of a call, job or step; sound is false if one of them cannot be read.
func (s *simulator) steps(events []Event) (steps []step, sound bool) {
	s.facts = map[int]decision.Facts{}
	steps, sound = make([]step, 0, len(events)), true
	for i := range events {
		e := &events[i]
		if e.Type == Hedge {
			s.hedge(e)
			continue
		}
		if n := len(steps); e.Type == JobTransition {
			if n > 0 && steps[n-1].verdict.Action == decision.Done {
				steps = steps[:n-1] // the attempt was snoozed, cancelled or lost
			}
			continue
		}
		var err error
		if steps, err = s.step(steps, e); err != nil {
			sound = false
		}
	}
	return steps, sound
}

// hedge keeps the facts of an attempt of a hedged group for the decision about the group.
func (s *simulator) hedge(e *Event) {
	if f, judged, err := e.JudgedFrom(); err == nil && judged {
		s.facts[e.Attempt] = f
	}
}

// step is one recorded decision.
type step struct {
	e       *Event
	facts   decision.Facts
	judged  bool // false if the work ended without an outcome to judge: it was denied or interrupted
	verdict decision.Verdict
	at      time.Duration // since the work began
	took    time.Duration // the attempt or group
}

func (s *simulator) step(steps []step, e *Event) ([]step, error) {
	if n := len(steps); n > 0 && e.Surface == string(policy.SurfaceJob) {
		last := &steps[n-1]
		if !last.judged && refused(last.verdict.Reason) || last.verdict.Action == decision.Done {
			steps = steps[:n-1] // a job whose attempt was refused or snoozed is tried again
		}
	}
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
	if e.Surface == string(policy.SurfaceJob) { // a job's elapsed time is that of its lease
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

// complete reports whether no attempt is missing and nothing follows the end.
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

// recordedEnd returns how the work ended according to the log.
func recordedEnd(steps []step) workEnd {
	r := workEnd{unknown: UnknownRecord}
	for i := range steps {
		x := &steps[i]
		if x.judged {
			r.effort.Attempts++
		}
		r.success = x.verdict.Action == decision.Done
		r.at, r.unknown, r.reason = x.at, "", x.verdict.Reason
		if x.verdict.Action == decision.Retry {
			r.unknown = UnknownRecord
			r.effort.Waiting.add(waited(steps, i))
		}
	}
	return r
}

// waited returns how long the wait after step i lasted: its delay, unless the wait was interrupted.
func waited(steps []step, i int) time.Duration {
	delay := steps[i].verdict.Delay
	if i+1 < len(steps) && !steps[i+1].judged {
		return min(delay, max(steps[i+1].at-steps[i].at, 0))
	}
	return delay
}

// walk goes through the steps under p, as far as the log shows what would have happened.
func (s *simulator) walk(steps []step, p *policy.Policy) workEnd {
	var r workEnd
	var shift time.Duration        // how much later the work is than recorded
	deadline := decision.Unbounded // the caller's, since the work began
	for i := range steps {
		x := &steps[i]
		if !x.judged { // nothing to decide: the work was denied or interrupted before
			return workEnd{reason: x.verdict.Reason, effort: r.effort, at: x.at + shift}
		}
		cut, ok := s.cutShort(x, p)
		if !ok {
			return r.stopsAt(UnknownTimeout)
		}
		shift -= cut
		r.effort.Attempts++
		r.at = x.at + shift
		v := s.verdict(x, p, shift)
		switch end, reason := s.endOf(x, p, deadline); {
		case r.at > end && v.Action == decision.Done, r.at < end && x.facts.Ended != "" && v.Action == decision.Stop:
			return r.stopsAt(UnknownTimeout)
		case r.at > end:
			v, r.at = decision.Verdict{Action: decision.Stop, Reason: reason}, end
		}
		s.verdicts = append(s.verdicts, v)
		switch {
		case v.Action != decision.Retry:
			r.reason, r.success = v.Reason, v.Action == decision.Done
			return r
		case x.verdict.Action != decision.Retry:
			return r.stopsAt(UnknownAttempts)
		case i+1 == len(steps):
			return r.stopsAt(UnknownRecord)
		}
		next := &steps[i+1]
		canceled := next.facts.Ended == policy.ReasonCanceled && x.at+shift+v.Delay >= next.at // before it would have begun
		if canceled || !next.judged {
			return r.interrupted(x, next, v.Delay, shift)
		}
		r.effort.Waiting.add(v.Delay)
		shift += v.Delay - x.verdict.Delay
		if state := x.e.State(); state.Left != decision.Unbounded && state.LeftReason != policy.ReasonOverallTimeout {
			deadline = x.at + state.Left
		}
	}
	return r.stopsAt(UnknownRecord)
}

// endOf returns when the work ends under p if an attempt still runs then, and why. An attempt that outlasted the recorded overall
// timeout would outlast another one by as much.
func (s *simulator) endOf(x *step, p *policy.Policy, deadline time.Duration) (end time.Duration, reason policy.Reason) {
	before, late, ended := time.Duration(0), time.Duration(0), x.facts.Ended
	if old := s.recorded[x.e.PolicyRevision]; old != nil {
		before = old.Retry.OverallTimeout
	}
	if before > 0 && (ended == policy.ReasonOverallTimeout || x.at > before) {
		late = x.at - before
	}
	end, reason = max(deadline, x.at), policy.ReasonDeadlineExceeded
	switch {
	case ended == policy.ReasonOverallTimeout && before > 0:
		end = decision.Unbounded
	case ended != "":
		end, reason = x.at, ended
	}
	if overall := p.Retry.OverallTimeout; overall > 0 && overall+late < end {
		end, reason = overall+late, policy.ReasonOverallTimeout
	}
	return end, reason
}

// stopsAt ends a walk where the record cannot show what would have followed.
func (r workEnd) stopsAt(u Unknown) workEnd {
	r.unknown = u
	return r
}

// interrupted ends the work during a wait that the log shows as interrupted, or that would have lasted beyond the interruption of the next
// attempt; or at an attempt that was denied.
func (r workEnd) interrupted(x, next *step, delay, shift time.Duration) workEnd {
	r.reason = next.verdict.Reason
	if refused(next.verdict.Reason) || fromOutside(next.verdict.Reason) {
		r.effort.Waiting.add(delay)
		r.at = next.at + shift + delay - x.verdict.Delay
		return r
	}
	if shift+delay < x.verdict.Delay && x.at+shift+delay < next.at { // another attempt could have started before
		return r.stopsAt(UnknownInterruption)
	}
	waiting := min(delay, max(next.at-x.at-shift, 0))
	r.effort.Waiting.add(waiting)
	r.at = max(next.at, x.at+shift)
	return r
}

// cutShort returns how much sooner the timeout of p would have ended the attempt; ok is false if the log cannot show how the
// attempt would have ended.
func (s *simulator) cutShort(x *step, p *policy.Policy) (cut time.Duration, ok bool) {
	timeout, before := p.Retry.TimeoutPerAttempt, time.Duration(0)
	if old := s.recorded[x.e.PolicyRevision]; old != nil {
		before = old.Retry.TimeoutPerAttempt
	}
	switch {
	case timeout == before:
		return 0, true
	case len(x.e.Group) > 1:
		timedOut := slices.ContainsFunc(x.e.Group, func(n int) bool { return s.facts[n].TimedOut })
		return 0, !timedOut && (timeout == 0 || x.took <= timeout)
	case !x.facts.TimedOut:
		return 0, timeout == 0 || x.took <= timeout
	case before == 0:
		before = x.took
	}
	return before - timeout, timeout > 0 && timeout <= before
}

// verdict returns what p decides after a step.
func (s *simulator) verdict(x *step, p *policy.Policy, shift time.Duration) decision.Verdict {
	if x.verdict.Action == decision.Stop && fromOutside(x.verdict.Reason) {
		return x.verdict
	}
	o := s.outcome(x, p)
	state := s.state(x, p, shift)
	if x.verdict.External && !state.External {
		state.Left = decision.Unbounded // the delay that did not fit is not recorded
	}
	v := decision.Next(&p.Retry, &state, &o)
	if v.Action == decision.Retry && x.verdict.Action == decision.Stop && refused(x.verdict.Reason) {
		return x.verdict // the retry would have been denied too
	}
	return v
}

// outcome judges a step under p.
func (s *simulator) outcome(x *step, p *policy.Policy) classify.Outcome {
	o, rule := decision.Judge(&p.Retry, &x.facts)
	if len(x.e.Group) < 2 || rule == decision.RuleContext {
		return o
	}
	attempts := map[int]classify.Outcome{}
	for _, n := range x.e.Group {
		if f, known := s.facts[n]; known {
			attempts[n], _ = decision.Judge(&p.Retry, &f)
		}
	}
	if group, _, err := groupOutcome(x.e, p, attempts); err == nil {
		return group
	}
	o.Pushback = max(o.Pushback, x.e.PushbackNS.Duration())
	return o
}

// state returns the recorded state, changed as p requires.
func (s *simulator) state(x *step, p *policy.Policy, shift time.Duration) decision.State {
	state := x.e.State()
	old := s.recorded[x.e.PolicyRevision]
	switch own := state.MaxAttempts; { // the work's own maximum is visible if it is below the policy's
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
		left, reason = state.Left-shift, state.LeftReason // the caller's deadline does not move
	}
	if overall := p.Retry.OverallTimeout; overall > 0 {
		rest := overall - x.at - shift
		if state.LeftReason == policy.ReasonOverallTimeout && old != nil { // exact: the log has the measured time
			rest = state.Left - shift + overall - old.Retry.OverallTimeout
		}
		if rest < left {
			left, reason = rest, policy.ReasonOverallTimeout
		}
	}
	state.Left, state.LeftReason = left, reason
	return state
}

// policyOf returns the policy of an event's key. As in an executor, a call made under a category takes the fields that the
// document does not set from the catalog.
func (s *simulator) policyOf(e *Event) *policy.Policy {
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

func (s *simulator) limits(surface policy.Surface) policy.Limits {
	if surface == policy.SurfaceCall || surface == "" {
		return s.set.CallLimits()
	}
	return policy.LimitsFor(surface)
}
