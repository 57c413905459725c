package audit

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func anyDuration() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(anyNanos.Draw(t, "duration")) })
}

func anyOutcome() *rapid.Generator[classify.Outcome] {
	return rapid.Custom(func(t *rapid.T) classify.Outcome {
		o := classify.Outcome{
			Kind: classify.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Category: classify.Category(rapid.IntRange(0, 3).Draw(t, "category")),
			Class: policy.Class(rapid.StringMatching(`[a-z_]{0,8}`).Draw(t, "class")), Reason: policy.ReasonError, Pushback: anyDuration().Draw(t, "pushback"),
		}
		if rapid.Bool().Draw(t, "attributes") {
			o.Attributes = map[string]string{"detail": "x", rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "name"): "y"}
		}
		return o
	})
}

// TestA4DecisionsSurviveStorage writes random decisions as lines and reads back all of their inputs.
func TestA4DecisionsSurviveStorage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &observe.Decision{
			Outcome: anyOutcome().Draw(t, "outcome"), Rule: rapid.SampledFrom([]decision.Rule{decision.RuleDefault, decision.RuleClassifier}).Draw(t, "rule"),
			Facts: decision.Facts{
				Failed: true, Ended: rapid.SampledFrom([]policy.Reason{"", policy.ReasonCanceled}).Draw(t, "ended"), TimedOut: rapid.Bool().Draw(t, "timed out"),
				Mark: classify.Mark(rapid.IntRange(0, 3).Draw(t, "mark")), Pushback: anyDuration().Draw(t, "asked"),
			},
			State: decision.State{
				Surface: rapid.SampledFrom([]policy.Surface{policy.SurfaceCall, policy.SurfaceJob}).Draw(t, "surface"), Attempt: rapid.IntRange(0, 1000).Draw(t, "attempt"),
				MaxAttempts: rapid.IntRange(0, 1000).Draw(t, "limit"), Left: decision.Unbounded, Seed: rapid.Uint64().Draw(t, "seed"),
			},
			Verdict: decision.Verdict{
				Action: decision.Action(rapid.IntRange(0, 2).Draw(t, "action")), Delay: anyDuration().Draw(t, "delay"), Reason: policy.ReasonRetry,
				External: rapid.Bool().Draw(t, "external"),
			},
			Elapsed: anyDuration().Draw(t, "elapsed"), Attempt: 3, Group: rapid.SampledFrom([][]int{nil, {3}, {4, 3}}).Draw(t, "group"), Err: errDown,
		}
		if d.Verdict.External && d.Verdict.Action == decision.Retry {
			d.State.External, d.State.Delay = true, d.Verdict.Delay
		}
		if rapid.Bool().Draw(t, "bounded") {
			d.State.Left, d.State.LeftReason = anyDuration().Draw(t, "left"), policy.ReasonOverallTimeout
		}
		if rapid.Bool().Draw(t, "classified") {
			o := anyOutcome().Draw(t, "classified as")
			d.Facts.Classified = &o
		}
		if rapid.Bool().Draw(t, "classes") {
			d.Facts.Classes = []classify.Match{{Class: "http_503", Parent: "upstream"}, {Class: "eof"}}
		}
		e := decisionEvent(&observe.Event{Type: observe.Decided, Time: start, Decision: d}, 1, nil, nil)
		var w encoder
		w.event(&e)
		got, err := ParseLine(w.b)
		if err != nil {
			t.Fatal(err)
		}
		back := observe.Decision{Rule: got.MatchedRule, State: got.State(), Attempt: got.Attempt, Group: got.Group, Elapsed: got.Elapsed(), Err: errDown}
		var judged bool
		back.Facts, judged, err = got.JudgedFrom()
		if err != nil || !judged {
			t.Fatal(judged, err)
		}
		if back.Outcome, err = got.Outcome(); err != nil {
			t.Fatal(err)
		}
		if back.Verdict, err = got.Verdict(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*d, back, cmp.Comparer(func(a, b error) bool { return a == b })); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestA4ZeroLeftIsNotUnbounded(t *testing.T) {
	e := failed("call", 1)
	e.Decision.State.Left, e.Decision.State.LeftReason = 0, policy.ReasonDeadlineExceeded
	stored := decisionEvent(e, 1, nil, nil)
	var w encoder
	w.event(&stored)
	if got, err := ParseLine(w.b); err != nil || got.State().Left != 0 || !strings.Contains(string(w.b), `"left_ns":0,`) {
		t.Errorf("%v: %s", err, w.b)
	}
	stored = decisionEvent(failed("call", 1), 1, nil, nil)
	if stored.LeftNS != nil || stored.State().Left != math.MaxInt64 {
		t.Errorf("unbounded is stored as %v", stored.LeftNS)
	}
}

func TestA4UnrestorableDecisionsAreErrors(t *testing.T) {
	for name, e := range map[string]Event{
		"outcome kind":     {OutcomeKind: "fine"},
		"outcome category": {OutcomeKind: "success", OutcomeCategory: "other"},
		"mark":             {OutcomeKind: "success", MatchedRule: "mark", Facts: &Facts{Mark: "x"}, Decision: "done"},
		"classified":       {OutcomeKind: "success", MatchedRule: "mark", Facts: &Facts{Classified: &Outcome{}}, Decision: "done"},
		"decision":         {OutcomeKind: "success", Decision: "perhaps"},
	} {
		_, _, facts := e.JudgedFrom()
		_, outcome := e.Outcome()
		_, verdict := e.Verdict()
		if errors.Join(facts, outcome, verdict) == nil {
			t.Errorf("%s: restored", name)
		}
	}
	if _, err := (&Event{PolicyRevision: "r", Policy: []byte(`{"retry":{"unknown":1}}`)}).Snapshot(); err == nil || !strings.Contains(err.Error(), "revision r") {
		t.Errorf("policy: %v", err)
	}
	if _, judged, err := (&Event{}).JudgedFrom(); judged || err != nil {
		t.Errorf("an empty decision is restored: %v, %v", judged, err)
	}
}

func TestA1TypesOfErrors(t *testing.T) {
	for want, err := range map[string]error{
		"*errors.errorString": fmt.Errorf("get: %w", errors.Join(nil, fmt.Errorf("%w and %w", classify.Permanent(errDown), errSink))),
		"*audit.broken":       fmt.Errorf("get: %w", &broken{"x"}),
		"*audit.wrapping":     &wrapping{errDown},
		"*fmt.wrapError":      fmt.Errorf("%w", nil),
		"":                    nil,
	} {
		if kind, message := describe(err); kind != want || (err != nil) != (message != "") {
			t.Errorf("%v: %q, want %q", err, kind, want)
		}
	}
}

type wrapping struct{ error }

func (w *wrapping) Unwrap() error { return w.error }

func TestA1TextIsBoundedAndStorable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "é\x00\xff": "é\ufffd\ufffd", strings.Repeat("x", longestText): strings.Repeat("x", longestText),
		strings.Repeat("é", longestText):       strings.Repeat("é", longestText/2) + "…",
		"x" + strings.Repeat("é", longestText): "x" + strings.Repeat("é", longestText/2-1) + "…",
	} {
		if got := clean(in); got != want || !utf8.ValidString(got) {
			t.Errorf("%.20q: %d bytes, want %d", in, len(got), len(want))
		}
	}
	many := map[string]string{}
	for n := range 2 * mostAttributes {
		many[fmt.Sprintf("a%03d", n)] = "x"
	}
	if got := bounded(many, attributeBytes, clean); len(got) != mostAttributes || got["a000"] == "" || len(many) != 2*mostAttributes {
		t.Errorf("%d attributes", len(got))
	}
	large := map[string]string{"a": strings.Repeat("x", longestText), "b": strings.Repeat("x", longestText), "c": "x"}
	if got := bounded(large, attributeBytes, clean); len(got) != 1 || got["a"] != large["a"] {
		t.Errorf("of more than %d bytes %d attributes are kept", attributeBytes, len(got))
	}
	if got := bounded(map[string]string{"a\x00": "b\x00", "c": "d"}, attributeBytes, clean); !cmp.Equal(got, map[string]string{"a\ufffd": "b\ufffd", "c": "d"}) {
		t.Errorf("%q", got)
	}
}

func TestA1EventsWithoutTimeGetOne(t *testing.T) {
	o := failed("call", 1)
	o.Time = time.Time{}
	if e := decisionEvent(o, 1, nil, nil); e.Time.IsZero() || e.Time.Nanosecond()%1000 != 0 {
		t.Errorf("at %v", e.Time)
	}
}

func TestA1JobTransitions(t *testing.T) {
	o := failed("job-1", 1)
	o.Type, o.Work.Key, o.Work.Surface = observe.JobMoved, policy.JobKey("emails", "send"), policy.SurfaceJob
	o.Transition = &observe.Transition{From: "running", To: "dead", Reason: policy.ReasonLeaseExpired, Attempts: 3, Worker: "w-1"}
	var e Event
	e.moved(o)
	if e.Type != JobTransition || e.From != "running" || e.To != "dead" || e.Reason != policy.ReasonLeaseExpired || e.TotalAttempts != 3 || e.Actor != "w-1" || e.WorkID != "job-1" {
		t.Errorf("%+v", e)
	}
}

func TestA1ARefusedRetryShowsWhoRefused(t *testing.T) {
	denied := &observe.AttemptRecord{
		Attempt: 2, RetryIndex: 1, Denied: true, BudgetReason: policy.ReasonBudgetDenied, Circuit: "closed",
		Outcome: classify.Outcome{Kind: classify.Abort, Attributes: map[string]string{observe.AttrDetail: "bucket is empty"}},
	}
	o := decisionOf("call", 1, errDown, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonBudgetDenied})
	e := decisionEvent(o, 1, &observe.AttemptRecord{Attempt: 1, BudgetAllowed: true, BudgetReason: policy.ReasonAllowed}, denied)
	if !e.Denied || *e.BudgetAllowed || e.BudgetReason != policy.ReasonBudgetDenied || e.Circuit != "closed" || e.Detail != "bucket is empty" ||
		e.Attempt != 1 || e.RetryIndex != 0 || e.Attributes != nil {
		t.Errorf("%+v", e)
	}
	o.Decision.Attempt = 2 // refused at launch
	if e := decisionEvent(o, 1, nil, denied); e.RetryIndex != 1 {
		t.Errorf("retry index %d", e.RetryIndex)
	}
}

func TestA1EventsCarryTheAttributesOfTheirWork(t *testing.T) {
	work := observe.Attributes{}.With("region", "eu").With("limit", "work's")
	o := failed("call", 1)
	o.Work.Attributes = work
	o.Decision = &observe.Decision{Outcome: classify.Outcome{Attributes: map[string]string{"limit": "10"}}, Err: errDown}
	want := map[string]string{"region": "eu", "limit": "10"}
	e := decisionEvent(o, 1, nil, nil)
	if diff := cmp.Diff(want, e.Attributes); diff != "" {
		t.Error(diff)
	}
	o.Attempt = &observe.AttemptRecord{}
	var hedge Event
	hedge.hedged(o)
	if diff := cmp.Diff(map[string]string{"region": "eu", "limit": "work's"}, hedge.Attributes); diff != "" {
		t.Error(diff)
	}
	if len(o.Decision.Outcome.Attributes) != 1 {
		t.Error("the outcome's own attributes were changed")
	}
}

func TestA1TheBudgetsMessageIsRecorded(t *testing.T) {
	said := func(reason, detail string) classify.Outcome {
		return classify.Outcome{Attributes: map[string]string{observe.AttrBudgetReason: reason, observe.AttrDetail: detail}}
	}
	ended := &observe.AttemptRecord{Attempt: 1, BudgetAllowed: true, BudgetReason: policy.ReasonAllowed, Outcome: said("soft_limit", "9 of 10")}
	denied := &observe.AttemptRecord{Attempt: 2, Denied: true, BudgetReason: policy.ReasonBudgetDenied, Outcome: said("hard_limit", "10 of 10")}
	o := decisionOf("call", 1, errDown, decision.Verdict{Action: decision.Retry})
	e := decisionEvent(o, 1, ended, nil)
	if e.Attributes[observe.AttrBudgetReason] != "soft_limit" || e.Attributes[observe.AttrDetail] != "9 of 10" {
		t.Errorf("allowed: %v", e.Attributes)
	}
	e = decisionEvent(o, 1, ended, denied)
	if e.Attributes[observe.AttrBudgetReason] != "hard_limit" || e.Detail != "10 of 10" {
		t.Errorf("denied: %v, detail %q", e.Attributes, e.Detail)
	}
}

func decisionEvent(o *observe.Event, total int, ended, denied *observe.AttemptRecord) (e Event) {
	e.decided(o, total, ended, denied)
	return e
}
