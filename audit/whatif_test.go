package audit_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

func whatIf(t testing.TB, s audit.Source, policies ...*policy.Policy) *audit.WhatIfReport {
	t.Helper()
	r, err := audit.WhatIf(context.Background(), s, setOf(policies...), audit.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func setOf(policies ...*policy.Policy) *policy.Set {
	named := map[policy.Key]*policy.Policy{}
	for _, p := range policies {
		named[p.Key] = p
	}
	return policy.NewSet(policy.SetConfig{Source: policy.SourceFile, Revision: "r", Policies: named})
}

func TestA4SamePolicyChangesNothing(t *testing.T) {
	works := 3000
	if testing.Short() {
		works = 500
	}
	log, r := recorded(t, 7, works)
	got := whatIf(t, log, catalogue(t)...)
	if got.Total.Works != r.work || got.Total.Same != r.work || got.Total.Before != got.Total.After || got.Total.Before.Waiting == 0 {
		t.Errorf("%d works: %+v", r.work, got.Total)
	}
	if len(got.Categories) != 2 || got.Categories[1].Category != "RETRY_NATS_PUBLISH" {
		t.Errorf("categories %+v", got.Categories)
	}
}

// attempts describes a call: the results and durations of its attempts.
type attempts []struct {
	facts decision.Facts
	took  time.Duration
}

var failed = decision.Facts{Failed: true}

// call records one call under p, decided by package decision, and the interruption that ends it, if any.
func (r *recording) call(p *policy.Policy, list attempts, interrupted policy.Reason) {
	r.work++
	elapsed := time.Duration(0)
	for i, a := range list {
		elapsed += a.took
		e := audit.Event{
			Surface: "call", Key: p.Key.String(), WorkID: eventID(r.work), WorkSeq: i + 1, PolicyRevision: p.Meta.Revision,
			Attempt: i + 1, ElapsedNS: audit.Nanos(elapsed), TookNS: audit.Nanos(a.took), TotalAttempts: i + 1,
		}
		o, rule := decision.Judge(&p.Retry, &a.facts)
		s := decision.State{Surface: policy.SurfaceCall, Attempt: i + 1, Left: decision.Unbounded}
		if o.Kind == classify.Retryable {
			s.Seed = decision.Seed(e.WorkID)
			if p.Retry.OverallTimeout > 0 {
				s.Left, s.LeftReason = p.Retry.OverallTimeout-elapsed, policy.ReasonOverallTimeout
			}
		}
		v := decision.Next(&p.Retry, &s, &o)
		judged(&e, o, rule, a.facts)
		decided(&e, s, v)
		r.add(e)
		if v.Action != decision.Retry {
			return
		}
		elapsed += v.Delay
	}
	if interrupted != "" {
		e := audit.Event{
			Surface: "call", Key: p.Key.String(), WorkID: eventID(r.work), WorkSeq: len(list) + 1, PolicyRevision: p.Meta.Revision,
			OutcomeKind: "abort", OutcomeReason: interrupted, ElapsedNS: audit.Nanos(elapsed - time.Millisecond), TotalAttempts: len(list),
		}
		decided(&e, decision.State{Surface: policy.SurfaceCall, Attempt: len(list), Left: decision.Unbounded}, decision.Verdict{Action: decision.Stop, Reason: interrupted})
		r.add(e)
	}
}

func TestA4WhatIfReportsDifferences(t *testing.T) {
	const ms = time.Millisecond
	base := func(edit func(r *policy.Retry)) *policy.Policy {
		return compiled(t, "user.Get", func(p *policy.Policy) {
			p.Retry = policy.Retry{MaxAttempts: 4, InitialBackoff: 100 * ms, MaxBackoff: time.Second, Jitter: policy.JitterNone}
			edit(&p.Retry)
		})
	}
	keep := func(*policy.Retry) {}
	quota := decision.Facts{Failed: true, Classes: []classify.Match{{Class: "quota"}}}
	late := decision.Facts{Failed: true, TimedOut: true}
	asked := decision.Facts{Failed: true, Mark: classify.MarkAfter, Pushback: 2 * time.Second}
	third := attempts{{failed, 10 * ms}, {failed, 10 * ms}, {decision.Facts{}, 10 * ms}}
	cutOff := attempts{{failed, 10 * ms}, {decision.Facts{Failed: true, Ended: policy.ReasonOverallTimeout}, 140 * ms}}
	never := attempts{{failed, 10 * ms}, {failed, 10 * ms}, {failed, 10 * ms}, {failed, 10 * ms}}
	cases := map[string]struct {
		before, after func(r *policy.Retry)
		call          attempts
		interrupted   policy.Reason
		want          audit.WhatIfCategory
	}{
		"success, shorter waits": {keep, func(r *policy.Retry) { r.InitialBackoff = 50 * ms }, third, "",
			audit.WhatIfCategory{SucceededEarlier: 1, Before: effort(3, 300*ms), After: effort(3, 150*ms)}},
		"success, longer waits": {keep, func(r *policy.Retry) { r.InitialBackoff = 200 * ms }, third, "",
			audit.WhatIfCategory{SucceededLater: 1, Before: effort(3, 300*ms), After: effort(3, 600*ms)}},
		"success, fewer attempts": {keep, func(r *policy.Retry) { r.MaxAttempts = 2 }, third, "",
			audit.WhatIfCategory{FailedEarlier: 1, LostSuccesses: 1, Before: effort(3, 300*ms), After: effort(2, 100*ms)}},
		"failure, fewer attempts": {keep, func(r *policy.Retry) { r.MaxAttempts = 2 }, never, "",
			audit.WhatIfCategory{FailedEarlier: 1, Before: effort(4, 700*ms), After: effort(2, 100*ms)}},
		"failure, more attempts": {keep, func(r *policy.Retry) { r.MaxAttempts = 5 }, never, "",
			audit.WhatIfCategory{CannotKnow: 1}},
		"failure, longer waits": {keep, func(r *policy.Retry) { r.BackoffMultiplier = 3 }, never, "",
			audit.WhatIfCategory{FailedLater: 1, Before: effort(4, 700*ms), After: effort(4, 1300*ms)}},
		"class refused": {keep, func(r *policy.Retry) { r.AbortOn = []policy.Class{"quota"} }, attempts{{quota, ms}, {decision.Facts{}, ms}}, "",
			audit.WhatIfCategory{FailedEarlier: 1, LostSuccesses: 1, Before: effort(2, 100*ms), After: effort(1, 0)}},
		"class allowed": {func(r *policy.Retry) { r.AbortOn = []policy.Class{"quota"} }, keep, attempts{{quota, ms}}, "",
			audit.WhatIfCategory{CannotKnow: 1}},
		"overall timeout": {keep, func(r *policy.Retry) { r.OverallTimeout = 250 * ms }, third, "",
			audit.WhatIfCategory{FailedEarlier: 1, LostSuccesses: 1, Before: effort(3, 300*ms), After: effort(2, 100*ms)}},
		"overall timeout, wider": {func(r *policy.Retry) { r.OverallTimeout = 250 * ms }, func(r *policy.Retry) { r.OverallTimeout = 300 * ms }, third, "",
			audit.WhatIfCategory{Same: 1, Before: effort(2, 100*ms), After: effort(2, 100*ms)}},
		"overall timeout during the success": {keep, func(r *policy.Retry) { r.OverallTimeout = 225 * ms }, attempts{{failed, 10 * ms}, {decision.Facts{}, 200 * ms}}, "",
			audit.WhatIfCategory{CannotKnow: 1}},
		"overall timeout during the last failure": {func(r *policy.Retry) { r.MaxAttempts = 2 }, func(r *policy.Retry) { r.MaxAttempts, r.OverallTimeout = 2, 225*ms },
			attempts{{failed, 10 * ms}, {failed, 200 * ms}}, "",
			audit.WhatIfCategory{FailedEarlier: 1, Before: effort(2, 100*ms), After: effort(2, 100*ms)}},
		"overall timeout struck, shorter": {func(r *policy.Retry) { r.OverallTimeout = 250 * ms }, func(r *policy.Retry) { r.OverallTimeout = 150 * ms }, cutOff, "",
			audit.WhatIfCategory{FailedEarlier: 1, Before: effort(2, 100*ms), After: effort(2, 100*ms)}},
		"overall timeout struck, longer": {func(r *policy.Retry) { r.OverallTimeout = 250 * ms }, func(r *policy.Retry) { r.OverallTimeout = time.Second }, cutOff, "",
			audit.WhatIfCategory{CannotKnow: 1}},
		"overall timeout struck, none": {func(r *policy.Retry) { r.OverallTimeout = 250 * ms }, keep, cutOff, "", audit.WhatIfCategory{CannotKnow: 1}},
		"overall timeout struck, shorter waits": {func(r *policy.Retry) { r.OverallTimeout = 250 * ms },
			func(r *policy.Retry) { r.OverallTimeout, r.InitialBackoff = 250*ms, 50*ms }, cutOff, "", audit.WhatIfCategory{CannotKnow: 1}},
		"overall timeout struck, longer waits": {func(r *policy.Retry) { r.OverallTimeout = 250 * ms },
			func(r *policy.Retry) { r.OverallTimeout, r.InitialBackoff = 250*ms, 200*ms }, cutOff, "",
			audit.WhatIfCategory{FailedEarlier: 1, Before: effort(2, 100*ms), After: effort(2, 200*ms)}},
		"pushback too long": {keep, func(r *policy.Retry) { r.MaxPushback = time.Second }, attempts{{asked, ms}, {decision.Facts{}, ms}}, "",
			audit.WhatIfCategory{FailedEarlier: 1, LostSuccesses: 1, Before: effort(2, 2*time.Second), After: effort(1, 0)}},
		"attempts cut off": {keep, func(r *policy.Retry) { r.TimeoutPerAttempt = 5 * ms }, third, "",
			audit.WhatIfCategory{CannotKnow: 1}},
		"shorter timeouts": {func(r *policy.Retry) { r.TimeoutPerAttempt = 50 * ms }, func(r *policy.Retry) { r.TimeoutPerAttempt = 20 * ms },
			attempts{{late, 50 * ms}, {decision.Facts{}, 10 * ms}}, "",
			audit.WhatIfCategory{SucceededEarlier: 1, Before: effort(2, 100*ms), After: effort(2, 100*ms)}},
		"longer timeouts": {func(r *policy.Retry) { r.TimeoutPerAttempt = 50 * ms }, func(r *policy.Retry) { r.TimeoutPerAttempt = 70 * ms },
			attempts{{late, 50 * ms}, {decision.Facts{}, 10 * ms}}, "",
			audit.WhatIfCategory{CannotKnow: 1}},
		"cancelled while waiting": {keep, keep, attempts{{failed, ms}}, policy.ReasonCanceled,
			audit.WhatIfCategory{Same: 1, Before: effort(1, 99*ms), After: effort(1, 99*ms)}},
		"cancelled during a longer wait": {keep, func(r *policy.Retry) { r.InitialBackoff = time.Second }, attempts{{failed, ms}}, policy.ReasonCanceled,
			audit.WhatIfCategory{Same: 1, Before: effort(1, 99*ms), After: effort(1, 99*ms)}},
		"cancelled, but a shorter wait": {keep, func(r *policy.Retry) { r.InitialBackoff = 20 * ms }, attempts{{failed, ms}}, policy.ReasonCanceled,
			audit.WhatIfCategory{CannotKnow: 1}},
		"cancelled, fewer attempts": {keep, func(r *policy.Retry) { r.MaxAttempts = 1 }, attempts{{failed, ms}}, policy.ReasonCanceled,
			audit.WhatIfCategory{FailedEarlier: 1, Before: effort(1, 99*ms), After: effort(1, 0)}},
		"cancelled during an attempt, which longer waits would not have begun": {keep, func(r *policy.Retry) { r.InitialBackoff = time.Second },
			attempts{{failed, 10 * ms}, {decision.Facts{Failed: true, Ended: policy.ReasonCanceled}, 50 * ms}}, "",
			audit.WhatIfCategory{FailedEarlier: 1, Before: effort(2, 100*ms), After: effort(1, 150*ms)}},
		"unfinished": {keep, keep, attempts{{failed, ms}}, "", audit.WhatIfCategory{CannotKnow: 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, 1)
			p := base(c.before)
			r.snapshot(p)
			r.call(p, c.call, c.interrupted)
			c.want.Works = 1
			if diff := cmp.Diff(c.want, whatIf(t, chained(t, "a", r.events), base(c.after)).Total); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func effort(attempts int, waiting time.Duration) audit.Effort {
	return audit.Effort{Attempts: attempts, Waiting: audit.Seconds(waiting)}
}

// TestP11WhatIfUsesTheCatalog: the catalog judges calls of a category that the document does not name.
func TestP11WhatIfUsesTheCatalog(t *testing.T) {
	p := compiled(t, "nats.publish", func(p *policy.Policy) { p.Category, p.Retry.MaxAttempts = policy.NATSPublish, 5 })
	r := newRecording(t, 1)
	r.snapshot(p)
	r.call(p, attempts{{failed, 1}, {failed, 1}, {failed, 1}, {decision.Facts{}, 1}}, "")
	for i := range r.events {
		r.events[i].Category = policy.NATSPublish.Code()
	}
	got := whatIf(t, chained(t, "a", r.events)).Total
	if got.FailedEarlier != 1 || got.LostSuccesses != 1 || got.After.Attempts != 3 || time.Duration(got.After.Waiting) < time.Second {
		t.Errorf("the catalog's 3 attempts from 500 ms on do not apply: %+v", got)
	}
}

func TestA4MissingAttemptsCannotBeKnown(t *testing.T) {
	log, _ := recorded(t, 8, 200)
	at := slices.IndexFunc(log, func(line []byte) bool { return parsed(t, line).Type == audit.RetryAttempt })
	got := whatIf(t, slices.Delete(log, at, at+1), catalogue(t)...)
	if got.Total.CannotKnow != 1 || got.Total.Same != got.Total.Works-1 {
		t.Errorf("%+v", got.Total)
	}
}

func TestA4StepsOfATransactionAreEvaluatedSeparately(t *testing.T) {
	step := func(name string, most int) *policy.Policy {
		return compiled(t, "consumer/a."+name, func(p *policy.Policy) {
			p.Retry = policy.Retry{MaxAttempts: most, InitialBackoff: time.Second, Jitter: policy.JitterNone}
		})
	}
	process, success, exception := step("process", 3), step("success", 1), step("exception", 1)
	r := newRecording(t, 1)
	for _, p := range []*policy.Policy{process, success, exception} {
		r.snapshot(p)
	}
	spent := attempts{{failed, 1}, {failed, 1}, {failed, 1}}
	good := attempts{{decision.Facts{}, 1}}
	late := attempts{{failed, 1}, {decision.Facts{}, 1}}
	transaction := func(steps func(record func(*policy.Policy, attempts))) {
		r.work++
		first := len(r.events)
		steps(func(p *policy.Policy, list attempts) {
			r.work--
			r.call(p, list, "")
		})
		for i := range r.events[first:] {
			e := &r.events[first+i]
			e.Surface, e.WorkSeq = string(policy.SurfaceStep), i+1
		}
	}
	transaction(func(record func(*policy.Policy, attempts)) { record(process, spent); record(exception, good) })
	transaction(func(record func(*policy.Policy, attempts)) { record(process, late); record(success, good) })
	transaction(func(record func(*policy.Policy, attempts)) { record(process, spent); record(process, spent) }) // redelivered
	log := chained(t, "a", r.events)

	same := whatIf(t, log, process, success, exception).Total
	if same.Works != 6 || same.Same != 6 || same.Before.Attempts != 13 {
		t.Errorf("under the same policies: %+v", same)
	}
	got := whatIf(t, log, step("process", 1), success, exception).Total
	want := audit.WhatIfCategory{
		Works: 6, Same: 1, FailedEarlier: 4, LostSuccesses: 1, CannotKnow: 1, // whether success was eventually handled
		Before: audit.Effort{Attempts: 12, Waiting: audit.Seconds(10 * time.Second)}, After: audit.Effort{Attempts: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := whatIf(t, log, step("process", 5), success, exception).Total; got.CannotKnow != 4 || got.Same != 2 {
		t.Errorf("where attempts are missing: %+v", got)
	}
	if s, err := audit.Statistics(context.Background(), log, audit.Spill{}); err != nil || s.Total.Calls != 4 || s.Total.Attempts != 11 || len(s.Categories) != 3 {
		t.Errorf("statistics: %+v %v", s.Total, err)
	}
}

func TestA4WhatIfIsStable(t *testing.T) {
	works := 300 // shuffled a hundred times
	if testing.Short() {
		works = 100
	}
	log, _ := recorded(t, 9, works)
	log = append(log, log[50:90]...)
	other := compiled(t, "user.Get", func(p *policy.Policy) { p.Retry.MaxAttempts, p.Retry.InitialBackoff = 2, time.Millisecond })
	want, _ := json.Marshal(whatIf(t, log, other))
	rapid.Check(t, func(rt *rapid.T) {
		shuffled := slices.Clone(log)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 1)).Shuffle(len(log), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got, _ := json.Marshal(whatIf(t, shuffled, other)); string(got) != string(want) {
			rt.Error(cmp.Diff(string(want), string(got)))
		}
	})
}

func TestWhatIfNeedsPolicies(t *testing.T) {
	log, _ := recorded(t, 9, 3)
	if _, err := audit.WhatIf(context.Background(), log, nil, audit.ReplayOptions{}); err == nil {
		t.Error("no error")
	}
}
