package decision_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
)

// end is an attempt of a hedged group that ended.
type end struct {
	launch  int
	outcome classify.Outcome
}

// groupModel is a model of Group that goes through all events at each call.
type groupModel struct {
	cancel   bool
	launched int
	ends     []end
}

var ranks = []classify.Kind{classify.Retryable, classify.Abort, classify.NonRetryable, classify.Success}

func (m *groupModel) has(kinds ...classify.Kind) bool {
	for _, e := range m.ends {
		for _, k := range kinds {
			if e.outcome.Kind == k {
				return true
			}
		}
	}
	return false
}

func (m *groupModel) decided() bool {
	return m.has(classify.Success) || m.cancel && m.has(classify.NonRetryable, classify.Abort) ||
		len(m.ends) > 0 && len(m.ends) == m.launched
}

func (m *groupModel) mayHedge() bool {
	return m.launched > len(m.ends) && !m.has(classify.Success, classify.NonRetryable, classify.Abort)
}

func (m *groupModel) outcome() (best classify.Outcome, launch int) {
	var longest time.Duration
	for _, kind := range ranks {
		for i := len(m.ends) - 1; i >= 0; i-- { // so that the first of its kind wins
			if e := m.ends[i]; e.outcome.Kind == kind {
				best, launch = e.outcome, e.launch
			}
		}
	}
	for _, e := range m.ends {
		longest = max(longest, e.outcome.Pushback)
	}
	if best.Kind == classify.Retryable {
		best.Pushback = longest
	}
	return best, launch
}

func TestR9GroupFollowsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cancel := rapid.Bool().Draw(t, "cancel_on_first_terminal")
		m := groupModel{cancel: cancel}
		g := decision.Group{CancelOnFirstTerminal: cancel}
		var running []int
		first := rapid.IntRange(1, 20).Draw(t, "first launch")
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if len(running) == 0 || rapid.Bool().Draw(t, "launch") {
				if m.decided() {
					break
				}
				g.Launch()
				running = append(running, first+m.launched)
				m.launched++
			} else {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				e := end{running[i], classify.Outcome{
					Kind:     rapid.SampledFrom(allKinds).Draw(t, "kind"),
					Category: classify.Category(rapid.IntRange(0, 3).Draw(t, "category")),
					Pushback: time.Duration(rapid.IntRange(0, 5).Draw(t, "pushback")),
				}}
				running = append(running[:i:i], running[i+1:]...)
				if !m.decided() {
					m.ends = append(m.ends, e)
				}
				if got := g.End(e.launch, e.outcome); got != m.decided() {
					t.Fatalf("End returns %t after %+v", got, m)
				}
			}
			if m.decided() {
				if g.MayHedge() {
					t.Fatalf("a decided group may hedge: %+v", m)
				}
			} else if got := g.MayHedge(); got != m.mayHedge() {
				t.Fatalf("MayHedge returns %t after %+v", got, m)
			}
			wantOutcome, wantLaunch := m.outcome()
			got, launch := g.Outcome()
			if diff := cmp.Diff(wantOutcome, got); diff != "" || launch != wantLaunch {
				t.Fatalf("launch %d decides, want %d: %s", launch, wantLaunch, diff)
			}
		}
	})
}

func TestR9Group(t *testing.T) {
	retryable := func(pushback time.Duration) classify.Outcome {
		return classify.Outcome{Kind: classify.Retryable, Pushback: pushback}
	}
	success := classify.Outcome{Kind: classify.Success}
	refused := classify.Outcome{Kind: classify.NonRetryable, Pushback: 3}
	abort := classify.Outcome{Kind: classify.Abort}
	cases := map[string]struct {
		cancel   bool
		launched int
		ends     []end // launches from 1, in the order of their ends
		decided  []bool
		mayHedge bool
		want     classify.Outcome
		launch   int
	}{
		"nothing runs":                      {want: classify.Outcome{}},
		"one runs":                          {launched: 1, mayHedge: true},
		"one failed, one runs":              {launched: 2, ends: []end{{1, retryable(0)}}, decided: []bool{false}, mayHedge: true, want: retryable(0), launch: 1},
		"success wins":                      {launched: 2, ends: []end{{2, success}}, decided: []bool{true}, want: success, launch: 2},
		"success after a failure":           {launched: 2, ends: []end{{1, retryable(9)}, {2, success}}, decided: []bool{false, true}, want: success, launch: 2},
		"the longest pushback":              {launched: 3, ends: []end{{2, retryable(5)}, {1, retryable(9)}, {3, retryable(7)}}, decided: []bool{false, false, true}, want: retryable(9), launch: 2},
		"success after a refusal":           {launched: 2, ends: []end{{1, refused}, {2, success}}, decided: []bool{false, true}, want: success, launch: 2},
		"success after an abort":            {launched: 2, ends: []end{{1, abort}, {2, success}}, decided: []bool{false, true}, want: success, launch: 2},
		"refusal stops hedging":             {launched: 2, ends: []end{{1, refused}}, decided: []bool{false}, want: refused, launch: 1},
		"abort stops hedging":               {launched: 2, ends: []end{{1, abort}}, decided: []bool{false}, want: abort, launch: 1},
		"refusal beats retryable":           {launched: 2, ends: []end{{1, refused}, {2, retryable(9)}}, decided: []bool{false, true}, want: refused, launch: 1},
		"refusal beats abort":               {launched: 2, ends: []end{{1, abort}, {2, refused}}, decided: []bool{false, true}, want: refused, launch: 2},
		"refusal before abort":              {launched: 2, ends: []end{{1, refused}, {2, abort}}, decided: []bool{false, true}, want: refused, launch: 1},
		"abort beats retryable":             {launched: 2, ends: []end{{1, retryable(0)}, {2, abort}}, decided: []bool{false, true}, want: abort, launch: 2},
		"cancel on refusal":                 {cancel: true, launched: 2, ends: []end{{1, refused}}, decided: []bool{true}, want: refused, launch: 1},
		"cancel on abort":                   {cancel: true, launched: 2, ends: []end{{1, abort}}, decided: []bool{true}, want: abort, launch: 1},
		"no cancel on retryable":            {cancel: true, launched: 2, ends: []end{{1, retryable(0)}}, decided: []bool{false}, mayHedge: true, want: retryable(0), launch: 1},
		"late success after a cancel":       {cancel: true, launched: 2, ends: []end{{1, abort}, {2, success}}, decided: []bool{true, true}, want: abort, launch: 1},
		"late refusal after a success":      {launched: 2, ends: []end{{1, success}, {2, refused}}, decided: []bool{true, true}, want: success, launch: 1},
		"all failed, the first is decisive": {launched: 2, ends: []end{{2, retryable(0)}, {1, retryable(0)}}, decided: []bool{false, true}, want: retryable(0), launch: 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := decision.Group{CancelOnFirstTerminal: c.cancel}
			for range c.launched {
				g.Launch()
			}
			for i, e := range c.ends {
				if got := g.End(e.launch, e.outcome); got != c.decided[i] {
					t.Errorf("end %d: decided %t", i, got)
				}
			}
			if got := g.MayHedge(); got != c.mayHedge {
				t.Errorf("MayHedge %t", got)
			}
			got, launch := g.Outcome()
			if diff := cmp.Diff(c.want, got); diff != "" || launch != c.launch {
				t.Errorf("launch %d, want %d: %s", launch, c.launch, diff)
			}
		})
	}
}
