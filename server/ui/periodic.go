package ui

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

func periodicPage() *page {
	return &page{path: "periodic", nav: "Periodic jobs", title: "Periodic jobs", file: "periodic", load: func(r *request) (any, error) {
		var list api.PeriodicList
		err := r.get("/v1/periodic", nil, &list)
		return list, err
	}}
}

func runPeriodicAction() *action {
	return &action{
		path: "periodic/{name}/run",
		preview: func(r *request) (*preview, error) {
			name := r.PathValue("name")
			var list api.PeriodicList
			if err := r.get("/v1/periodic", nil, &list); err != nil {
				return nil, err
			}
			i := slices.IndexFunc(list.Periodic, func(p api.Periodic) bool { return p.Name == name })
			if i < 0 {
				return nil, &client.Problem{Status: http.StatusNotFound, Title: "Not found", Detail: "This server has no periodic job of this name.", Remedy: "Choose one of the list"}
			}
			p := list.Periodic[i]
			return &preview{
				Title: "Run " + name + " now?", Button: "Enqueue 1 job", Command: commandLine([]string{"periodic", "run", name, "--file", "FILE"}), Counted: true, Count: 1,
				Text: []string{"One job of type " + p.Type + " is enqueued in " + p.Queue + ", in addition to the schedule. The next tick stays where it is."},
			}, nil
		},
		make: func(r *request) (string, string, error) {
			var receipt api.Receipt
			err := r.change(client.Call{Method: http.MethodPost, Path: "/v1/periodic/" + url.PathEscape(r.PathValue("name")) + "/run"}, &receipt)
			return r.PathValue("name") + " was enqueued.", r.ui.href("jobs/" + receipt.ID), err
		},
	}
}
