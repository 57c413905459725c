package api

import (
	"encoding/json"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/prove"
	"github.com/tenetdev/tenet/rollout"
)

// Documents is a page of documents in the order of their names.
type Documents struct {
	Documents []policystore.Document `json:"documents" nullable:"false"`
	Next      Cursor                 `json:"next,omitempty"`
}

// Plan is how a revision is rolled out.
type Plan struct {
	Steps      []Step             `json:"steps,omitempty" maxItems:"100" doc:"Absent for 1 %, 10 %, 50 %, 100 %."`
	Thresholds rollout.Thresholds `json:"thresholds,omitzero"`
	Confidence float64            `json:"confidence,omitempty"`
}

// Step is a step of a rollout.
type Step struct {
	Share      float64           `json:"share,omitempty" doc:"The share of all clients, from 0 to 1."`
	Labels     map[string]string `json:"labels,omitempty" doc:"Selects the clients that have all of them, beside the share."`
	Hold       float64           `json:"hold,omitempty" maximum:"315360000" doc:"How long the step lasts at least, in seconds; absent for 300."`
	MinSamples int64             `json:"min_samples,omitempty" doc:"The fewest calls in each group; absent for 1000."`
}

// NewPlan describes a plan.
func NewPlan(p *rollout.Plan) *Plan {
	if p == nil {
		return nil
	}
	step := func(s rollout.Step) Step { return Step{s.Share, s.Labels, s.Hold.Seconds(), s.MinSamples} }
	return &Plan{Thresholds: p.Thresholds, Confidence: p.Confidence, Steps: lists.Map(p.Steps, step)}
}

// Plan returns the plan as rollouts take it, or nil.
func (p *Plan) Plan() *rollout.Plan {
	if p == nil {
		return nil
	}
	out := &rollout.Plan{Thresholds: p.Thresholds, Confidence: p.Confidence}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, rollout.Step{Share: s.Share, Labels: s.Labels, Hold: Duration(s.Hold), MinSamples: s.MinSamples})
	}
	return out
}

// Publish makes a text the next revision of a document.
type Publish struct {
	Body           string `json:"body" maxLength:"1048576" doc:"The document, YAML or JSON."`
	Message        string `json:"message,omitempty" maxLength:"4096"`
	AcceptWarnings bool   `json:"accept_warnings,omitempty"`
	Rollout        *Plan  `json:"rollout,omitempty" doc:"Deliver the revision in steps; {} for the default ones."`
	Trial          bool   `json:"trial,omitempty" doc:"Put the revision under trial: clients evaluate it beside the one in force, without effect."`
}

// Rollback publishes the content of an old revision anew.
type Rollback struct {
	To      int64  `json:"to" minimum:"1"`
	Message string `json:"message,omitempty" maxLength:"4096"`
	Rollout *Plan  `json:"rollout,omitempty"`
}

// Published is a new revision.
type Published struct {
	Name     string               `json:"name"`
	Revision int64                `json:"revision"`
	Hash     string               `json:"hash"`
	Warnings []Fault              `json:"warnings,omitempty"`
	Rollout  *policystore.Rollout `json:"rollout,omitempty"`
	Trial    bool                 `json:"trial,omitempty" doc:"The revision is under trial."`
}

// Trial is a trial of a revision, with what its clients reported within the last 10 minutes of their contact.
type Trial struct {
	policystore.Trial
	Clients     int                  `json:"clients" doc:"Clients that evaluate the revision."`
	Refused     int                  `json:"refused" doc:"Clients that cannot use it."`
	Reason      string               `json:"reason,omitempty" doc:"Why one of them cannot."`
	Partial     bool                 `json:"partial,omitempty" doc:"There are more clients than the server looks at."`
	Decisions   int64                `json:"decisions" doc:"Decisions that both revisions made about the same outcomes."`
	Diverged    int64                `json:"diverged" doc:"Those that differ."`
	Divergences []rollout.Divergence `json:"divergences" nullable:"false" doc:"The most frequent differences, at most 64."`
}

// Revision is a revision of a document.
type Revision struct {
	Document string    `json:"document"`
	Revision int64     `json:"revision"`
	Hash     string    `json:"hash"`
	Author   string    `json:"author"`
	Message  string    `json:"message,omitempty"`
	Created  time.Time `json:"created"`
	Parent   int64     `json:"parent" doc:"The revision that was in force; 0 for none."`
	Restores int64     `json:"restores,omitempty" doc:"The revision whose content this one brings back."`
	Body     string    `json:"body,omitempty" doc:"Absent in lists."`
}

// NewRevision describes a revision.
func NewRevision(r policystore.Revision) Revision {
	return Revision{r.Document, r.Number, r.Hash, r.Author, r.Message, r.Created, r.Parent, r.Restores, string(r.Body)}
}

// Revisions is a page of revisions, newest first.
type Revisions struct {
	Revisions []Revision `json:"revisions" nullable:"false"`
	Next      Cursor     `json:"next,omitempty"`
}

// Difference is how one revision differs from another.
type Difference struct {
	From   int64               `json:"from"`
	To     int64               `json:"to"`
	Fields []policyfile.Change `json:"fields" nullable:"false" doc:"The changed fields; empty if the documents differ only in layout and comments."`
	Text   string              `json:"text" doc:"A unified diff."`
}

// Rules is a page of what a revision says.
type Rules struct {
	Rules []Rule `json:"rules" nullable:"false"`
	Next  Cursor `json:"next,omitempty"`
}

// Rule is what a revision says about one thing.
type Rule struct {
	Kind   string             `json:"kind" enum:"call,job,step,queue,consumer,producer,budget"`
	Name   string             `json:"name" doc:"The key of a call, job or step, and else the name in the document. * stands for all that the document does not name."`
	Title  string             `json:"title" doc:"The name in words."`
	Values []policyfile.Value `json:"values" nullable:"false" doc:"The fields that have a value, with the place that it was taken from."`
	Policy json.RawMessage    `json:"policy,omitempty" doc:"The policy of a call, job or step, as documents write it, with durations in seconds."`
}

// Proof is a page of what can be proved of a revision: violations first, then those that the document accepts, then the properties
// that hold.
type Proof struct {
	Violated int       `json:"violated" doc:"Violations that the document does not accept."`
	Accepted int       `json:"accepted" doc:"Violations that it accepts, with a reason."`
	Hold     int       `json:"hold" doc:"Properties that hold."`
	Findings []Finding `json:"findings" nullable:"false"`
	Next     Cursor    `json:"next,omitempty"`
}

// NewProof describes findings in their order, without a page of them.
func NewProof(findings []prove.Finding) Proof {
	p := Proof{Findings: []Finding{}}
	for _, f := range findings {
		switch {
		case f.Broken():
			p.Violated++
		case f.Verdict == prove.Violated:
			p.Accepted++
		default:
			p.Hold++
		}
	}
	return p
}

// Finding is the verdict on one property of a revision.
type Finding struct {
	Code           string         `json:"code" doc:"Of the rule; docs/prove.md lists them."`
	Severity       prove.Severity `json:"severity" enum:"error,warning,note"`
	Verdict        prove.Verdict  `json:"verdict" enum:"holds,violated"`
	Path           string         `json:"path" doc:"The field to change, or the object that the property is about."`
	Line           int            `json:"line"`
	Column         int            `json:"column"`
	Message        string         `json:"message" doc:"The verdict in words, with its numbers."`
	Remedy         string         `json:"remedy,omitempty" doc:"Of a violation."`
	Accepted       string         `json:"accepted,omitempty" doc:"The reason for which the document accepts the violation."`
	Counterexample []string       `json:"counterexample,omitempty" doc:"Questions to the decision core with its answers, which show the violation."`
}

// NewFinding describes a finding.
func NewFinding(f prove.Finding) Finding {
	out := Finding{Code: f.Code, Severity: f.Severity, Verdict: f.Verdict, Path: f.Path, Line: f.Line, Column: f.Column, Message: f.Message, Accepted: f.Suppressed}
	if f.Verdict == prove.Violated {
		out.Remedy = f.Fault.Remedy
	}
	if f.Counterexample != nil {
		out.Counterexample = lists.Map(f.Counterexample.Steps, prove.Step.String)
	}
	return out
}

// Simulation asks what a revision does to services under load and faults.
type Simulation struct {
	Scenario string `json:"scenario" maxLength:"65536" doc:"A scenario as tenet simulate reads it, YAML or JSON. The policies, queues, jobs and budgets of the revision replace its own."`
	Seed     uint64 `json:"seed,omitempty" doc:"Of all random numbers; 0 for that of the scenario."`
}

// Check asks what publishing a text would do.
type Check struct {
	Body string `json:"body" maxLength:"1048576" doc:"The document, YAML or JSON."`
}

// Checked is what publishing a text would do.
type Checked struct {
	Revision int64               `json:"revision" doc:"The number that the revision would get."`
	Base     int64               `json:"base" doc:"The revision in force, which it would replace; 0 for none."`
	Hash     string              `json:"hash,omitempty" doc:"Absent if there are faults."`
	Faults   []Fault             `json:"faults" nullable:"false" doc:"The faults for which the document would be refused."`
	Warnings []Fault             `json:"warnings" nullable:"false" doc:"Warnings, which accept_warnings accepts."`
	Fields   []policyfile.Change `json:"fields" nullable:"false" doc:"The differences from the revision in force."`
	Text     string              `json:"text" doc:"The same differences as a unified diff."`
}

// RolloutStatus is a rollout with its evidence.
type RolloutStatus struct {
	Rollout  policystore.Rollout `json:"rollout"`
	Evidence []Evidence          `json:"evidence" nullable:"false"`
	// Judgement is the one that ended the rollout; for a rollout that has not ended it is that of this moment, and changes nothing.
	Judgement *rollout.Judgement `json:"judgement,omitempty" doc:"The judgement that ended the rollout, or the current one."`
}

// Evidence is what the clients on one revision reported during one step of a rollout, in sum.
type Evidence struct {
	Step     int             `json:"step"`
	Revision int64           `json:"revision"`
	Counters json.RawMessage `json:"counters"`
}

// Freeze says why a document must not change.
type Freeze struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000"`
}

// Clients is a page of clients in the order of document and ID.
type Clients struct {
	Clients []Client `json:"clients" nullable:"false"`
	Next    Cursor   `json:"next,omitempty"`
}

// Client is what is known of a program that follows a document.
type Client struct {
	policystore.Client
	StalenessSeconds float64 `json:"staleness_seconds" doc:"How long before its last report the client had heard from a server."`
}

// ClientCounts counts clients by desired, applied and refused revision.
type ClientCounts struct {
	Counts []policystore.ClientCount `json:"counts" nullable:"false"`
}

// Mechanisms is a page of breakers, budgets and limits in the order of document, client, kind and name.
type Mechanisms struct {
	Mechanisms []Mechanism      `json:"mechanisms" nullable:"false"`
	Totals     []MechanismTotal `json:"totals,omitempty" doc:"Over all clients, the worst first, at most 1,000; on the first page only. The filters for clients and states do not apply."`
	Partial    bool             `json:"partial,omitempty" doc:"There are more clients with mechanisms than the server looks at."`
	Next       Cursor           `json:"next,omitempty"`
}

// Mechanism is the state of a breaker, budget or limit in a client.
type Mechanism struct {
	Document string `json:"document"`
	Client   string `json:"client"`
	policystore.Mechanism
}

// Pipelines is a page of consumers and producers in the order of document, client, kind and name.
type Pipelines struct {
	Pipelines []Pipeline `json:"pipelines" nullable:"false"`
	Partial   bool       `json:"partial,omitempty" doc:"There are more clients with pipelines than the server looks at."`
	Next      Cursor     `json:"next,omitempty"`
}

// Pipeline is a consumer or producer in a client.
type Pipeline struct {
	Document string    `json:"document"`
	Client   string    `json:"client"`
	LastSeen time.Time `json:"last_seen" doc:"The last contact of the client."`
	policystore.Pipeline
}

// MechanismTotal sums up the breakers, budgets or limits of a name over the clients of a document.
type MechanismTotal struct {
	Document  string    `json:"document"`
	Kind      string    `json:"kind" enum:"breaker,budget,limit"`
	Name      string    `json:"name"`
	Clients   int       `json:"clients" doc:"That report it."`
	Open      int       `json:"open" doc:"Clients in which the breaker is open."`
	HalfOpen  int       `json:"half_open"`
	Exhausted int       `json:"exhausted" doc:"Clients in which the budget or limit has refused an attempt within the last minute."`
	Since     time.Time `json:"since,omitzero" doc:"When the oldest open or exhausted state began; absent if there is none."`
	Openings  int64     `json:"openings"`
	Refusals  int64     `json:"refusals"`
}

// SigningKey is the key with which the servers of a store sign documents.
type SigningKey struct {
	PublicKey string `json:"public_key" doc:"Ed25519, in base64; clients pin it."`
}
