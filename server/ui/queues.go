package ui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

type queues struct {
	States []job.State
	Queues []queueRow
}

type queueRow struct {
	Name, Escaped, Filter, Reason string
	Paused                        bool
	Until                         time.Time
	Counts                        []stateCount
	Oldest                        float64 // seconds
}

type stateCount struct {
	Filter string
	Count  int
}

// term writes a condition of the filter grammar.
func term(field, value string) string {
	return filter.Terms{{Field: field, Values: []filter.Value{{Text: value}}}}.String()
}

func queuesPage() *page {
	return &page{path: "queues", nav: "Queues", title: "Queues", file: "queues", load: func(r *request) (any, error) {
		var stats api.Stats
		var paused api.Queues
		if err := r.get("/v1/stats", nil, &stats); err != nil {
			return nil, err
		}
		if err := r.get("/v1/queues", nil, &paused); err != nil {
			return nil, err
		}
		for _, q := range paused.Queues {
			if _, ok := stats.Queues[q.Queue]; !ok {
				stats.Queues[q.Queue] = api.QueueStats{}
			}
		}
		out := queues{States: job.States()}
		for _, name := range slices.Sorted(maps.Keys(stats.Queues)) {
			q := stats.Queues[name]
			row := queueRow{Name: name, Escaped: url.PathEscape(name), Filter: term("queue", name), Oldest: q.OldestReady}
			for _, s := range out.States {
				row.Counts = append(row.Counts, stateCount{term("state", string(s)) + " " + row.Filter, *q.Of(s)})
			}
			if i := slices.IndexFunc(paused.Queues, func(p job.QueueState) bool { return p.Queue == name }); i >= 0 {
				p := paused.Queues[i]
				row.Paused, row.Reason, row.Until = p.Holds(time.Now()), p.Reason, p.Until
			}
			out.Queues = append(out.Queues, row)
		}
		return out, nil
	}}
}

func queueChange(r *request, s api.QueueSwitch) error {
	return r.change(client.Call{Method: http.MethodPut, Path: "/v1/queues/" + url.PathEscape(r.PathValue("queue")), Body: s}, nil)
}

func pauseQueueAction() *action {
	return &action{
		path: "queues/{queue}/pause",
		preview: func(r *request) (*preview, error) {
			name := r.PathValue("queue")
			return &preview{
				Title: "Pause " + name + "?", Button: "Pause " + name, Command: commandLine([]string{"queues", "pause", name}),
				Text:   []string{"Workers finish the jobs that they have begun, and claim no more from this queue. Jobs can still be enqueued."},
				Fields: []field{{Name: "reason", Label: "Reason", Help: "Others see it beside the queue."}},
			}, nil
		},
		make: func(r *request) (string, string, error) {
			return r.PathValue("queue") + " is paused.", "", queueChange(r, api.QueueSwitch{Paused: true, Reason: r.PostFormValue("reason")})
		},
	}
}

func resumeQueueAction() *action {
	return &action{
		path: "queues/{queue}/resume",
		preview: func(r *request) (*preview, error) {
			name := r.PathValue("queue")
			return &preview{
				Title: "Resume " + name + "?", Button: "Resume " + name, Command: commandLine([]string{"queues", "resume", name}),
				Text: []string{"Workers claim jobs from this queue again at once."},
			}, nil
		},
		make: func(r *request) (string, string, error) {
			return r.PathValue("queue") + " is open.", "", queueChange(r, api.QueueSwitch{})
		},
	}
}
