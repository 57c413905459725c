package audit_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// incident records a call that succeeded at the third attempt, among other calls, and returns its policy and case.
func incident(t *testing.T) (*policy.Policy, *audit.Case) {
	t.Helper()
	p := compiled(t, "user.Get", func(p *policy.Policy) {
		p.Retry = policy.Retry{MaxAttempts: 4, InitialBackoff: 100 * time.Millisecond, MaxBackoff: time.Second}
	})
	r := newRecording(t, 1)
	r.snapshot(p)
	other := compiled(t, "other.Call", func(p *policy.Policy) { p.Retry.MaxAttempts = 2 })
	r.snapshot(other)
	r.call(other, attempts{{failed, 1}, {failed, 1}}, "")
	r.call(p, attempts{{failed, 10 * time.Millisecond}, {failed, 10 * time.Millisecond}, {decision.Facts{}, 10 * time.Millisecond}}, "")
	c, err := audit.Extract(t.Context(), chained(t, "a", r.events), eventID(r.work))
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func compare(t *testing.T, c *audit.Case, policies ...*policy.Policy) *audit.Comparison {
	t.Helper()
	got, err := c.Compare(setOf(policies...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestT5ACaseReplaysByItself: the case survives its file form, whatever the layout, and holds all that replay and explain need.
func TestT5ACaseReplaysByItself(t *testing.T) {
	p, extracted := incident(t)
	text, err := json.MarshalIndent(extracted, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	c, err := audit.ParseCase(text)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "other.Call") || len(c.Events) != 4 {
		t.Errorf("the case has %d events, or other work:\n%s", len(c.Events), text)
	}
	replayed, err := audit.Replay(t.Context(), c, audit.ReplayOptions{})
	if err != nil || replayed.Replayed != 1 || replayed.Works != 1 || replayed.Decisions != 3 {
		t.Errorf("%+v, %v", replayed, err)
	}
	if got := compare(t, c, p); !got.Same() || len(got.Parts) != 1 || len(got.Parts[0].Decisions) != 3 {
		t.Errorf("under the recorded policy, jitter included:\n%s", got)
	}
}

// TestT5AComparisonNamesTheFirstDecisionThatDiffers: after it, the record has nothing to compare with.
func TestT5AComparisonNamesTheFirstDecisionThatDiffers(t *testing.T) {
	p, c := incident(t)
	under := func(edit func(r *policy.Retry)) *audit.Comparison {
		return compare(t, c, compiled(t, "user.Get", func(n *policy.Policy) { n.Retry = p.Retry; edit(&n.Retry) }))
	}
	fewer := under(func(r *policy.Retry) { r.MaxAttempts = 2 })
	part := fewer.Parts[0]
	if fewer.Same() || len(part.Decisions) != 2 || !part.Decisions[0].Same() || part.Decisions[1].Same() ||
		part.Now.Reason != policy.ReasonAttemptsExhausted || part.Now.Attempts != 2 || part.Recorded.Decision != decision.Done || part.Recorded.Attempts != 3 {
		t.Errorf("%+v", part)
	}
	for _, want := range []string{"now:      stop (attempts_exhausted)\n", "recorded:   done (success) after 3 attempts", "now:        stop (attempts_exhausted) after 2 attempts"} {
		if !strings.Contains(fewer.String(), want) {
			t.Errorf("%q is not in\n%s", want, fewer)
		}
	}
	if slower := under(func(r *policy.Retry) { r.InitialBackoff *= 2 }); slower.Same() || slower.Parts[0].Now.Waiting <= part.Recorded.Waiting {
		t.Errorf("%s", slower)
	}
	if cut := under(func(r *policy.Retry) { r.TimeoutPerAttempt = 5 * time.Millisecond }); cut.Same() || cut.Parts[0].Now.Unknown != audit.UnknownTimeout || len(cut.Parts[0].Decisions) != 0 {
		t.Errorf("%s", cut)
	}
}

// TestT5ACaseThatStoppedSaysThatMoreAttemptsAreUnknown: an attempt that never ran has no recorded outcome.
func TestT5ACaseThatStoppedSaysThatMoreAttemptsAreUnknown(t *testing.T) {
	p := compiled(t, "user.Get", func(p *policy.Policy) { p.Retry.MaxAttempts = 2 })
	r := newRecording(t, 1)
	r.snapshot(p)
	r.call(p, attempts{{failed, 1}, {failed, 1}}, "")
	c, err := audit.Extract(t.Context(), chained(t, "a", r.events), eventID(r.work))
	if err != nil {
		t.Fatal(err)
	}
	got := compare(t, c, compiled(t, "user.Get", func(n *policy.Policy) { n.Retry = p.Retry; n.Retry.MaxAttempts = 3 }))
	if end := got.Parts[0].Now; got.Same() || end.Unknown != audit.UnknownAttempts || end.Attempts != 2 || got.Parts[0].Decisions[1].Now.Action != decision.Retry {
		t.Errorf("%s", got)
	}
}

func TestT5ABrokenCaseIsRefused(t *testing.T) {
	_, good := incident(t)
	cases := map[string]func(c *audit.Case){
		"version: 2 is not 1":                 func(c *audit.Case) { c.Version = 2 },
		"work_id":                             func(c *audit.Case) { c.WorkID = "another" },
		"no decision is recorded":             func(c *audit.Case) { c.Events = c.Events[:1] },
		"events[2]: event_id is missing":      func(c *audit.Case) { c.Events[2].ID = "" },
		"events[1]: schema_version 99 is not": func(c *audit.Case) { c.Events[1].SchemaVersion = 99 },
	}
	for want, edit := range cases {
		broken := *good
		broken.Events = append([]audit.Event(nil), good.Events...)
		edit(&broken)
		text, err := json.Marshal(broken)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := audit.ParseCase(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := audit.ParseCase([]byte("{")); err == nil {
		t.Error("half an object is a case")
	}
	if _, err := good.Compare(nil); err == nil {
		t.Error("nil is a set")
	}
	if _, err := audit.Extract(t.Context(), good, "nobody"); !errors.Is(err, audit.ErrNoWork) {
		t.Error(err)
	}
}
