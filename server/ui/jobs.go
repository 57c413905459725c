package ui

import (
	"errors"
	"net/http"

	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

type jobs struct {
	Filter, Problem, Next, Command string
	Jobs                           []api.Job
}

func jobsPage() *page {
	return &page{path: "jobs", nav: "Jobs", title: "Jobs", file: "jobs", load: func(r *request) (any, error) {
		text := r.query.Get("filter")
		out := jobs{Filter: text, Command: commandLine([]string{"jobs", "list", text})}
		var found api.JobFound
		err := r.ask("/v1/jobs/find", api.JobFind{Filter: api.JobFilter{Filter: text}, Below: r.query.Get("below"), Limit: 50, Within: 2}, &found)
		if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusUnprocessableEntity {
			out.Problem = p.Detail
			return out, nil
		}
		out.Jobs = found.Jobs
		if found.Next != "" {
			out.Next = r.ui.href("jobs", "filter", text, "below", found.Next)
		}
		return out, err
	}}
}
