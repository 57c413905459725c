package audit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// TestT4DecisionsAreComparedByKey: each key has its changes by reason, its attempts and waits, and what the record cannot show.
func TestT4DecisionsAreComparedByKey(t *testing.T) {
	const ms = time.Millisecond
	made := func(key string, most int, backoff time.Duration) *policy.Policy {
		return compiled(t, key, func(p *policy.Policy) {
			p.Retry = policy.Retry{MaxAttempts: most, InitialBackoff: backoff, MaxBackoff: time.Second, Jitter: policy.JitterNone}
		})
	}
	fewer, slower, more, kept := made("a.Fewer", 4, 100*ms), made("a.Slower", 4, 100*ms), made("a.More", 2, 100*ms), made("a.Kept", 2, 100*ms)
	r := newRecording(t, 1)
	good := attempts{{failed, ms}, {failed, ms}, {decision.Facts{}, ms}}
	for _, p := range []*policy.Policy{fewer, slower, more, kept} {
		r.snapshot(p)
	}
	r.call(fewer, good, "")
	r.call(fewer, good, "")
	r.call(slower, good, "")
	r.call(more, attempts{{failed, ms}, {failed, ms}}, "")
	r.call(kept, attempts{{failed, ms}, {decision.Facts{}, ms}}, "")
	r.call(kept, attempts{{failed, ms}}, policy.ReasonBudgetDenied)
	r.events[len(r.events)-1].ElapsedNS += audit.Nanos(ms) // refused when the wait had ended
	got := whatIf(t, chained(t, "a", r.events), made("a.Fewer", 2, 100*ms), made("a.Slower", 4, 200*ms), made("a.More", 3, 100*ms), kept)

	none, nothing := []audit.DecisionChange{}, map[audit.Unknown]int{}
	want := []audit.WhatIfKey{
		{Key: "a.Fewer", WhatIfCategory: audit.WhatIfCategory{Works: 2, FailedEarlier: 2, LostSuccesses: 2, Before: effort(6, 600*ms), After: effort(4, 200*ms)},
			WhatIfDecisions: audit.WhatIfDecisions{Compared: 4, Changed: 2, Changes: []audit.DecisionChange{{"retry", "attempts_exhausted", 2}}, Unknown: nothing}},
		{Key: "a.Slower", WhatIfCategory: audit.WhatIfCategory{Works: 1, SucceededLater: 1, Before: effort(3, 300*ms), After: effort(3, 600*ms)},
			WhatIfDecisions: audit.WhatIfDecisions{Compared: 3, Changed: 2, Changes: []audit.DecisionChange{{"retry", "retry_later", 2}}, Unknown: nothing}},
		{Key: "a.More", WhatIfCategory: audit.WhatIfCategory{Works: 1, CannotKnow: 1},
			WhatIfDecisions: audit.WhatIfDecisions{Compared: 2, Changed: 1, Changes: []audit.DecisionChange{{"attempts_exhausted", "retry", 1}}, Unknown: map[audit.Unknown]int{audit.UnknownAttempts: 1}}},
		{Key: "a.Kept", WhatIfCategory: audit.WhatIfCategory{Works: 2, Same: 2, Before: effort(3, 200*ms), After: effort(3, 200*ms)},
			WhatIfDecisions: audit.WhatIfDecisions{Compared: 3, Changes: none, Unknown: nothing, Refused: 1}},
	}
	if diff := cmp.Diff(want, got.Keys); diff != "" {
		t.Error(diff)
	}
	if d := got.Decisions; d.Compared != 12 || d.Changed != 5 || len(d.Changes) != 3 || d.Refused != 1 || d.Unknown[audit.UnknownAttempts] != 1 {
		t.Errorf("in total: %+v", d)
	}
}

// TestT4TheListOfKeysIsBounded: the totals hold the keys that are left out.
func TestT4TheListOfKeysIsBounded(t *testing.T) {
	log, r := recorded(t, 3, 100)
	all := whatIf(t, log, catalogue(t)...)
	short, err := audit.WhatIf(t.Context(), log, setOf(catalogue(t)...), audit.ReplayOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Keys) < 2 || len(short.Keys) != 1 || short.KeysOmitted != len(all.Keys)-1 || short.Total.Works != r.work {
		t.Errorf("%d keys, then %d and %d more", len(all.Keys), len(short.Keys), short.KeysOmitted)
	}
}
