package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

type clientsView struct {
	Document, Revision, Label string
	Refused                   bool
	Names                     []string // of documents
	Clients                   []clientRow
	Next, Problem, Command    string
	Filtered                  bool
	Totals                    *clientTotals // of the document, if one is chosen
}

// clientRow is a client in the list.
type clientRow struct {
	api.Client
	State, Class string
	Staleness    time.Duration
}

const clientsPerPage = 50

func clientsPage() *page {
	return &page{path: "clients", nav: "Clients", title: "Clients", file: "clients", moving: true, load: func(r *request) (any, error) {
		q := r.query
		out := clientsView{Document: q.Get("document"), Revision: q.Get("revision"), Label: q.Get("label"), Refused: q.Get("refused") == "true"}
		query, parts := params.Of("limit", decimal(clientsPerPage), "cursor", q.Get("cursor")), []string{"clients", "list"}
		for _, name := range []string{"document", "revision", "label"} {
			if value := q.Get(name); value != "" {
				query.Set(name, value)
				parts = append(parts, "--"+name, value)
			}
		}
		if out.Refused {
			query.Set("refused", "true")
			parts = append(parts, "--refused")
		}
		out.Filtered, out.Command = len(parts) > 2, commandLine(parts)
		var documents api.Documents
		if err := r.get("/v1/documents", url.Values{"limit": {"1000"}}, &documents); err != nil {
			return nil, err
		}
		for _, d := range documents.Documents {
			out.Names = append(out.Names, d.Name)
			if d.Name == out.Document {
				totals, err := r.clientTotals(d)
				if err != nil {
					return nil, err
				}
				out.Totals = &totals
			}
		}
		var list api.Clients
		err := r.get("/v1/clients", query, &list)
		if answered(err, http.StatusUnprocessableEntity) {
			out.Problem = sentence(faultOf(err))
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out.Next = r.next("clients", list.Next, "document", out.Document, "revision", out.Revision, "label", out.Label, "refused", q.Get("refused"))
		out.Clients = lists.Map(list.Clients, newClientRow)
		return out, nil
	}}
}

// newClientRow says how a client stands.
func newClientRow(c api.Client) clientRow {
	row := clientRow{Client: c, Staleness: time.Duration(c.StalenessSeconds * float64(time.Second)).Round(time.Millisecond)}
	switch {
	case c.Refused != 0:
		row.State, row.Class = fmt.Sprintf("refused %d", c.Refused), "bad"
	case c.Applied == c.Desired:
		row.State, row.Class = "current", "good"
	case c.Applied == 0:
		row.State, row.Class = "nothing applied yet", "warn"
	default:
		row.State, row.Class = fmt.Sprintf("should have %d", c.Desired), "warn"
	}
	return row
}
