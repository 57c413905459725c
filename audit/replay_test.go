package audit_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

func replay(t testing.TB, s audit.Source, o audit.ReplayOptions) *audit.ReplayReport {
	t.Helper()
	r, err := audit.Replay(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestA4RecordedWorkReplays(t *testing.T) {
	works := 2000
	if testing.Short() {
		works = 500
	}
	log, r := recorded(t, 1, works)
	got := replay(t, log, audit.ReplayOptions{})
	if got.Works != r.work || got.Replayed != r.work || got.Diverged != 0 || got.CannotReplay.Total() != 0 || got.Lines != len(log) {
		t.Fatalf("%d works: %+v", r.work, got)
	}
	if got.Groups == 0 || got.Delays == 0 || got.Judgements < got.Decisions || got.Facts == 0 {
		t.Errorf("some kind of event was not replayed: %+v", got)
	}
}

func TestA4DivergenceIsFound(t *testing.T) {
	log, _ := recorded(t, 2, 400)
	find := func(want func(e audit.Event) bool) int {
		return slices.IndexFunc(log, func(line []byte) bool { return want(parsed(t, line)) })
	}
	cases := map[string]struct {
		at   int
		edit func(e *audit.Event)
		what string
	}{
		"delay":    {find(func(e audit.Event) bool { return e.Type == audit.RetryAttempt }), func(e *audit.Event) { e.DelayNS++ }, "delay"},
		"decision": {find(func(e audit.Event) bool { return e.Type == audit.RetryExhausted }), func(e *audit.Event) { e.Decision, e.Reason = "retry", "retry" }, "decision"},
		"success":  {find(func(e audit.Event) bool { return e.Type == audit.CallStopped && !e.Denied }), func(e *audit.Event) { e.OutcomeKind = "success" }, "judgement"},
		"rule":     {find(func(e audit.Event) bool { return e.MatchedRule == decision.RuleDefault }), func(e *audit.Event) { e.MatchedRule = decision.RuleMark }, "judgement"},
		"facts":    {find(func(e audit.Event) bool { return e.Facts != nil && len(e.Group) < 2 }), func(e *audit.Event) { e.Facts = nil }, "judgement"},
		"seed":     {find(func(e audit.Event) bool { return e.Seed != 0 && e.Type == audit.RetryAttempt && e.PushbackNS == 0 }), func(e *audit.Event) { e.Seed ^= 1 << 40 }, "delay"},
		"denial":   {find(func(e audit.Event) bool { return e.Type == audit.RetryExhausted }), func(e *audit.Event) { e.Reason = policy.ReasonBudgetDenied }, "decision"},
		"hedge":    {find(func(e audit.Event) bool { return e.Type == audit.Hedge && e.MatchedRule != "" }), func(e *audit.Event) { e.OutcomeReason = "forged" }, "judgement"},
		"group":    {find(func(e audit.Event) bool { return len(e.Group) > 1 }), func(e *audit.Event) { e.Deciding += 7 }, "group"},
		"left": {find(func(e audit.Event) bool { return e.LeftNS != nil && e.Type == audit.RetryAttempt }), func(e *audit.Event) {
			left := audit.Nanos(1)
			e.LeftNS = &left
		}, "decision"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.at < 0 {
				t.Fatal("the log has no such event")
			}
			e := parsed(t, log[c.at])
			c.edit(&e)
			changed := log.clone()
			changed[c.at] = sealed(t, &e)
			got := replay(t, changed, audit.ReplayOptions{})
			if got.Diverged != 1 || len(got.Divergences) != 1 {
				t.Fatalf("%+v", got)
			}
			if d := got.Divergences[0]; d.EventID != e.ID || d.What != c.what || d.Recorded == d.Replayed {
				t.Errorf("%+v, want %s at %s", d, c.what, e.ID)
			}
		})
	}
}

func TestA4ReplayUsesThePolicyOfTheSnapshot(t *testing.T) {
	log, r := recorded(t, 3, 200)
	without := slices.DeleteFunc(log.clone(), func(line []byte) bool { return parsed(t, line).Type == audit.PolicySnapshot })
	got := replay(t, without, audit.ReplayOptions{})
	if got.CannotReplay.Policy != r.work || got.Diverged != 0 {
		t.Errorf("without snapshots: %+v", got)
	}
	other := log.clone()
	for i, line := range other {
		e := parsed(t, line)
		if e.Type == audit.PolicySnapshot && e.Key == "user.Get" {
			e.Policy, _ = json.Marshal(compiled(t, "user.Get", func(p *policy.Policy) { p.Retry.MaxAttempts = 2 }))
			other[i] = sealed(t, &e)
		}
	}
	if got := replay(t, other, audit.ReplayOptions{}); got.Diverged+got.CannotReplay.Policy == 0 {
		t.Errorf("another policy makes no difference: %+v", got)
	}
}

func TestA4MissingRecordsAreReported(t *testing.T) {
	log, _ := recorded(t, 4, 300)
	at := slices.IndexFunc(log, func(line []byte) bool { return len(parsed(t, line).Group) > 1 })
	work := parsed(t, log[at]).WorkID
	without := slices.DeleteFunc(log.clone(), func(line []byte) bool { e := parsed(t, line); return e.Type == audit.Hedge && e.WorkID == work })
	if got := replay(t, without, audit.ReplayOptions{}); got.CannotReplay.Attempt != 1 || got.Diverged != 0 {
		t.Errorf("attempts of a group are missing: %+v", got)
	}
	for what, edit := range map[string]func(e *audit.Event){
		"core":  func(e *audit.Event) { e.CoreVersion = "99" },
		"value": func(e *audit.Event) { e.OutcomeKind = "perhaps" },
	} {
		e := parsed(t, log[len(log)-1])
		edit(&e)
		changed := append(log[:len(log)-1].clone(), sealed(t, &e))
		if got := replay(t, changed, audit.ReplayOptions{}); got.CannotReplay.Total() != 1 || got.Diverged != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := replay(t, append(log.clone(), []byte("rubbish"), []byte(`{"a":1}`)), audit.ReplayOptions{}); got.Unreadable != 2 || got.Diverged != 0 {
		t.Errorf("unreadable lines: %+v", got)
	}
}

// TestA4FactsAreKept: denials, interruptions and delays of user code are facts.
func TestA4FactsAreKept(t *testing.T) {
	p := compiled(t, "user.Get", func(p *policy.Policy) { p.Retry.Jitter = policy.JitterNone })
	facts := decision.Facts{Failed: true}
	o, rule := decision.Judge(&p.Retry, &facts)
	base := audit.Event{WorkID: "w", Surface: "call", Key: "user.Get", PolicyRevision: p.Meta.Revision}
	cases := map[string]struct {
		state   decision.State
		verdict decision.Verdict
		judged  bool
		diverge bool
	}{
		"retry refused":                      {decision.State{Attempt: 1, Left: decision.Unbounded}, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonCircuitOpen}, true, false},
		"nothing to refuse":                  {decision.State{Attempt: 3, Left: decision.Unbounded}, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonCircuitOpen}, true, true},
		"journal refused":                    {decision.State{Attempt: 3, Left: decision.Unbounded}, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAuditUnavailable}, true, false},
		"cancelled while waiting":            {decision.State{Attempt: 1, Left: decision.Unbounded}, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonCanceled}, false, false},
		"first attempt denied":               {decision.State{Left: decision.Unbounded}, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonBudgetDenied}, false, false},
		"external":                           {decision.State{Attempt: 1, Left: decision.Unbounded}, decision.Verdict{Action: decision.Retry, Reason: policy.ReasonRetry, Delay: time.Hour, External: true}, true, false},
		"external delay after the end":       {decision.State{Attempt: 1, Left: time.Second, LeftReason: policy.ReasonOverallTimeout}, decision.Verdict{Action: decision.Retry, Reason: policy.ReasonRetry, Delay: time.Hour, External: true}, true, true},
		"external stop":                      {decision.State{Attempt: 1, Left: time.Second, LeftReason: policy.ReasonOverallTimeout}, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonOverallTimeout, External: true}, true, false},
		"external delay, attempts exhausted": {decision.State{Attempt: 3, Left: decision.Unbounded}, decision.Verdict{Action: decision.Retry, Reason: policy.ReasonRetry, Delay: 5, External: true}, true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, 1)
			r.snapshot(p)
			e := base
			if c.judged {
				judged(&e, o, rule, facts)
			} else {
				e.OutcomeKind, e.OutcomeReason = "abort", c.verdict.Reason
			}
			c.state.Surface = policy.SurfaceCall
			decided(&e, c.state, c.verdict)
			r.add(e)
			got := replay(t, chained(t, "a", r.events), audit.ReplayOptions{})
			if (got.Diverged == 1) != c.diverge || got.Works != 1 || got.CannotReplay.Total() != 0 {
				t.Errorf("%+v", got)
			}
			if !c.diverge && got.Facts == 0 {
				t.Errorf("a fact was not kept: %+v", got)
			}
		})
	}
}

// TestA4ReportIsStable checks that the report is byte for byte the same for the log in any order, with repeated deliveries, in
// memory and on disk.
func TestA4ReportIsStable(t *testing.T) {
	log, _ := recorded(t, 5, 300)
	for i := 20; i < len(log); i += 37 { // divergences to report
		e := parsed(t, log[i])
		e.DelayNS += 5
		log[i] = sealed(t, &e)
	}
	log = append(log, log[100:150]...)
	want, err := json.Marshal(replay(t, log, audit.ReplayOptions{Limit: 3}))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		shuffled := slices.Clone(log)
		seed := rapid.Uint64().Draw(rt, "order")
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		memory := rapid.SampledFrom([]int64{0, 1, 10_000}).Draw(rt, "memory")
		got, err := json.Marshal(replay(t, shuffled, audit.ReplayOptions{Limit: 3, Spill: audit.Spill{Memory: memory, Dir: dir}}))
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			rt.Error(diff)
		}
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v %v", left, err)
	}
	if got := replay(t, log, audit.ReplayOptions{Limit: 3}); got.Diverged < 4 || len(got.Divergences) != 3 || got.Duplicates == 0 {
		t.Errorf("the log does not exercise the report: %+v", got)
	}
}

func TestA4AnUnwritableTemporaryFileIsAnError(t *testing.T) {
	log, _ := recorded(t, 6, 50)
	_, err := audit.Replay(context.Background(), log, audit.ReplayOptions{Spill: audit.Spill{Memory: 1, Dir: t.TempDir() + "/missing"}})
	if err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := audit.Replay(ctx, log, audit.ReplayOptions{}); err == nil {
		t.Error("no error after cancellation")
	}
}

// TestA4DamagedLinesAreSkipped checks that reading a damaged log neither fails nor panics, and that a damaged line affects
// only its own work.
func TestA4DamagedLinesAreSkipped(t *testing.T) {
	log, r := recorded(t, 11, 20)
	policies := len(catalogue(t))
	rapid.Check(t, func(rt *rapid.T) {
		damaged := slices.Clone(log)
		i := rapid.IntRange(policies, len(log)-1).Draw(rt, "line")
		line := slices.Clone(log[i])
		switch at := rapid.IntRange(0, len(line)-1).Draw(rt, "at"); rapid.IntRange(0, 2).Draw(rt, "how") {
		case 0:
			line[at] = rapid.Byte().Draw(rt, "byte")
		case 1:
			line = line[:at]
		default:
			line = slices.Insert(line, at, rapid.SliceOfN(rapid.SampledFrom([]byte(`{}[]",:\0e-`)), 1, 9).Draw(rt, "inserted")...)
		}
		damaged[i] = line
		verify(t, damaged)
		statistics(t, damaged)
		whatIf(t, damaged)
		got := replay(t, damaged, audit.ReplayOptions{})
		if got.Replayed < r.work-2 || got.Works > r.work+1 {
			rt.Fatalf("%s: %+v", line, got)
		}
	})
}
