package prove

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// checkGraph multiplies the attempts along a call graph and compares the times of callers and callees.
func (p *prover) checkGraph(g *policyfile.Graph) error {
	edges := make([]*subject, len(g.Edges))
	for i, e := range g.Edges {
		if e.Key == "" {
			continue
		}
		var err error
		if edges[i], err = p.subjectOf(e.Key); err != nil {
			return fmt.Errorf("prove: %s: %w", e.Place.Path, err)
		}
	}
	m, err := amplify.New(g, p.budgets, func(key string) (amplify.Work, error) {
		s, err := p.subjectOf(key)
		if err != nil {
			return amplify.Work{}, err
		}
		return amplify.Work{Policy: s.policy, Within: s.within}, nil
	})
	if err != nil {
		return fmt.Errorf("prove: %w", err)
	}
	for _, n := range m.Nodes {
		p.checkNode(g, n)
	}
	for i, outer := range g.Edges {
		for j, inner := range g.Edges {
			if inner.From == outer.To && edges[i] != nil && edges[j] != nil {
				p.add(ruleOf("caller-gives-up"), inner.Place, callerGivesUp(outer, inner, edges[i], edges[j]))
			}
		}
	}
	return nil
}

// subjectOf finds the policy of a key that the document names.
func (p *prover) subjectOf(name string) (*subject, error) {
	key := p.document.Set.Find(name)
	for i := range p.subjects {
		if p.subjects[i].key == key {
			return &p.subjects[i], nil
		}
	}
	return nil, fmt.Errorf("the document has no policy for key %q; add one, or give attempts in place of the key", name)
}

// checkNode reports the amplification of a node at the first edge that leads to it.
func (p *prover) checkNode(g *policyfile.Graph, n amplify.Node) {
	for _, e := range g.Edges {
		if e.To != n.Name {
			continue
		}
		a := &answer{message: fmt.Sprintf("%s: one request at the entries becomes at most %.6g, %.4g in the long run after budgets, and %.6g without retries",
			n.Name, n.Requests.Worst, n.Requests.Budgeted, n.Requests.Plain)}
		if most := policy.CallLimits().Attempts.Max; n.Amplification.Budgeted > float64(most) {
			a.breaks("", fmt.Sprintf("%s: retries multiply along the graph by %.6g (%.4g in the long run after budgets), more than the %d attempts of a single call: one request becomes %.6g",
				n.Name, n.Amplification.Worst, n.Amplification.Budgeted, most, n.Requests.Worst)).with(p.attemptsTo(g, n.Name))
		}
		p.add(ruleOf("graph-amplification"), e.Place, a)
		return
	}
}

// attemptsTo shows for the first call on the way to a node that its last attempt follows.
func (p *prover) attemptsTo(g *policyfile.Graph, node string) *Counterexample {
	for _, e := range g.Edges {
		if e.To == node && e.Key != "" {
			if s, err := p.subjectOf(e.Key); err == nil && s.policy.Retry.MaxAttempts > 1 {
				return s.example(Step{Ask: AskNext, Attempt: s.policy.Retry.MaxAttempts - 1})
			}
		}
	}
	return &Counterexample{}
}

// callerGivesUp compares the time that an attempt of the outer call has with that of the inner call.
func callerGivesUp(outer, inner policyfile.Edge, caller, callee *subject) *answer {
	has, takes := amplify.End(caller.policy, caller.within), callee.worst()
	names := fmt.Sprintf("%s to %s to %s", outer.From, outer.To, inner.To)
	switch {
	case has <= 0:
		return &answer{message: fmt.Sprintf("%s: the attempt of %s has no timeout", names, caller.key)}
	case takes > 0 && takes <= has:
		return &answer{message: fmt.Sprintf("%s: %s takes at most %s of the %s that the attempt of %s has", names, callee.key, takes, has, caller.key)}
	}
	longest := "has no bound"
	if takes > 0 {
		longest = "may take " + takes.String()
	}
	a := (&answer{}).breaks("", fmt.Sprintf("%s: %s gives up after %s, and %s %s: it goes on for a caller that is gone", names, caller.key, has, callee.key, longest))
	return a.with(callee.example(Step{Ask: AskTimeout, Attempt: 1, At: Seconds(min(has, time.Hour))}))
}
