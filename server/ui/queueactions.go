package ui

import (
	"net/http"
	"net/url"
	"time"

	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

func queueActions() []*action {
	return []*action{pauseQueueAction(), resumeQueueAction(), runPeriodicAction()}
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
				Title: "Pause " + name + "?", Button: "Pause " + name, Command: commandLine([]string{"queues", "pause", name, "--reason", "REASON"}),
				Text: []string{"All workers finish the jobs that they have begun, and claim no more from this queue. Jobs can still be enqueued."},
				Fields: []field{
					{Name: "reason", Label: "Reason", Help: "Others see it beside the queue.", Required: true},
					{Name: "for", Label: "Resume after", Help: "For example 30m or 2h. Empty: when somebody resumes it."},
				},
			}, nil
		},
		make: func(r *request) (string, string, error) {
			s := api.QueueSwitch{Paused: true, Reason: r.PostFormValue("reason")}
			span, err := formDuration(r, "for", "Resume after")
			if err != nil {
				return "", "", err
			}
			if span > 0 {
				s.Until = time.Now().Add(span)
			}
			return r.PathValue("queue") + " is paused.", "", queueChange(r, s)
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
