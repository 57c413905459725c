package audit

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// StepFacts is what an outcome was judged from.
type StepFacts struct {
	Failed   bool     `json:"failed"`
	Ended    string   `json:"ended,omitempty"`     // why the work had to end: canceled, deadline_exceeded or overall_timeout
	TimedOut bool     `json:"timed_out,omitempty"` // the attempt exceeded its own timeout
	Mark     string   `json:"mark,omitempty"`      // permanent, business or after
	Pushback Seconds  `json:"pushback_seconds,omitempty"`
	Classes  []string `json:"classes,omitempty"`
}

// Range is the shortest and the longest wait before a retry that a policy allows, whatever the seed.
type Range struct {
	Lowest  Seconds `json:"lowest_seconds"`
	Highest Seconds `json:"highest_seconds"`
}

// Alternative is what another policy decides in the same state.
type Alternative struct {
	Revision string  `json:"revision"` // of the document
	Decision string  `json:"decision"`
	Reason   string  `json:"reason"`
	Wait     Seconds `json:"wait_seconds,omitempty"`
	Range    *Range  `json:"wait_range,omitempty"`
	Same     bool    `json:"same"` // decision, reason and wait
}

// ExplainUnder is [Explain] with, for each decision, what the policies of a set decide for the same outcome in the same state:
// step by step, as if everything before had happened as recorded. A nil set leaves that out.
func ExplainUnder(ctx context.Context, s Source, workID string, set *policy.Set) (*Story, error) {
	w, err := recordOf(ctx, "explain", s, workID)
	if err != nil {
		return nil, err
	}
	events, policies := inOrder(w.events), w.policies()
	story := storyOf(events, policies)
	story.Unreadable = w.unreadable
	if set != nil {
		story.under(events, policies, set)
	}
	return story, nil
}

// under adds what a set decides to the steps of a story, which are those of the events.
func (s *Story) under(events []Event, recorded map[string]*policy.Policy, set *policy.Set) {
	sim := simulator{set: set, recorded: recorded, resolved: map[target]*policy.Policy{}, facts: map[int]decision.Facts{}}
	var steps []step
	for i := range events {
		e := &events[i]
		if e.Type == Hedge {
			sim.hedge(e)
		}
		if !isDecision(e.Type) {
			continue
		}
		if len(steps) > 0 && steps[len(steps)-1].e.Key != e.Key { // the next step of a transaction
			steps, sim.facts = nil, map[int]decision.Facts{}
		}
		more, err := sim.step(steps, e)
		if err != nil {
			continue // Replay reports it
		}
		steps = more
		if x := &steps[len(steps)-1]; x.judged {
			s.Steps[i].Now = sim.alternative(x)
		}
	}
}

func (s *simulator) alternative(x *step) *Alternative {
	p := s.policyOf(x.e)
	v := s.verdict(x, p, 0)
	a := &Alternative{
		Revision: s.set.Revision(), Decision: v.Action.String(), Reason: string(v.Reason), Wait: Seconds(v.Delay),
		Same: ComparedDecision{Recorded: x.verdict, Now: v}.Same(),
	}
	if v.Action == decision.Retry {
		a.Range = rangeOf(p, x.e.stateAttempt())
	}
	return a
}

// rangeOf returns the bounds of the wait after an attempt.
func rangeOf(p *policy.Policy, attempt int) *Range {
	lowest, highest := decision.Bounds(&p.Retry, max(attempt, 1)-1)
	return &Range{Seconds(lowest), Seconds(highest)}
}

// ground adds what a decision was made from to its step.
func (s *Step) ground(e *Event, p *policy.Policy) {
	s.Rule, s.Revision = string(e.MatchedRule), e.PolicyRevision
	if isDecision(e.Type) {
		if s.Maximum = e.MaxAttempts; s.Maximum == 0 && p != nil {
			s.Maximum = p.Retry.MaxAttempts
		}
	}
	if f := e.Facts; f != nil {
		s.Facts = &StepFacts{Failed: f.Failed, Ended: string(f.Ended), TimedOut: f.TimedOut, Mark: f.Mark, Pushback: Seconds(f.PushbackNS)}
		for _, c := range f.Classes {
			s.Facts.Classes = append(s.Facts.Classes, string(c.Class))
		}
	}
	if p != nil && e.Decision == decision.Retry.String() && !e.External {
		s.Range = rangeOf(p, e.stateAttempt())
	}
}

// recordOf returns the record of a piece of work, which it reads through indexes if the source has them. Without an event of
// the work it fails with [ErrNoWork].
func recordOf(ctx context.Context, operation string, s Source, workID string) (w workRecord, err error) {
	if err := readable(ctx, s); err != nil {
		return w, fmt.Errorf("audit: %s: %w", operation, err)
	}
	if finder, ok := s.(Finder); ok && workID != "" {
		w, err = findWork(ctx, finder, workID)
	} else if workID != "" {
		w, err = scanWork(ctx, s, workID)
	}
	switch {
	case err != nil:
		return w, fmt.Errorf("audit: %s: %w", operation, err)
	case len(w.events) > 0:
		return w, nil
	case w.unreadable > 0:
		return w, fmt.Errorf("%w: %s; %d lines of the log are not events", ErrNoWork, workID, w.unreadable)
	}
	return w, fmt.Errorf("%w: %s", ErrNoWork, workID)
}
