package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// ReplayOptions limit the memory of a replay and the length of its report.
type ReplayOptions struct {
	Spill Spill
	// Limit is how many divergences are listed; all are counted. 0 means 1000.
	Limit int
}

const defaultLimit = 1000

// ReplayReport is the result of [Replay]. It is identical for the same log in any order.
type ReplayReport struct {
	Lines      int `json:"lines"`
	Unreadable int `json:"unreadable"` // lines that are not events; Verify says more
	Duplicates int `json:"duplicates"` // decisions and hedged attempts that were delivered again
	Works      int `json:"works"`
	// Every piece of work counts as one of these: replayed as recorded, diverged, or impossible to replay because the log
	// lacks something.
	Replayed     int          `json:"replayed"`
	Diverged     int          `json:"diverged"`
	CannotReplay CannotReplay `json:"cannot_replay"`
	// Values that the replay computed again.
	Judgements int `json:"judgements"`
	Groups     int `json:"groups"`
	Decisions  int `json:"decisions"`
	Delays     int `json:"delays"`
	// Recorded facts that the replay takes as given: denials, interruptions and delays of user code.
	Facts int `json:"facts"`
	// Divergences holds the first divergence of each piece of work, ordered by work ID.
	Divergences []Divergence `json:"divergences"`
}

// CannotReplay counts work by what the log lacks.
type CannotReplay struct {
	Policy  int `json:"policy"`  // the log has no usable snapshot of the policy's revision
	Attempt int `json:"attempt"` // an attempt of a hedged group is missing
	Values  int `json:"values"`  // a value is unknown to this release
	Core    int `json:"core"`    // the decision was made by another version of package decision
}

// Total returns the number of pieces of work that cannot be replayed.
func (c CannotReplay) Total() int { return c.Policy + c.Attempt + c.Values + c.Core }

// Divergence is the first place where the record of a piece of work differs from what its policy and facts lead to.
type Divergence struct {
	WorkID   string `json:"work_id"`
	WorkSeq  int    `json:"work_seq"`
	EventID  string `json:"event_id"`
	Key      string `json:"key"`
	Attempt  int    `json:"attempt_number"`
	What     string `json:"what"` // judgement, group, decision or delay
	Recorded string `json:"recorded"`
	Replayed string `json:"replayed"`
}

// The kinds of divergences.
const (
	inJudgement = "judgement"
	inGroup     = "group"
	inDecision  = "decision"
	inDelay     = "delay"
)

// Replay computes every judgement, group outcome, decision and delay of a log again, with the functions of package decision,
// from the recorded facts, states and seeds and from the snapshots of the policies. It takes admissions, clocks, interruptions
// and delays of user code from the log, and does not run any operation. The log may be in any order; events delivered twice
// count once.
//
// Replay uses all cores. Its memory does not grow with the log: see [Spill].
func Replay(ctx context.Context, s Source, o ReplayOptions) (*ReplayReport, error) {
	o.Limit = cmp.Or(max(o.Limit, 0), defaultLimit)
	w, err := gather(ctx, s, o.Spill, neededForReplay)
	if err != nil {
		return nil, fmt.Errorf("audit: replay: %w", err)
	}
	policies := w.snapshots()
	replayers, err := visitWorks(ctx, w, func() *replayer { return &replayer{policies: policies, limit: o.Limit} }, (*replayer).play)
	if err != nil {
		return nil, fmt.Errorf("audit: replay: %w", err)
	}
	report := &ReplayReport{
		Lines: w.total.lines, Unreadable: w.total.unreadable, Duplicates: w.total.duplicates, Divergences: []Divergence{},
	}
	for _, p := range replayers {
		report.add(&p.report)
	}
	report.Divergences = first(report.Divergences, o.Limit)
	return report, nil
}

// neededForReplay selects the events that a replay reads.
func neededForReplay(e *Event) bool { return isDecision(e.Type) || e.Type == Hedge }

func isDecision(t Type) bool {
	return t == RetryAttempt || t == RetryExhausted || t == CallStopped || t == CallSucceeded
}

func (r *ReplayReport) add(part *ReplayReport) {
	r.Works += part.Works
	r.Replayed += part.Replayed
	r.Diverged += part.Diverged
	r.CannotReplay.Policy += part.CannotReplay.Policy
	r.CannotReplay.Attempt += part.CannotReplay.Attempt
	r.CannotReplay.Values += part.CannotReplay.Values
	r.CannotReplay.Core += part.CannotReplay.Core
	r.Judgements += part.Judgements
	r.Groups += part.Groups
	r.Decisions += part.Decisions
	r.Delays += part.Delays
	r.Facts += part.Facts
	r.Divergences = append(r.Divergences, part.Divergences...)
}

// first sorts divergences by work ID and returns the first n.
func first(list []Divergence, n int) []Divergence {
	slices.SortFunc(list, func(a, b Divergence) int { return cmp.Compare(a.WorkID, b.WorkID) })
	return list[:min(n, len(list))]
}

// The reasons why a piece of work cannot be replayed.
var (
	errNoPolicy  = errors.New("policy")
	errNoAttempt = errors.New("attempt")
	errValue     = errors.New("value")
	errCore      = errors.New("core")
)

// replayer replays one piece of work after another.
type replayer struct {
	policies map[string]*policy.Policy
	limit    int
	report   ReplayReport
	outcomes map[int]classify.Outcome // of the hedged attempts of the current work
}

func (p *replayer) play(events []Event) {
	p.report.Works++
	p.outcomes = map[int]classify.Outcome{}
	var obstacle error
	for i := range events {
		e := &events[i]
		d, err := p.event(e)
		if d != nil {
			d.WorkID, d.WorkSeq, d.EventID, d.Key, d.Attempt = e.WorkID, e.WorkSeq, e.ID, e.Key, e.Attempt
			p.report.Diverged++
			p.report.Divergences = append(p.report.Divergences, *d)
			if len(p.report.Divergences) >= 2*p.limit {
				p.report.Divergences = first(p.report.Divergences, p.limit)
			}
			return
		}
		obstacle = cmp.Or(obstacle, err)
	}
	switch obstacle {
	case nil:
		p.report.Replayed++
	case errNoPolicy:
		p.report.CannotReplay.Policy++
	case errNoAttempt:
		p.report.CannotReplay.Attempt++
	case errCore:
		p.report.CannotReplay.Core++
	default:
		p.report.CannotReplay.Values++
	}
}

// event replays one event.
func (p *replayer) event(e *Event) (*Divergence, error) {
	if e.CoreVersion != "" && e.CoreVersion != CoreVersion {
		return nil, errCore
	}
	recorded, err := e.Outcome()
	if err != nil {
		return nil, errValue
	}
	if e.Type == Hedge {
		p.outcomes[e.Attempt] = recorded
	}
	facts, judged, err := e.JudgedFrom()
	switch {
	case err != nil:
		return nil, errValue
	case !judged:
		p.report.Facts++
		return nil, nil
	}
	under := p.policies[e.PolicyRevision]
	if under == nil {
		return nil, errNoPolicy
	}
	outcome, rule := decision.Judge(&under.Retry, &facts)
	p.report.Judgements++
	if rule != e.MatchedRule {
		return &Divergence{What: inJudgement, Recorded: "rule " + string(e.MatchedRule), Replayed: "rule " + string(rule)}, nil
	}
	if len(e.Group) > 1 && rule != decision.RuleContext {
		p.report.Groups++
		var deciding int
		if outcome, deciding, err = groupOutcome(e, under, p.outcomes); err != nil {
			return nil, err
		}
		if deciding != e.Deciding {
			return &Divergence{
				What: inGroup, Recorded: fmt.Sprintf("attempt %d decided", e.Deciding), Replayed: fmt.Sprintf("attempt %d decides", deciding),
			}, nil
		}
	}
	if !sameOutcome(outcome, recorded) {
		what := inJudgement
		if len(e.Group) > 1 {
			what = inGroup
		}
		return &Divergence{What: what, Recorded: describeOutcome(recorded), Replayed: describeOutcome(outcome)}, nil
	}
	if e.Type == Hedge {
		return nil, nil
	}
	return p.decision(e, &under.Retry, outcome)
}

// groupOutcome computes the outcome of a hedged group under a policy from those of its attempts, in the order in which they ended. It
// also returns the attempt that decided. The error is errNoAttempt if one is missing.
func groupOutcome(e *Event, p *policy.Policy, attempts map[int]classify.Outcome) (o classify.Outcome, deciding int, err error) {
	g := decision.Group{CancelOnFirstTerminal: p.Hedge.CancelOnFirstTerminal}
	for range e.Group {
		g.Launch()
	}
	for _, n := range e.Group {
		o, ok := attempts[n]
		if !ok {
			return o, 0, errNoAttempt
		}
		g.End(n, o)
	}
	o, deciding = g.Outcome()
	return o, deciding, nil
}

// decision replays the decision that followed an outcome.
func (p *replayer) decision(e *Event, r *policy.Retry, o classify.Outcome) (*Divergence, error) {
	recorded, err := e.Verdict()
	if err != nil {
		return nil, errValue
	}
	if fromOutside(recorded.Reason) {
		p.report.Facts++
		return nil, nil
	}
	p.report.Decisions++
	state := e.State()
	if recorded.External && !state.External {
		state.Left = decision.Unbounded // the delay that did not fit is not recorded
	}
	got := decision.Next(r, &state, &o)
	if got.Action == decision.Retry {
		switch {
		case recorded.Action == decision.Stop && refused(recorded.Reason):
			p.report.Facts++
			return nil, nil
		case recorded.External && recorded.Action == decision.Stop && recorded.Reason == state.LeftReason:
			p.report.Facts++
			return nil, nil
		case recorded.External:
			p.report.Facts++
		default:
			p.report.Delays++
		}
	}
	if got == recorded {
		return nil, nil
	}
	d := &Divergence{What: inDecision, Recorded: describeVerdict(recorded), Replayed: describeVerdict(got)}
	if got.Action == recorded.Action && got.Reason == recorded.Reason {
		d.What = inDelay
	}
	return d, nil
}

// fromOutside reports whether the work ended for a reason that does not depend on the outcome.
func fromOutside(r policy.Reason) bool {
	switch r {
	case policy.ReasonAuditUnavailable, policy.ReasonNoPolicy, policy.ReasonClassifierNotFound, policy.ReasonPanicInClassifier,
		policy.ReasonPanicInBudget, policy.ReasonPanicInObserver, policy.ReasonPanicInTrigger, policy.ReasonPanicInJournal,
		policy.ReasonPanicInProvider, policy.ReasonPanicInWait:
		return true
	}
	return false
}

// refused reports whether a reason means that a budget, breaker or limit did not admit a retry.
func refused(r policy.Reason) bool {
	switch r {
	case policy.ReasonBudgetDenied, policy.ReasonBudgetNotFound, policy.ReasonCircuitOpen, policy.ReasonHalfOpen,
		policy.ReasonConcurrencyLimited, policy.ReasonRateLimited:
		return true
	}
	return false
}

func sameOutcome(a, b classify.Outcome) bool {
	return a.Kind == b.Kind && a.Category == b.Category && a.Class == b.Class && a.Reason == b.Reason && a.Pushback == b.Pushback
}

func describeOutcome(o classify.Outcome) string {
	parts := []string{o.Kind.String() + " (" + string(o.Reason) + ")", o.Category.String(), string(o.Class)}
	if o.Pushback > 0 {
		parts = append(parts, "pushback "+o.Pushback.String())
	}
	return join(parts...)
}

func describeVerdict(v decision.Verdict) string {
	if v.Action == decision.Retry {
		return fmt.Sprintf("retry after %s", v.Delay)
	}
	return fmt.Sprintf("%s (%s)", v.Action, v.Reason)
}
