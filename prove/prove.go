package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// subject is one policy with what bounds its work.
type subject struct {
	key    policy.Key
	policy *policy.Policy
	// within is when the work ends, 0 for never, and bound the field that says so.
	within  time.Duration
	bound   string
	budgets map[string]policy.Budget
	limited bool // a job whose type or queue has limits
}

// prover collects the findings on one document.
type prover struct {
	document *policyfile.Document
	budgets  map[string]policy.Budget
	subjects []subject
	findings []Finding
	seen     map[violation]bool
}

// violation identifies a violation. The paths of two fields may read alike.
type violation struct {
	code, path string
	line       int
}

// Document checks every rule on a document, and on a call graph unless that is nil. The findings are in the order of their places
// in the document, those on the graph last. A violation that many keys inherit from one field is reported once. The error is that of a
// graph that names a key without a policy, or multiplies beyond the range of numbers.
func Document(d *policyfile.Document, graph *policyfile.Graph) ([]Finding, error) {
	if d == nil {
		return nil, errors.New("prove: Document: the document is nil")
	}
	p := &prover{document: d, budgets: d.Set.Budgets(), seen: map[violation]bool{}}
	p.collect()
	p.findings = make([]Finding, 0, len(rules)/2*len(p.subjects)+len(p.budgets)) // of most policies, about half of the rules
	for i := range p.subjects {
		for _, r := range rules {
			if r.policy != nil {
				p.check(r, &p.subjects[i])
			}
		}
	}
	p.checkBudgets()
	p.checkOutages()
	slices.SortStableFunc(p.findings, func(a, b Finding) int { return a.Line - b.Line })
	if graph != nil {
		if err := p.checkGraph(graph); err != nil {
			return nil, err
		}
	}
	p.suppress()
	return p.findings, nil
}

// collect lists the policies of the document, the defaults of its surfaces included.
func (p *prover) collect() {
	keys := p.document.Set.Keys()
	for field, key := range map[string]policy.Key{
		"defaults.calls": {Name: "*"}, "defaults.jobs": policy.JobKey("*", "*"), "defaults.steps": policy.ConsumerKey("*", "*"),
	} {
		if p.document.Line(field) > 0 {
			keys = append(keys, key)
		}
	}
	limited := map[string]bool{} // queues and types
	for _, l := range p.document.Set.Limits() {
		if len(l.Limits) > 0 && l.Queue != "" {
			limited["job/"+l.Queue] = true
		} else if len(l.Limits) > 0 {
			limited[l.Type] = true
		}
	}
	slices.SortFunc(keys, func(a, b policy.Key) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		found, _ := p.document.Set.Policy(context.Background(), key) // a Set never fails
		s := subject{key: key, policy: found, budgets: p.budgets}
		s.limited = key.Surface() == policy.SurfaceJob && (limited[key.Namespace] || limited[key.Name])
		s.within, s.bound = p.bounds(key, found)
		p.subjects = append(p.subjects, s)
	}
}

// bounds returns when work under a key ends: the overall timeout, or for steps the timeouts of their engine.
func (p *prover) bounds(key policy.Key, found *policy.Policy) (within time.Duration, field string) {
	engine, name, _ := strings.Cut(key.Namespace, "/")
	if key.Surface() != policy.SurfaceStep {
		return found.Retry.OverallTimeout, "retry.overall_timeout"
	}
	transaction, run := time.Duration(0), time.Duration(0)
	if c, ok := p.document.Set.Consumer(name); ok && engine == "consumer" {
		transaction, run = c.Loop.TransactionTimeout, c.Loop.Timeout
	}
	if c, ok := p.document.Set.Producer(name); ok && engine == "producer" {
		transaction, run = c.Loop.TransactionTimeout, c.Loop.Timeout
	}
	if transaction > 0 && key.Name != "fetch" && (run <= 0 || transaction <= run) {
		return transaction, "loop.transaction_timeout"
	}
	return run, "loop.timeout"
}

// check asks one rule about one policy.
func (p *prover) check(r *Rule, s *subject) {
	a := r.policy(s)
	if a == nil {
		return // the rule does not apply
	}
	at := p.document.Locate(s.key, "")
	if a.violated {
		at = p.document.Locate(s.key, a.field)
	}
	p.add(r, at, a)
}

func (p *prover) add(r *Rule, at policyfile.Fault, a *answer) {
	f := Finding{Code: r.Code, Severity: r.Severity, Verdict: Holds, Message: a.message, Path: at.Path, Line: at.Line, Column: at.Column}
	if a.violated {
		this := violation{r.Code, at.Path, at.Line}
		if p.seen[this] {
			return
		}
		p.seen[this] = true
		f.Verdict, f.Counterexample = Violated, a.example
	}
	f.Fault = at
	f.Fault.Problem, f.Fault.Remedy, f.Fault.Warning = r.Code+": "+a.message, r.Remedy, r.Severity != Error
	p.findings = append(p.findings, f)
}

// checkBudgets asks the rules of budgets about each budget of the document.
func (p *prover) checkBudgets() {
	users := map[string][]subject{}
	for _, s := range p.subjects {
		for _, name := range s.asks() {
			users[name] = append(users[name], s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.budgets)) {
		for _, r := range rules {
			if r.budget == nil {
				continue
			}
			a := r.budget(name, p.budgets[name], users[name])
			p.add(r, p.document.LocatePath(policyfile.EntryPath("budgets", name)), a)
		}
	}
}

// checkOutages asks of each entry of prove.outages whether it outlasts the retries of its policy, in every queue if that is a job's.
func (p *prover) checkOutages() {
	entries := p.document.Outages()
	if len(entries) == 0 {
		return
	}
	users := map[string][]*subject{} // by the path of their policy
	for i := range p.subjects {
		s := &p.subjects[i]
		path := p.document.Locate(s.key, "").Path
		users[path] = append(users[path], s)
	}
	rule := ruleOf("outage-outlasts-retries")
	for i, entry := range entries {
		at := p.document.LocatePath(fmt.Sprintf("prove.outages[%d]", i))
		for _, s := range users[entry.Path] {
			p.add(rule, at, s.outlasts(entry.Lasts))
		}
		if len(users[entry.Path]) == 0 {
			message := fmt.Sprintf("no policy has the path %q", entry.Path) + near.Question(entry.Path, slices.Sorted(maps.Keys(users)))
			p.add(rule, at, (&answer{}).breaks("", message))
		}
	}
}

// suppress marks the violations that the document accepts, and reports entries without effect.
func (p *prover) suppress() {
	unused := ruleOf("suppression-unused")
	violations := map[[2]string][]int{} // indices of findings by code and path
	for i, f := range p.findings {
		if f.Verdict == Violated {
			violations[[2]string{f.Code, f.Path}] = append(violations[[2]string{f.Code, f.Path}], i)
		}
	}
	for i, entry := range p.document.Suppressed() {
		accepted := violations[[2]string{entry.Code, entry.Path}]
		for _, j := range accepted {
			p.findings[j].Suppressed = entry.Reason
		}
		at := p.document.LocatePath(fmt.Sprintf("prove.suppress[%d]", i))
		a := &answer{message: fmt.Sprintf("%s at %s is accepted: %s", entry.Code, entry.Path, entry.Reason)}
		switch codes := codes(); {
		case len(accepted) > 0:
		case slices.Contains(codes, entry.Code):
			a.breaks("", "no violation of "+entry.Code+" at "+entry.Path)
		default:
			a.breaks("", fmt.Sprintf("unknown code %q", entry.Code)+near.Question(entry.Code, codes))
		}
		p.add(unused, at, a)
	}
}
