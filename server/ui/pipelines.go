package ui

import (
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// pipelinesView is the page of consumers and producers.
type pipelinesView struct {
	reported

	Selection client.PipelineSelection
	Rows      []pipelineRow
	Partial   bool
	Next      string
}

// pipelineRow is a consumer or producer of one client.
type pipelineRow struct {
	api.Pipeline
	Rates, Ends string // how fast, and from where to where
}

const pipelinesPerPage = 100

func pipelinesPage() *page {
	return &page{path: "pipelines", nav: "Pipelines", title: "Pipelines", file: "pipelines", moving: true, load: func(r *request) (any, error) {
		q := r.query
		f := client.PipelineSelection{Document: q.Get("document"), Client: q.Get("client"), Kind: q.Get("kind"), Name: q.Get("name")}
		out := pipelinesView{Selection: f}
		var list api.Pipelines
		var err error
		if out.reported, err = r.reported("pipelines", f.Query(), pipelinesPerPage, &list); err != nil || out.Problem != "" {
			return out, err
		}
		out.Partial = list.Partial
		out.Rows = lists.Map(list.Pipelines, newPipelineRow)
		out.Next = r.next("pipelines", list.Next, "document", f.Document, "client", f.Client, "kind", f.Kind, "name", f.Name)
		return out, nil
	}}
}

func newPipelineRow(p api.Pipeline) pipelineRow {
	row := pipelineRow{Pipeline: p, Rates: shortNumber(p.Rate) + "/s", Ends: p.Source}
	switch {
	case p.Source != "" && p.Sink != "":
		row.Ends += " → " + p.Sink
	case p.Sink != "":
		row.Ends = "→ " + p.Sink
	}
	return row
}
