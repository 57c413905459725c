package ui

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

const mechanismsPerPage = 50

// mechanismsView is the page of budgets and breakers: the totals of every name, and those of each client once a filter asks for
// clients.
type mechanismsView struct {
	reported

	Selection client.MechanismSelection
	Totals    []mechanismTotal
	Rows      []mechanismRow
	ByClient  bool // the filter asks for clients
	Partial   bool
	Next      string
}

// mechanismTotal is a line of the totals.
type mechanismTotal struct {
	api.MechanismTotal
	State, Class, Link string
}

// mechanismRow is a breaker, budget or limit of one client.
type mechanismRow struct {
	api.Mechanism
	Class string
}

var mechanismClass = map[string]string{"open": "bad", "exhausted": "bad", "half_open": "warn"}

func mechanismsPage() *page {
	return &page{path: "mechanisms", nav: "Budgets and breakers", title: "Budgets and breakers", file: "mechanisms", moving: true, load: func(r *request) (any, error) {
		q := r.query
		f := client.MechanismSelection{Document: q.Get("document"), Client: q.Get("client"), Kind: q.Get("kind"), Name: q.Get("name"), State: q.Get("state")}
		out := mechanismsView{Selection: f, ByClient: f.Client != "" || f.Name != "" || f.State != ""}
		var list api.Mechanisms
		var err error
		if out.reported, err = r.reported("mechanisms", f.Query(), mechanismsPerPage, &list); err != nil || out.Problem != "" {
			return out, err
		}
		out.Partial = list.Partial
		out.Totals = lists.Map(list.Totals, func(t api.MechanismTotal) mechanismTotal { return newMechanismTotal(r.ui, t) })
		if !out.ByClient {
			return out, nil
		}
		out.Rows = lists.Map(list.Mechanisms, func(m api.Mechanism) mechanismRow { return mechanismRow{m, mechanismClass[m.State]} })
		out.Next = r.next("mechanisms", list.Next, "document", f.Document, "client", f.Client, "kind", f.Kind, "name", f.Name, "state", f.State)
		return out, nil
	}}
}

// reported is what the pages of clients' reports have in common.
type reported struct {
	Names            []string // of documents
	Filtered         bool
	Problem, Command string
}

// reported reads a page of what clients report. A filter that the server refuses is a problem for the page, not an error.
func (r *request) reported(kind string, filter url.Values, perPage int, list any) (v reported, err error) {
	parts := []string{"clients", kind}
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		parts = append(parts, "--"+name, filter.Get(name))
	}
	v.Filtered, v.Command = len(parts) > 2, commandLine(parts)
	if v.Names, err = r.documentNames(); err != nil {
		return v, err
	}
	filter.Set("limit", strconv.Itoa(perPage))
	if cursor := r.query.Get("cursor"); cursor != "" {
		filter.Set("cursor", cursor)
	}
	err = r.get("/v1/"+kind, filter, list)
	if answered(err, http.StatusUnprocessableEntity) {
		v.Problem, err = sentence(faultOf(err)), nil
	}
	return v, err
}

// documentNames lists the names of documents, for filters.
func (r *request) documentNames() ([]string, error) {
	var documents api.Documents
	err := r.get("/v1/documents", map[string][]string{"limit": {"1000"}}, &documents)
	return lists.Map(documents.Documents, func(d policystore.Document) string { return d.Name }), err
}

// newMechanismTotal says in how many clients something is wrong.
func newMechanismTotal(u *UI, t api.MechanismTotal) mechanismTotal {
	row := mechanismTotal{MechanismTotal: t, Link: u.href("mechanisms", "document", t.Document, "kind", t.Kind, "name", t.Name)}
	switch {
	case t.Open > 0:
		row.State, row.Class = fmt.Sprintf("open in %d of %s", t.Open, plural(t.Clients, "client", "clients")), "bad"
	case t.Exhausted > 0:
		row.State, row.Class = fmt.Sprintf("exhausted in %d of %s", t.Exhausted, plural(t.Clients, "client", "clients")), "bad"
	case t.HalfOpen > 0:
		row.State, row.Class = fmt.Sprintf("half open in %d of %s", t.HalfOpen, plural(t.Clients, "client", "clients")), "warn"
	case t.Kind == "breaker":
		row.State, row.Class = "closed again", "good"
	default:
		row.State, row.Class = "available again", "good"
	}
	return row
}
