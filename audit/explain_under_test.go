package audit_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// indexed is a log that can be searched, and must not be read as a whole.
type indexed struct{ lines }

func (indexed) Read(context.Context, string, func(string, []byte) error) error {
	return errors.New("read as a whole")
}

func (x indexed) Find(_ context.Context, q audit.Query, f func(cursor string, line []byte) error) error {
	for i := len(x.lines) - 1; i >= 0; i-- {
		e, err := audit.ParseLine(x.lines[i])
		if err != nil || q.WorkID != "" && e.WorkID != q.WorkID || q.Type != "" && e.Type != q.Type {
			continue
		}
		if err := f(strconv.Itoa(i+1), x.lines[i]); err != nil {
			return err
		}
	}
	return nil
}

func worksOf(t *testing.T, log lines) map[string]bool {
	t.Helper()
	works := map[string]bool{}
	for _, line := range log {
		if e, err := audit.ParseLine(line); err != nil {
			t.Fatal(err)
		} else if e.WorkID != "" {
			works[e.WorkID] = true
		}
	}
	return works
}

func TestA4AStoryIsTheSameThroughAnIndex(t *testing.T) {
	log, _ := recorded(t, 3, 100)
	for id := range worksOf(t, log) {
		want, err := audit.Explain(t.Context(), log, id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := audit.Explain(t.Context(), indexed{log}, id)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s: %v\n%s", id, err, diff)
		}
	}
	for _, id := range []string{"", "none"} {
		if _, err := audit.Explain(t.Context(), indexed{log}, id); !errors.Is(err, audit.ErrNoWork) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestA4TheSamePolicyDecidesTheSame(t *testing.T) {
	works := 300 // each reads the whole log
	if testing.Short() {
		works = 100
	}
	log, _ := recorded(t, 5, works)
	set, decisions := setOf(catalogue(t)...), 0
	for id := range worksOf(t, log) {
		s, err := audit.ExplainUnder(t.Context(), log, id, set)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range s.Steps {
			if step.Now == nil {
				continue
			}
			decisions++
			if !step.Now.Same {
				t.Errorf("%s: %s %s %v, now %+v", id, step.Decision, step.Reason, step.Wait, *step.Now)
			}
			if r := step.Now.Range; r != nil && step.Range != nil && *r != *step.Range {
				t.Errorf("%s: range %v, now %v", id, *step.Range, *r)
			}
		}
	}
	if decisions < works {
		t.Errorf("%d decisions", decisions)
	}
}

func TestU2AStorySaysWhatAnotherPolicyDecides(t *testing.T) {
	fixed := func(attempts int) *policy.Policy {
		return compiled(t, "user.Get", func(p *policy.Policy) { p.Retry.MaxAttempts = attempts })
	}
	p := fixed(4)
	r := newRecording(t, 1)
	r.snapshot(p)
	r.call(p, attempts{{failed, 1}, {failed, 1}, {decision.Facts{}, 1}}, "")
	s, err := audit.ExplainUnder(t.Context(), chained(t, "a", r.events), eventID(1), setOf(fixed(2)))
	if err != nil {
		t.Fatal(err)
	}
	type now struct {
		Decision, Reason string
		Same             bool
	}
	var got []now
	for _, step := range s.Steps {
		got = append(got, now{step.Now.Decision, step.Now.Reason, step.Now.Same})
	}
	want := []now{{"retry", "retry", true}, {"stop", "attempts_exhausted", false}, {"done", "success", true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	first := s.Steps[0]
	if lowest, highest := decision.Bounds(&p.Retry, 0); first.Range == nil || first.Range.Lowest != audit.Seconds(lowest) || first.Range.Highest != audit.Seconds(highest) {
		t.Errorf("range %+v", first.Range)
	}
	if first.Facts == nil || !first.Facts.Failed || first.Rule == "" || first.Revision == "" || first.Maximum != 4 {
		t.Errorf("%+v", first)
	}
}
