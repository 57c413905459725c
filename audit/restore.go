package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// The methods below restore the inputs of the recorded decisions, so that decision.Judge, decision.Group and decision.Next
// can be called again.

// JudgedFrom returns the facts that the recorded outcome was judged from; ok is false if nothing was judged.
func (e *Event) JudgedFrom() (f decision.Facts, ok bool, err error) {
	if e.MatchedRule == "" {
		return f, false, nil
	}
	stored := e.Facts
	if stored == nil {
		return f, true, nil
	}
	f = decision.Facts{
		Failed: stored.Failed, Ended: stored.Ended, TimedOut: stored.TimedOut, Pushback: stored.PushbackNS.Duration(),
		Classes: stored.Classes,
	}
	if f.Mark, err = parseMark(stored.Mark); err != nil {
		return f, true, err
	}
	if stored.Classified != nil {
		o, err := stored.Classified.Restore()
		if err != nil {
			return f, true, err
		}
		f.Classified = &o
	}
	return f, true, nil
}

// Outcome returns the recorded outcome of the attempt or group.
func (e *Event) Outcome() (classify.Outcome, error) {
	return Outcome{
		Kind: e.OutcomeKind, Category: e.OutcomeCategory, Class: e.OutcomeClass, Reason: e.OutcomeReason, PushbackNS: e.PushbackNS,
		Attributes: e.Attributes,
	}.Restore()
}

// Restore returns the outcome that o stores.
func (o Outcome) Restore() (classify.Outcome, error) {
	out := classify.Outcome{Class: o.Class, Reason: o.Reason, Attributes: o.Attributes, Pushback: o.PushbackNS.Duration()}
	if err := out.Kind.UnmarshalText([]byte(o.Kind)); err != nil {
		return out, fmt.Errorf("audit: outcome_kind: %w", err)
	}
	if err := out.Category.UnmarshalText([]byte(o.Category)); err != nil {
		return out, fmt.Errorf("audit: outcome_category: %w", err)
	}
	return out, nil
}

// State returns the state that led to the recorded decision. The external delay of stopped work is not recorded.
func (e *Event) State() decision.State {
	s := decision.State{
		Surface: policy.Surface(e.Surface), Attempt: e.stateAttempt(), MaxAttempts: e.StateLimit, Left: decision.Unbounded,
		LeftReason: e.LeftReason, Seed: e.Seed,
	}
	if e.LeftNS != nil {
		s.Left = e.LeftNS.Duration()
	}
	if e.External && e.Decision == decision.Retry.String() {
		s.External, s.Delay = true, e.DelayNS.Duration()
	}
	return s
}

// mostStateAttempt is above any number of attempts that limits allow. A higher one was not recorded by Tenet, and would take its
// readers long: with decorrelated jitter, each delay is computed from the one before.
const mostStateAttempt = 1 << 16

func (e *Event) stateAttempt() int { return min(e.StateNumber, mostStateAttempt) }

// Verdict returns the recorded decision.
func (e *Event) Verdict() (decision.Verdict, error) {
	v := decision.Verdict{Delay: e.DelayNS.Duration(), Reason: e.Reason, External: e.External}
	switch e.Decision {
	case decision.Done.String():
		v.Action = decision.Done
	case decision.Retry.String():
		v.Action = decision.Retry
	case decision.Stop.String():
		v.Action = decision.Stop
	default:
		return v, fmt.Errorf("audit: decision: %q is not done, retry or stop", e.Decision)
	}
	return v, nil
}

// Elapsed returns the time from the start of the work to the event.
func (e *Event) Elapsed() time.Duration { return e.ElapsedNS.Duration() }

// Snapshot returns the policy that a policy_snapshot or policy_changed event holds, with its key and revision. The policy is
// complete, but not marked as compiled.
func (e *Event) Snapshot() (*policy.Policy, error) {
	var p policy.Policy
	if err := json.Unmarshal(e.Policy, &p); err != nil {
		return nil, fmt.Errorf("audit: policy of revision %s: %w", e.PolicyRevision, err)
	}
	p.Key, p.Meta.Revision = policy.ParseKey(e.Key), e.PolicyRevision
	return &p, nil
}

var marks = [...]string{
	classify.Unmarked: "", classify.MarkPermanent: "permanent", classify.MarkBusiness: "business", classify.MarkAfter: "after",
}

func parseMark(s string) (classify.Mark, error) {
	if i := slices.Index(marks[:], s); i >= 0 {
		return classify.Mark(i), nil
	}
	return 0, fmt.Errorf("audit: facts.mark: %q is not permanent, business or after", s)
}
