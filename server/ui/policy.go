package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

// documentHead is what the pages of a document have in common.
type documentHead struct {
	policystore.Document
	InForce  api.Revision // with its text
	Clients  clientTotals
	Progress string // of a rollout that has not ended
	Tabs     []tab
	current  string // the tab that is shown
}

// Title names the page.
func (h documentHead) Title() string { return h.Name + " · " + h.current }

// documentPage makes a page of a document from its address and template. It stands under a tab.
func documentPage(tab string, p page, load func(*request, documentHead) (any, error)) *page {
	p.nav = "Policies"
	p.load = func(r *request) (any, error) {
		h, err := r.documentHead(tab)
		if err != nil {
			return nil, err
		}
		return load(r, h)
	}
	return &p
}

// tab is a link to a part of what a page is about.
type tab struct {
	Name, Path string
	Current    bool
}

// documentHead reads the state of the document that the path names. current is the tab that is shown.
func (r *request) documentHead(current string) (h documentHead, err error) {
	name := r.PathValue("name")
	h.current = current
	if err = r.get(documentPath(name, ""), nil, &h.Document); err != nil {
		return h, err
	}
	if h.InForce, err = r.revision(name, h.Current); err != nil {
		return h, err
	}
	if h.Clients, err = r.clientTotals(h.Document); err != nil {
		return h, err
	}
	h.Progress = rolloutPlace(h.Rollout)
	for _, t := range []struct{ name, rest string }{{"Rules", ""}, {"Text", "/text"}, {"Proof", "/proof"}, {"Simulation", "/simulation"}, {"Revisions", "/revisions"}, {"Trial", "/trial"}, {"Rollout", "/rollout"}} {
		h.Tabs = append(h.Tabs, tab{t.name, r.ui.href("policies/" + name + t.rest), t.name == current})
	}
	return h, nil
}

// rolloutPlace says how far a rollout has come. It is empty if none runs.
func rolloutPlace(o *policystore.Rollout) string {
	if o == nil || o.State.Ended() {
		return ""
	}
	text := fmt.Sprintf("revision %d: step %d of %d", o.Candidate, o.Step+1, len(o.Plan.Steps))
	if o.State == policystore.Paused {
		text += ", paused"
	}
	return text
}

// count sums up clients by the revision that they run.
func (t *clientTotals) count(counts []policystore.ClientCount, current int64) {
	by := map[int64]*revisionClients{}
	for _, c := range counts {
		t.All += c.Clients
		if c.Applied == current {
			t.Current += c.Clients
		}
		if by[c.Applied] == nil {
			by[c.Applied] = &revisionClients{Revision: c.Applied}
		}
		by[c.Applied].Clients += c.Clients
		if c.Refused != 0 {
			t.Refused += c.Clients
			by[c.Applied].Refused += c.Clients
		}
	}
	for _, c := range by {
		t.ByRevision = append(t.ByRevision, *c)
	}
	slices.SortFunc(t.ByRevision, func(a, b revisionClients) int { return cmp.Compare(b.Revision, a.Revision) })
}

// running counts the clients that run a revision.
func (t *clientTotals) running(revision int64) int64 {
	for _, c := range t.ByRevision {
		if c.Revision == revision {
			return c.Clients
		}
	}
	return 0
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// maxShownLines bounds the lines of a text on a page.
const maxShownLines = 10_000

type policyText struct {
	documentHead
	Shown   api.Revision
	Lines   []string
	Cut     bool
	Command string
}

func policyTextPage() *page {
	return documentPage("Text", page{path: "policies/{name}/text", file: "policy-text"}, func(r *request, h documentHead) (any, error) {
		shown, err := r.shownRevision(h)
		if err != nil {
			return nil, err
		}
		out := policyText{documentHead: h, Shown: shown, Command: commandLine(r.getCommand(h.Name))}
		out.Lines = strings.Split(strings.TrimSuffix(out.Shown.Body, "\n"), "\n")
		if out.Cut = len(out.Lines) > maxShownLines; out.Cut {
			out.Lines = out.Lines[:maxShownLines]
		}
		return out, nil
	})
}

// shownRevision reads the revision that the page's query names, or else the one in force.
func (r *request) shownRevision(h documentHead) (api.Revision, error) {
	if n := r.number("revision"); n > 0 {
		return r.revision(h.Name, n)
	}
	return h.InForce, nil
}

// getCommand are the words of the command that prints the revision that the page shows.
func (r *request) getCommand(name string) []string {
	words := []string{"policy", "get", name}
	if n := r.number("revision"); n > 0 {
		words = append(words, "--revision", decimal(n))
	}
	return words
}

// number reads a number of the page's query; 0 if it is missing or not a number.
func (r *request) number(name string) int64 {
	n, _ := strconv.ParseInt(r.query.Get(name), 10, 64)
	return n
}

type policyRevisions struct {
	documentHead
	Revisions []revisionRow
	Next      string
	Command   string
}

// revisionRow is a revision in the list of a document's.
type revisionRow struct {
	api.Revision
	Clients   int64
	InForce   bool
	Candidate bool
	Trial     bool
}

func policyRevisionsPage() *page {
	return documentPage("Revisions", page{path: "policies/{name}/revisions", file: "policy-revisions"}, func(r *request, h documentHead) (any, error) {
		out := policyRevisions{documentHead: h, Command: commandLine([]string{"policy", "revisions", h.Name})}
		var list api.Revisions
		if err := r.get(documentPath(h.Name, "/revisions"), params.Of("limit", "50", "cursor", r.query.Get("cursor")), &list); err != nil {
			return nil, err
		}
		out.Next = r.next("policies/"+h.Name+"/revisions", list.Next)
		for _, v := range list.Revisions {
			out.Revisions = append(out.Revisions, revisionRow{
				Revision: v, Clients: h.Clients.running(v.Revision), InForce: v.Revision == h.Current,
				Candidate: h.Progress != "" && v.Revision == h.Rollout.Candidate, Trial: h.Trial != nil && v.Revision == h.Trial.Revision,
			})
		}
		return out, nil
	})
}

type policyDiff struct {
	documentHead
	From, To int64
	difference
	Replay          string // address of the form that repeats the record under revision To
	Command, Record string // of the comparison, and of that with the record
}

// difference is how one text differs from another.
type difference struct {
	Label  string // what is compared
	Fields []fieldChange
	Lines  []diffLine
}

// fieldChange is a field that differs.
type fieldChange struct{ Path, From, To string }

func newDifference(d api.Difference) difference {
	out := difference{Lines: diffLines(d.Text)}
	if len(out.Lines) > 1 {
		out.Label = strings.TrimPrefix(out.Lines[0].Text, "--- ") + " and " + strings.TrimPrefix(out.Lines[1].Text, "+++ ")
	}
	for _, f := range d.Fields {
		out.Fields = append(out.Fields, fieldChange{f.Path, fieldText(f.From), fieldText(f.To)})
	}
	return out
}

// fieldText writes a value of a field as documents do.
func fieldText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Title names the page.
func (p policyDiff) Title() string {
	return fmt.Sprintf("%s · Revisions %d and %d", p.Name, p.From, p.To)
}

func policyDiffPage() *page {
	return documentPage("Revisions", page{path: "policies/{name}/diff", file: "policy-diff"}, func(r *request, h documentHead) (any, error) {
		out := policyDiff{documentHead: h, From: r.number("from"), To: r.number("to")}
		out.To = cmp.Or(out.To, h.Current)
		out.From = cmp.Or(out.From, max(out.To-1, 1))
		out.Command = commandLine([]string{"policy", "compare", h.Name, decimal(out.From), decimal(out.To)})
		from, to := fmt.Sprintf("%s@%d", h.Name, out.From), fmt.Sprintf("%s@%d", h.Name, out.To)
		out.Replay = r.ui.href("do/audit/replay", "document", to)
		out.Record = commandLine([]string{"policy", "diff", from, to, "--audit", "server:"})
		d, err := r.difference(h.Name, out.From, out.To)
		out.difference = d
		return out, err
	})
}

// difference compares two revisions.
func (r *request) difference(name string, from, to int64) (difference, error) {
	var d api.Difference
	err := r.get(documentPath(name, "/diff"), map[string][]string{"from": {decimal(from)}, "to": {decimal(to)}}, &d)
	return newDifference(d), err
}
