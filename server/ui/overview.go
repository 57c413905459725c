package ui

import (
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// figure is a number with its name.
type figure struct {
	Name, Value, Note, Link string
	Alarm                   bool
}

type overview struct {
	Empty                         bool
	EnqueueCommand, WorkerCommand string
	States                        []figure
}

func overviewPage() *page {
	return &page{path: "{$}", nav: "Overview", title: "Overview", file: "overview", load: func(r *request) (any, error) {
		var stats api.Stats
		if err := r.get("/v1/stats", nil, &stats); err != nil {
			return nil, err
		}
		total := job.QueueStats{}
		for _, q := range stats.Queues {
			for _, s := range job.States() {
				*total.Of(s) += *q.Of(s)
			}
		}
		o := overview{Empty: len(stats.Queues) == 0}
		o.EnqueueCommand = commandLine([]string{"jobs", "enqueue", "--type", "http", "--payload", `{"url": "https://example.com"}`})
		o.WorkerCommand = commandLine([]string{"worker"})
		for _, s := range job.States() {
			n := *total.Of(s)
			o.States = append(o.States, figure{Name: string(s), Value: number(n), Link: r.ui.href("jobs", "filter", "state:"+string(s)), Alarm: s == job.Dead && n > 0})
		}
		return o, nil
	}}
}
