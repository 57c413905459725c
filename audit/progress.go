package audit

import (
	"slices"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// maxWorks is the size of a generation of [progress], which keeps two.
const maxWorks = 8192

// work holds the attempts of a piece of work until its next decision.
type work struct {
	ended []*observe.Event // attempts since the last decision
	ran   int              // attempts so far whose operation ran
}

// progress collects the attempts of work between decisions, because a decision does not hold the answers of budget and
// breaker, or how the other attempts of a hedged group ended. The end of some work is never observed. To bound the memory,
// progress drops the older generation when the current one is full.
type progress struct {
	works, older map[string]*work
}

// addsDetail reports whether an attempt's record holds more than its decision does.
func addsDetail(o *observe.Event) bool {
	a := o.Attempt
	plainBudget := a.BudgetAllowed && (a.BudgetReason == "" || a.BudgetReason == policy.ReasonNoBudget)
	return a.Denied || a.HedgeIndex > 0 || a.Circuit != "" || !plainBudget || o.Policy != nil && o.Policy.Hedge.Enabled
}

func (p *progress) add(o *observe.Event) {
	w := p.find(o.Work.ID)
	if w == nil {
		w = &work{}
		if len(p.works) >= maxWorks {
			p.older, p.works = p.works, nil
		}
		if p.works == nil {
			p.works = make(map[string]*work, maxWorks)
		}
		p.works[o.Work.ID] = w
	}
	w.ended = append(w.ended, o)
	if !o.Attempt.Denied {
		w.ran++
	}
}

func (p *progress) find(id string) *work {
	if w := p.works[id]; w != nil {
		return w
	}
	return p.older[id]
}

func (p *progress) forget(id string) {
	delete(p.works, id)
	delete(p.older, id)
}

// take returns the attempts that belong to a decision: those of its hedged group in the order in which they ended, the
// deciding attempt, the refused attempt, and the total number of attempts that ran.
func (p *progress) take(o *observe.Event) (group []*observe.Event, ended, denied *observe.AttemptRecord, total int) {
	d := o.Decision
	total = d.State.Attempt
	w := p.find(o.Work.ID)
	if w == nil {
		return nil, nil, nil, total
	}
	hedged := len(d.Group) > 1
	for _, a := range w.ended {
		hedged = hedged || a.Attempt.HedgeIndex > 0
		switch {
		case a.Attempt.Denied && a.Attempt.HedgeIndex == 0:
			denied = a.Attempt
		case a.Attempt.Attempt == d.Attempt:
			ended = a.Attempt
		}
	}
	if hedged {
		for _, a := range w.ended {
			if a.Attempt != denied {
				group = append(group, a)
			}
		}
	}
	total = max(total, w.ran) // hedges
	w.ended = nil
	if d.Verdict.Action != decision.Retry || d.State.Surface == policy.SurfaceJob { // a job's next attempt may be much later, or in another process
		p.forget(o.Work.ID)
	}
	return group, ended, denied, total
}

// end drops a piece of work that ended without a decision. It calls f with each of its attempts if they were hedged.
func (p *progress) end(id string, f func(*observe.Event)) (ran int) {
	w := p.find(id)
	if w == nil {
		return 0
	}
	hedged := slices.ContainsFunc(w.ended, func(o *observe.Event) bool { return o.Attempt.HedgeIndex > 0 })
	for _, o := range w.ended {
		if hedged {
			f(o)
		}
	}
	p.forget(id)
	return w.ran
}
