package ui

import (
	"net/url"

	"github.com/tenetdev/tenet/server/api"
)

type jobView struct {
	Job         api.Job
	QueueFilter string
}

// Title names the page.
func (v jobView) Title() string { return "Job " + v.Job.ID }

func jobPage() *page {
	return &page{path: "jobs/{id}", nav: "Jobs", file: "job", load: func(r *request) (any, error) {
		out := jobView{}
		err := r.get("/v1/jobs/"+url.PathEscape(r.PathValue("id")), nil, &out.Job)
		out.QueueFilter = term("queue", out.Job.Queue)
		return out, err
	}}
}
