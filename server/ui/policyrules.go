package ui

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

type policyRules struct {
	documentHead
	Shown   api.Revision
	Keyed   []ruleGroup // calls, jobs and steps
	Others  []ruleRow   // queues, pipelines and budgets
	Chosen  *chosenRule
	Next    string
	Command string
}

// Title names the page.
func (p policyRules) Title() string {
	if p.Chosen != nil {
		return p.Name + " · " + p.Chosen.Title
	}
	return p.Name
}

// ruleGroup are rules with the same columns.
type ruleGroup struct {
	Name    string
	Columns []string
	Rules   []ruleRow
}

// ruleRow is a rule in a table.
type ruleRow struct {
	api.Rule
	Path   string
	Cells  []valueCell // one for each column of the group
	Chosen bool
}

// valueCell is a value of a field, with its origin.
type valueCell struct {
	Field, Text, Origin, Link string
	Line                      int  // in the document
	Default                   bool // from the section defaults
	Clamped                   bool
}

// chosenRule is the rule that a page shows in full.
type chosenRule struct {
	api.Rule
	Cells   []valueCell
	Delays  *delays
	Command string
}

// ruleColumns are the fields that a table of rules shows.
var ruleColumns = [][2]string{
	{"Attempts", "retry.max_attempts"}, {"Backoff", "retry.backoff"}, {"Cap", "retry.backoff_cap"}, {"Jitter", "retry.jitter"}, {"Timeout", "retry.timeout"},
	{"Overall", "retry.overall_timeout"}, {"Budget", "retry.budget.name"}, {"Breaker", "circuit.kind"}, {"Hedge", "hedge.trigger"},
}

var ruleKinds = []struct{ kind, name string }{{"call", "Calls"}, {"job", "Jobs"}, {"step", "Steps of pipelines"}}

func policyRulesPage() *page {
	return documentPage("Rules", page{path: "policies/{name}", file: "policy-rules"}, func(r *request, h documentHead) (any, error) {
		shown, err := r.shownRevision(h)
		if err != nil {
			return nil, err
		}
		out := policyRules{documentHead: h, Shown: shown, Command: commandLine(r.getCommand(h.Name))}
		list, err := r.rules(out.Shown, params.Of("limit", "200", "cursor", r.query.Get("cursor")))
		if err != nil {
			return nil, err
		}
		if list.Next != "" {
			out.Next = out.link(r, "", string(list.Next))
		}
		chosen := r.query.Get("rule")
		for _, k := range ruleKinds {
			g := ruleGroup{Name: k.name, Columns: lists.Map(ruleColumns, func(c [2]string) string { return c[0] })}
			for _, rule := range list.Rules {
				if rule.Kind == k.kind {
					g.Rules = append(g.Rules, out.row(r, rule, chosen))
				}
			}
			if len(g.Rules) > 0 {
				out.Keyed = append(out.Keyed, g)
			}
		}
		for _, rule := range list.Rules {
			if len(rule.Policy) == 0 {
				row := out.row(r, rule, chosen)
				row.Cells = out.cells(r, rule.Values)
				out.Others = append(out.Others, row)
			}
		}
		if chosen != "" {
			out.Chosen, err = out.choose(r, chosen)
		}
		return out, err
	})
}

// rules reads a page of what a revision says.
func (r *request) rules(of api.Revision, query url.Values) (list api.Rules, err error) {
	err = r.get(documentPath(of.Document, "/revisions/"+decimal(of.Revision)+"/rules"), query, &list)
	return list, err
}

// link leads to the page with a rule in full, or to another page of rules.
func (p *policyRules) link(r *request, rule, cursor string) string {
	return r.ui.href("policies/"+p.Name, "revision", r.query.Get("revision"), "rule", rule, "cursor", cursor)
}

func (p *policyRules) row(r *request, rule api.Rule, chosen string) ruleRow {
	row := ruleRow{Rule: rule, Path: p.link(r, rule.Name, r.query.Get("cursor")), Chosen: rule.Name == chosen && len(rule.Policy) > 0}
	for _, c := range ruleColumns {
		i := slices.IndexFunc(rule.Values, func(v policyfile.Value) bool { return v.Field == c[1] })
		cell := valueCell{}
		if i >= 0 {
			cell = p.cell(r, rule.Values[i])
		}
		row.Cells = append(row.Cells, cell)
	}
	return row
}

func (p *policyRules) cells(r *request, values []policyfile.Value) []valueCell {
	return lists.Map(values, func(v policyfile.Value) valueCell { return p.cell(r, v) })
}

func (p *policyRules) cell(r *request, v policyfile.Value) valueCell {
	c := valueCell{Field: v.Field, Text: v.Text, Clamped: v.Clamped}
	switch {
	case v.Path != "":
		c.Line, c.Default = v.Line, strings.HasPrefix(v.Path, "defaults.")
		c.Origin, c.Link = v.Path, r.ui.href("policies/"+p.Name+"/text", "revision", decimal(p.Shown.Revision))+"#L"+decimal(int64(v.Line))
	case v.Category != "":
		c.Origin = "catalog " + string(v.Category)
	default:
		c.Origin = "built in"
	}
	return c
}

// choose reads the rule of a name.
func (p *policyRules) choose(r *request, name string) (*chosenRule, error) {
	list, err := r.rules(p.Shown, url.Values{"rule": {name}})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Rules, func(rule api.Rule) bool { return len(rule.Policy) > 0 })
	if i < 0 {
		return nil, errNoPage
	}
	rule := list.Rules[i]
	var compiled policy.Policy
	if err := json.Unmarshal(rule.Policy, &compiled); err != nil {
		return nil, err
	}
	return &chosenRule{
		Rule: rule, Cells: p.cells(r, rule.Values), Delays: newDelays(&compiled.Retry),
		Command: commandOn(rule.Name, "policy", "show", "--policy", "policies.yaml"),
	}, nil
}
