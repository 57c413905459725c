package audit

import (
	"math"
	"testing"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

func stepUnder(revision string, action decision.Action, reason policy.Reason) *step {
	e := &Event{PolicyRevision: revision, Surface: "call", Key: "user.Get", WorkID: "w", StateNumber: 1, StateLimit: 3}
	return &step{e: e, judged: true, facts: decision.Facts{Failed: true}, verdict: decision.Verdict{Action: action, Reason: reason}}
}

func retrying() *policy.Policy {
	p := &policy.Policy{Key: policy.ParseKey("user.Get")}
	p.Retry = policy.Retry{MaxAttempts: 5, InitialBackoff: time.Second, MaxBackoff: time.Second, BackoffMultiplier: 1, Jitter: policy.JitterNone, MaxPushback: time.Minute}
	return p
}

func TestA4WhatIfKeepsExternalFacts(t *testing.T) {
	s := &simulator{set: policy.NewSet(policy.SetConfig{Revision: "r"}), recorded: map[string]*policy.Policy{}}
	p := retrying()
	for _, reason := range []policy.Reason{policy.ReasonAuditUnavailable, policy.ReasonBudgetDenied} {
		x := stepUnder("r", decision.Stop, reason)
		if v := s.verdict(x, p, 0); v != x.verdict {
			t.Errorf("%s: %+v", reason, v)
		}
	}
	x := stepUnder("r", decision.Retry, policy.ReasonRetry)
	x.e.External, x.e.Decision, x.e.DelayNS = true, "retry", Nanos(7*time.Second)
	x.verdict, _ = x.e.Verdict()
	if v := s.verdict(x, p, 0); v.Action != decision.Retry || v.Delay != 7*time.Second || !v.External {
		t.Errorf("a delay of user code: %+v", v)
	}
	next := stepUnder("r", decision.Stop, policy.ReasonCircuitOpen)
	next.at = time.Second
	x = stepUnder("r", decision.Retry, policy.ReasonRetry)
	x.verdict.Delay = time.Second
	if r := (workEnd{}).interrupted(x, next, 3*time.Second, 0); r.unknown != "" || r.at != 3*time.Second || time.Duration(r.effort.Waiting) != 3*time.Second {
		t.Errorf("a launch that was denied: %+v", r)
	}
}

func TestA4WhatIfUsesTheBoundsOfTheWork(t *testing.T) {
	old, p := retrying(), retrying()
	s := &simulator{set: policy.NewSet(policy.SetConfig{Revision: "r"}), recorded: map[string]*policy.Policy{"r": old}}
	x := stepUnder("r", decision.Retry, policy.ReasonRetry)
	left := Nanos(10 * time.Second)
	x.e.LeftNS, x.e.LeftReason = &left, policy.ReasonDeadlineExceeded
	if got := s.state(x, p, 4*time.Second); got.MaxAttempts != 3 || got.Left != 6*time.Second || got.LeftReason != policy.ReasonDeadlineExceeded {
		t.Errorf("%+v", got)
	}
	if got := s.limits(policy.SurfaceJob); got != policy.LimitsFor(policy.SurfaceJob) {
		t.Errorf("limits %+v", got)
	}
	p.Retry.TimeoutPerAttempt = time.Second
	x.facts.TimedOut, x.took = true, 3*time.Second
	if cut, ok := s.cutShort(x, p); !ok || cut != 2*time.Second {
		t.Errorf("an attempt that timed out without a timeout in its policy is cut off by %s, %v", cut, ok)
	}
}

func TestA4WhatIfDoesNotGuess(t *testing.T) {
	s := &simulator{}
	broken := &Event{MatchedRule: "default", Facts: &Facts{Mark: "unheard of"}}
	if _, err := s.step(nil, broken); err == nil {
		t.Error("facts with an unknown mark are accepted")
	}
	if complete([]step{*stepUnder("r", decision.Stop, ""), *stepUnder("r", decision.Stop, "")}) {
		t.Error("events follow the end")
	}
	if r := s.walk(nil, retrying()); r.unknown == "" {
		t.Errorf("nothing is recorded: %+v", r)
	}
	var c WhatIfCategory
	if c.count(workEnd{unknown: UnknownRecord}, workEnd{success: true}); c.CannotKnow != 1 {
		t.Errorf("the recording stops before the success: %+v", c)
	}
	longest := Seconds(math.MaxInt64)
	if longest.add(1); longest != math.MaxInt64 {
		t.Errorf("292 years and more: %s", time.Duration(longest))
	}
}

func TestA4WhatIfWorkWithFactsOfANewerVersionIsUnknown(t *testing.T) {
	s := &simulator{
		set: policy.NewSet(policy.SetConfig{Revision: "r"}), recorded: map[string]*policy.Policy{},
	}
	broken := Event{Type: CallStopped, Surface: "call", Decision: "stop", MatchedRule: "default", Facts: &Facts{Mark: "unheard of"}}
	steps, sound := s.steps([]Event{broken})
	if _, after := s.ends(steps, sound, &broken); after.unknown == "" {
		t.Errorf("an end is derived from facts that cannot be read: %+v", after)
	}
}

func TestA4WhatIfRepeatsACallThatEndedAtADelayOfUserCode(t *testing.T) {
	s := &simulator{set: policy.NewSet(policy.SetConfig{Revision: "r"}), recorded: map[string]*policy.Policy{}}
	x := stepUnder("r", decision.Stop, policy.ReasonDeadlineExceeded)
	x.verdict.External = true // the delay exceeded the deadline and is not recorded
	left := Nanos(time.Millisecond)
	x.e.LeftNS, x.e.LeftReason = &left, policy.ReasonDeadlineExceeded
	if v := s.verdict(x, retrying(), 0); v.Action != decision.Retry || v.Delay != time.Second {
		t.Errorf("%+v", v)
	}
}

func TestA4WhatIfOfAGroupWithoutFactsKeepsThePushback(t *testing.T) {
	s := &simulator{set: policy.NewSet(policy.SetConfig{Revision: "r"}), facts: map[int]decision.Facts{}}
	x := stepUnder("r", decision.Retry, policy.ReasonRetry)
	x.e.Group, x.e.PushbackNS = []int{1, 2}, Nanos(3*time.Second)
	if o := s.outcome(x, retrying()); o.Pushback != 3*time.Second {
		t.Errorf("%+v", o)
	}
}

func TestA4WhatIfDoesNotKnowGroupsThatAnotherTimeoutCutsOff(t *testing.T) {
	p := retrying()
	p.Retry.TimeoutPerAttempt = time.Second
	x := stepUnder("r", decision.Retry, policy.ReasonRetry)
	x.e.Group = []int{1, 2}
	for name, c := range map[string]struct {
		took   time.Duration
		second decision.Facts
		known  bool
	}{
		"in time": {time.Second, decision.Facts{}, true}, "too late": {2 * time.Second, decision.Facts{}, false},
		"timed out": {time.Second, decision.Facts{Failed: true, TimedOut: true}, false},
	} {
		x.took = c.took
		s := &simulator{facts: map[int]decision.Facts{2: c.second}}
		if _, known := s.cutShort(x, p); known != c.known {
			t.Errorf("%s: known %t", name, known)
		}
	}
}

// knownOnlyOfAJob checks that a job with these events succeeds after two attempts, as it did, and that the end of a call is unknown.
func knownOnlyOfAJob(t *testing.T, events ...Event) {
	t.Helper()
	p := retrying()
	for _, surface := range []policy.Surface{policy.SurfaceJob, policy.SurfaceCall} {
		s := &simulator{
			set: policy.NewSet(policy.SetConfig{Calls: p, Jobs: p}), recorded: map[string]*policy.Policy{}, resolved: map[target]*policy.Policy{},
		}
		for i := range events {
			events[i].Surface, events[i].Key, events[i].Time = string(surface), "job/mail.send", start.Add(time.Duration(i)*time.Second)
		}
		steps, sound := s.steps(events)
		before, after := s.ends(steps, sound, &events[0])
		if known := after.unknown == ""; known != (surface == policy.SurfaceJob) {
			t.Errorf("%s: %+v", surface, after)
		}
		if surface == policy.SurfaceJob && (!before.success || !after.success || after.effort.Attempts != 2) {
			t.Errorf("%s: %+v, then %+v", surface, before, after)
		}
	}
}

func TestT4ARefusedAttemptDoesNotEndAJob(t *testing.T) {
	refused := Event{Type: CallStopped, Denied: true, Decision: "stop", Reason: policy.ReasonCircuitOpen}
	failed := Event{Type: RetryAttempt, MatchedRule: decision.RuleDefault, Facts: &Facts{Failed: true}, Decision: "retry", Reason: policy.ReasonRetry, StateNumber: 1, DelayNS: Nanos(time.Second)}
	done := Event{Type: CallSucceeded, MatchedRule: decision.RuleSuccess, Facts: &Facts{}, Decision: "done", Reason: policy.ReasonSuccess, StateNumber: 2}
	knownOnlyOfAJob(t, refused, failed, refused, refused, done)
}

// TestT5ASnoozedAttemptDoesNotEndAJob: the handler returned job.Snooze, which the executor takes for a success.
func TestT5ASnoozedAttemptDoesNotEndAJob(t *testing.T) {
	done := func(n int) Event {
		return Event{Type: CallSucceeded, MatchedRule: decision.RuleSuccess, Facts: &Facts{}, Decision: "done", Reason: policy.ReasonSuccess, StateNumber: n}
	}
	failed := Event{Type: RetryAttempt, MatchedRule: decision.RuleDefault, Facts: &Facts{Failed: true}, Decision: "retry", Reason: policy.ReasonRetry, StateNumber: 1, DelayNS: Nanos(time.Second)}
	knownOnlyOfAJob(t, done(1), failed, done(2), done(2))
}

// TestT4ATransitionIsNoWorkOfItsOwn: a pipeline's job lost its lease, which a worker of the store reports. The number of the
// transition is that of the job, and the numbers of decisions are those of the transaction.
func TestT4ATransitionIsNoWorkOfItsOwn(t *testing.T) {
	lost := Event{Type: JobTransition, WorkID: "a", Surface: string(policy.SurfaceJob), Key: "job/mail.send", From: "running", To: "ready", Reason: policy.ReasonLeaseExpired}
	process := Event{
		Type: CallSucceeded, WorkID: "a", Surface: string(policy.SurfaceStep), Key: "consumer/c.process",
		MatchedRule: decision.RuleSuccess, Decision: "done", Reason: policy.ReasonSuccess, StateNumber: 1, StateLimit: 1,
	}
	success := process
	success.Key = "consumer/c.success"
	for name, events := range map[string][]Event{
		"before": {lost, process, success}, "between": {process, lost, success}, "after": {process, success, lost},
	} {
		s := &simulator{set: policy.NewSet(policy.SetConfig{}), resolved: map[target]*policy.Policy{}, tallies: map[target]*keyTally{}}
		s.work(events)
		for of, tally := range s.tallies {
			if len(s.tallies) != 2 || tally.Works != 1 || tally.Same != 1 {
				t.Errorf("%s: %s %+v", name, of.key, tally.WhatIfCategory)
			}
		}
		if got := storyOf(events, nil); got.Result != "done" {
			t.Errorf("%s: explained as %s, %s", name, got.Result, got.Reason)
		}
	}
}

// TestT4ALostJobIsCountedUnderTheKeyOfItsDecisions: the worker that reports the lost lease has other policies.
func TestT4ALostJobIsCountedUnderTheKeyOfItsDecisions(t *testing.T) {
	done := Event{
		Type: CallSucceeded, WorkID: "a", Surface: string(policy.SurfaceJob), Key: "mail", Category: "RETRY_API_REQUEST",
		MatchedRule: decision.RuleSuccess, Decision: "done", Reason: policy.ReasonSuccess, StateNumber: 1, StateLimit: 1,
	}
	lost := Event{Type: JobTransition, WorkID: "a", Surface: done.Surface, Key: "job/mail.send", From: "running", To: "ready", Reason: policy.ReasonLeaseExpired}
	s := &simulator{set: policy.NewSet(policy.SetConfig{}), resolved: map[target]*policy.Policy{}, tallies: map[target]*keyTally{}}
	s.work([]Event{done, lost})
	tally := s.tallies[target{done.Key, done.Surface, done.Category}]
	if len(s.tallies) != 1 || tally == nil || tally.CannotKnow != 1 {
		t.Errorf("%+v", s.tallies)
	}
}
