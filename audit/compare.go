package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/printable"
	"github.com/tenetdev/tenet/policy"
)

// Comparison is how one piece of work went, and how it would have gone under other policies.
type Comparison struct {
	WorkID   string
	Revision string // of the other policies' document
	Parts    []ComparedPart
}

// ComparedPart is a call, a job, or one step of one delivery of a transaction.
type ComparedPart struct {
	Key      string
	Recorded End
	Now      End
	// Decisions are compared from the first to the one after which the work would have gone on differently. After that one the
	// record has nothing to compare with.
	Decisions []ComparedDecision
}

// End is how a part ended.
type End struct {
	Decision decision.Action // Done or Stop
	Reason   policy.Reason
	Effort
	// Unknown says why the record does not show the end, in which case Decision and Reason mean nothing and Effort is what
	// can be known. It is "" if the end is known.
	Unknown Unknown
}

// ComparedDecision is a recorded decision and the one that the other policies make.
type ComparedDecision struct {
	Attempt  int    // the attempt that ended, from 1
	Outcome  string // as recorded
	Recorded decision.Verdict
	Now      decision.Verdict
}

// Same reports whether action, reason and wait are the same.
func (d ComparedDecision) Same() bool {
	return d.Recorded.Action == d.Now.Action && d.Recorded.Reason == d.Now.Reason && d.Recorded.Delay == d.Now.Delay
}

// Compare walks through a case under the policies that set holds for its keys, as [WhatIf] does for a log.
func (c *Case) Compare(set *policy.Set) (*Comparison, error) {
	if set == nil {
		return nil, errors.New("audit: compare: the set of policies is nil")
	}
	w, err := recordOf(context.Background(), "compare", c, c.WorkID)
	if err != nil {
		return nil, err
	}
	events := slices.DeleteFunc(inOrder(w.events), func(e Event) bool { return !neededForWhatIf(&e) })
	s := simulator{set: set, recorded: w.policies(), resolved: map[target]*policy.Policy{}}
	out := &Comparison{WorkID: c.WorkID, Revision: set.Revision()}
	s.parts(events, func(e *Event, steps []step, before, after workEnd) {
		part := ComparedPart{Key: e.Key, Recorded: before.public(), Now: after.public()}
		for i, v := range s.verdicts {
			x := &steps[i]
			d := ComparedDecision{Attempt: x.e.Attempt, Outcome: string(x.e.OutcomeReason), Recorded: x.verdict, Now: v}
			if o, err := x.e.Outcome(); err == nil {
				d.Outcome = describeOutcome(o)
			}
			part.Decisions = append(part.Decisions, d)
		}
		out.Parts = append(out.Parts, part)
	})
	return out, nil
}

func (r workEnd) public() End {
	e := End{Decision: decision.Stop, Reason: r.reason, Effort: r.effort, Unknown: r.unknown}
	if r.success {
		e.Decision = decision.Done
	}
	return e
}

// Same reports whether every decision and every end is the same, and known.
func (c *Comparison) Same() bool {
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Now != p.Recorded || slices.ContainsFunc(p.Decisions, func(d ComparedDecision) bool { return !d.Same() }) {
			return false
		}
	}
	return true
}

// String describes the comparison in some lines of text: each decision, those that differ with both answers, and both ends.
func (c *Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "work %s\n", printable.Text(c.WorkID))
	for i := range c.Parts {
		p := &c.Parts[i]
		fmt.Fprintf(&b, "%s\n", printable.Text(p.Key))
		for _, d := range p.Decisions {
			fmt.Fprintf(&b, "  attempt %d  %s\n", d.Attempt, printable.Text(d.Outcome))
			if d.Same() {
				fmt.Fprintf(&b, "    same:     %s\n", describeVerdict(d.Now))
				continue
			}
			fmt.Fprintf(&b, "    recorded: %s\n    now:      %s\n", describeVerdict(d.Recorded), describeVerdict(d.Now))
		}
		if p.Now == p.Recorded && p.Now.Unknown == "" {
			fmt.Fprintf(&b, "  ended:      %s, as recorded\n", p.Now)
			continue
		}
		fmt.Fprintf(&b, "  recorded:   %s\n  now:        %s\n", p.Recorded, p.Now)
	}
	return b.String()
}

// String describes the end, for example: stop (attempts_exhausted) after 2 attempts and 10ms of waiting.
func (e End) String() string {
	attempts := "attempts"
	if e.Attempts == 1 {
		attempts = "attempt"
	}
	effort := fmt.Sprintf("%d %s and %s of waiting", e.Attempts, attempts, time.Duration(e.Waiting))
	if e.Unknown != "" {
		return fmt.Sprintf("unknown after %s: %s", effort, e.Unknown)
	}
	return fmt.Sprintf("%s (%s) after %s", e.Decision, e.Reason, effort)
}
