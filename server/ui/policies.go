package ui

import (
	"net/url"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

type policies struct {
	Documents []policyRow
	Next      string
}

// policyRow is a document in the list of all.
type policyRow struct {
	policystore.Document
	Revision api.Revision // in force
	Clients  clientTotals
	Rollout  string // "to revision 8: step 2 of 4", empty if none runs
}

// clientTotals counts the clients of a document that were seen lately.
type clientTotals struct {
	All, Current, Refused int64
	ByRevision            []revisionClients
}

// revisionClients are the clients that run a revision.
type revisionClients struct {
	Revision, Clients, Refused int64
}

func documentPath(name, rest string) string { return "/v1/documents/" + url.PathEscape(name) + rest }

const documentsPerPage = 25

func policiesPage() *page {
	return &page{path: "policies", nav: "Policies", title: "Policies", file: "policies", load: func(r *request) (any, error) {
		var list api.Documents
		if err := r.get("/v1/documents", params.Of("limit", decimal(documentsPerPage), "cursor", r.query.Get("cursor")), &list); err != nil {
			return nil, err
		}
		out := policies{Next: r.next("policies", list.Next)}
		for _, d := range list.Documents {
			row := policyRow{Document: d, Rollout: rolloutPlace(d.Rollout)}
			var err error
			if row.Revision, err = r.revision(d.Name, d.Current); err == nil {
				row.Clients, err = r.clientTotals(d)
			}
			if err != nil {
				return nil, err
			}
			out.Documents = append(out.Documents, row)
		}
		return out, nil
	}}
}

// revision reads a revision with its text.
func (r *request) revision(name string, revision int64) (out api.Revision, err error) {
	err = r.get(documentPath(name, "/revisions/"+decimal(revision)), nil, &out)
	return out, err
}

// clientTotals counts the clients of a document.
func (r *request) clientTotals(d policystore.Document) (t clientTotals, err error) {
	var counts api.ClientCounts
	if err := r.get(documentPath(d.Name, "/clients"), nil, &counts); err != nil {
		return t, err
	}
	t.count(counts.Counts, d.Current)
	return t, nil
}
