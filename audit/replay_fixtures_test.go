package audit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/canonical"
	"github.com/tenetdev/tenet/policy"
)

// recording makes the events of random work with package decision, as runners do.
type recording struct {
	t      testing.TB
	rand   *rand.Rand
	events []audit.Event
	now    time.Time
	work   int
}

func newRecording(t testing.TB, seed uint64) *recording {
	return &recording{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: begin}
}

// compiled returns a policy with its revision.
func compiled(t testing.TB, key string, edit func(p *policy.Policy)) *policy.Policy {
	t.Helper()
	p := policy.Policy{Key: policy.ParseKey(key)}
	edit(&p)
	out, err := policy.Compile(p, policy.LimitsFor(p.Key.Surface()), policy.SourceFile)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// catalogue returns the policies of recordings.
func catalogue(t testing.TB) []*policy.Policy {
	return []*policy.Policy{
		compiled(t, "user.Get", func(p *policy.Policy) { p.ID, p.Retry.MaxAttempts = "rev-1", 4 }),
		compiled(t, "nats.publish", func(p *policy.Policy) {
			p.Category = policy.NATSPublish
			p.Retry.RetryOn, p.Retry.OverallTimeout = []policy.Class{"timeout", "quota"}, 3*time.Second
		}),
		compiled(t, "search.Query", func(p *policy.Policy) {
			p.Hedge = policy.Hedge{Enabled: true, MaxHedges: 2, CancelOnFirstTerminal: true}
			p.Retry.Jitter = policy.JitterDecorrelated
		}),
		compiled(t, "job/mail.send", func(p *policy.Policy) { p.Retry.MaxAttempts = 6 }),
	}
}

func (r *recording) add(e audit.Event) *audit.Event {
	r.now = r.now.Add(time.Duration(1+r.rand.IntN(50_000)) * time.Microsecond)
	e.SchemaVersion, e.ID, e.Time = audit.SchemaVersion, eventID(len(r.events)), r.now
	r.events = append(r.events, e)
	return &r.events[len(r.events)-1]
}

func (r *recording) snapshot(p *policy.Policy) {
	raw, err := canonical.Marshal(p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.add(audit.Event{Type: audit.PolicySnapshot, Key: p.Key.String(), PolicyRevision: p.Meta.Revision, Policy: raw})
}

// facts draws the outcome of an attempt.
func (r *recording) facts(calm float64) decision.Facts {
	if r.rand.Float64() < calm {
		return decision.Facts{}
	}
	f := decision.Facts{Failed: true}
	switch r.rand.IntN(8) {
	case 0:
		f.TimedOut, f.Classes = true, []classify.Match{{Class: policy.ClassTimeout}}
	case 1:
		f.Mark, f.Pushback = classify.MarkAfter, time.Duration(r.rand.IntN(300))*time.Millisecond
	case 2:
		f.Classes = []classify.Match{{Class: "quota", Parent: policy.ClassNetwork}}
	case 3:
		f.Classified = &classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "quota", Reason: policy.ReasonError, Pushback: 7}
	case 4:
		if r.rand.IntN(4) == 0 {
			f.Mark = classify.MarkBusiness
		}
	}
	return f
}

// run records one unit of work under p.
func (r *recording) run(p *policy.Policy) {
	r.work++
	base := audit.Event{
		Surface: string(p.Key.Surface()), Key: p.Key.String(), WorkID: fmt.Sprintf("0195f3a2-aaaa-7000-8000-%012d", r.work),
		Category: p.Category.Code(), PolicyID: p.ID, PolicyRevision: p.Meta.Revision, CoreVersion: audit.CoreVersion,
	}
	elapsed, launch, seq := time.Duration(0), 0, 0
	calm := r.rand.Float64()
	for ended := 1; ; ended++ {
		took := time.Duration(1+r.rand.IntN(200)) * time.Millisecond
		elapsed += took
		e := base
		var outcome classify.Outcome
		var facts decision.Facts
		if p.Hedge.Enabled && r.rand.IntN(2) == 0 {
			outcome, facts, e.Group, e.Deciding = r.group(p, base, &launch, &seq, calm)
			e.Attempt = e.Deciding
		} else {
			launch++
			facts = r.facts(calm)
			outcome, _ = decision.Judge(&p.Retry, &facts)
			e.Attempt = launch
			if p.Hedge.Enabled {
				e.Group, e.Deciding = []int{launch}, launch
			}
		}
		_, rule := decision.Judge(&p.Retry, &facts)
		seq++
		state := decision.State{Surface: p.Key.Surface(), Attempt: ended, Left: decision.Unbounded}
		if outcome.Kind == classify.Retryable {
			state.Seed = decision.Seed(base.WorkID)
			if p.Retry.OverallTimeout > 0 {
				state.Left, state.LeftReason = p.Retry.OverallTimeout-elapsed, policy.ReasonOverallTimeout
			}
		}
		v := decision.Next(&p.Retry, &state, &outcome)
		if v.Action == decision.Retry && r.rand.IntN(50) == 0 {
			v = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonBudgetDenied}
			e.Denied = true
		}
		e.WorkSeq, e.ElapsedNS, e.TookNS, e.TotalAttempts = seq, audit.Nanos(elapsed), audit.Nanos(took), launch
		judged(&e, outcome, rule, facts)
		decided(&e, state, v)
		r.add(e)
		if v.Action != decision.Retry {
			return
		}
		elapsed += v.Delay
	}
}

// group records a hedged group.
func (r *recording) group(p *policy.Policy, base audit.Event, launch, seq *int, calm float64) (classify.Outcome, decision.Facts, []int, int) {
	n := 2 + r.rand.IntN(p.Hedge.MaxHedges)
	g := decision.Group{CancelOnFirstTerminal: p.Hedge.CancelOnFirstTerminal}
	for range n {
		g.Launch()
	}
	order := r.rand.Perm(n)
	facts := map[int]decision.Facts{}
	var ended []int
	for i, at := range order {
		e := base
		e.Type, e.CoreVersion, e.Attempt, e.HedgeIndex = audit.Hedge, "", *launch+1+at, at
		f := r.facts(calm)
		o, rule := decision.Judge(&p.Retry, &f)
		if _, deciding := g.Outcome(); i > 0 && g.End(deciding, o) && !g.MayHedge() { // the others are cancelled
			o, rule = classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonCanceledInternal}, ""
		}
		*seq++
		e.WorkSeq = *seq
		judged(&e, o, rule, f)
		r.add(e)
		if rule != "" {
			facts[e.Attempt] = f
			ended = append(ended, e.Attempt)
		}
	}
	*launch += n
	g = decision.Group{CancelOnFirstTerminal: p.Hedge.CancelOnFirstTerminal}
	for range ended {
		g.Launch()
	}
	for i, at := range ended {
		f := facts[at]
		o, _ := decision.Judge(&p.Retry, &f)
		if g.End(at, o) {
			ended = ended[:i+1]
			break
		}
	}
	o, deciding := g.Outcome()
	return o, facts[deciding], ended, deciding
}

func judged(e *audit.Event, o classify.Outcome, rule decision.Rule, f decision.Facts) {
	e.OutcomeKind, e.OutcomeCategory, e.OutcomeClass = o.Kind.String(), o.Category.String(), o.Class
	e.OutcomeReason, e.PushbackNS, e.MatchedRule = o.Reason, audit.Nanos(o.Pushback), rule
	if rule == "" || !f.Failed && f.Classified == nil {
		return
	}
	mark := map[classify.Mark]string{classify.MarkPermanent: "permanent", classify.MarkBusiness: "business", classify.MarkAfter: "after"}[f.Mark]
	e.Facts = &audit.Facts{Failed: f.Failed, Ended: f.Ended, TimedOut: f.TimedOut, Mark: mark, PushbackNS: audit.Nanos(f.Pushback), Classes: f.Classes}
	if c := f.Classified; c != nil {
		e.Facts.Classified = &audit.Outcome{
			Kind: c.Kind.String(), Category: c.Category.String(), Class: c.Class, Reason: c.Reason, PushbackNS: audit.Nanos(c.Pushback),
		}
	}
}

func decided(e *audit.Event, s decision.State, v decision.Verdict) {
	e.StateNumber, e.StateLimit, e.LeftReason, e.Seed = s.Attempt, s.MaxAttempts, s.LeftReason, s.Seed
	if s.Left != decision.Unbounded {
		left := audit.Nanos(s.Left)
		e.LeftNS = &left
	}
	e.Decision, e.Reason, e.External, e.DelayNS = v.Action.String(), v.Reason, v.External, audit.Nanos(v.Delay)
	switch {
	case v.Action == decision.Retry:
		e.Type = audit.RetryAttempt
	case v.Action == decision.Done:
		e.Type = audit.CallSucceeded
	case v.Reason == policy.ReasonAttemptsExhausted:
		e.Type = audit.RetryExhausted
	default:
		e.Type = audit.CallStopped
	}
}

// recorded makes a log of n units of work under the catalogue.
func recorded(t testing.TB, seed uint64, n int) (lines, *recording) {
	t.Helper()
	r := newRecording(t, seed)
	policies := catalogue(t)
	for _, p := range policies {
		r.snapshot(p)
	}
	for range n {
		r.run(policies[r.rand.IntN(len(policies))])
	}
	return chained(t, "a", r.events), r
}
