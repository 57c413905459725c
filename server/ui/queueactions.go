package ui

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

func queueChange(r *request, s api.QueueSwitch) error {
	return r.change(client.Call{Method: http.MethodPut, Path: "/v1/queues/" + url.PathEscape(r.PathValue("queue")), Body: s}, nil)
}

func pauseQueueAction() *action {
	return on("queues/{queue}/pause", wildcard("queue"), func(_ *request, name string) (*preview, error) {
		return &preview{
			Title: "Pause " + name + "?", Button: "Pause " + name, Command: "tenet queues pause", Last: shellWords(operands(name)),
			Text: []string{"All workers finish the jobs that they have begun, and claim no more from this queue. Jobs can still be enqueued."},
			Fields: []field{
				{Name: "reason", Label: "Reason", Help: "Others see it beside the queue.", Required: true, Flag: "--reason VALUE", Unset: "--reason REASON"},
				{Name: "for", Label: "Resume after", Help: "For example 30m or 2h from now. Empty: when somebody resumes it.", Flag: "--for VALUE"},
			},
		}, nil
	}, func(r *request) (string, string, error) {
		s := api.QueueSwitch{Paused: true, Reason: r.PostFormValue("reason")}
		span, err := formDuration(r, "for", "Resume after")
		if err != nil {
			return "", "", err
		}
		if span > 0 {
			s.Until = r.shown().Add(span)
			if s.Until.Before(time.Now()) {
				return "", "", formFault("Resume after: that has passed since this form was shown.")
			}
		}
		return r.PathValue("queue") + " is paused.", "", queueChange(r, s)
	})
}

func resumeQueueAction() *action {
	return on("queues/{queue}/resume", wildcard("queue"), func(_ *request, name string) (*preview, error) {
		return &preview{
			Title: "Resume " + name + "?", Button: "Resume " + name, Command: commandOn(name, "queues", "resume"),
			Text: []string{"Workers claim jobs from this queue again at once."},
		}, nil
	}, func(r *request) (string, string, error) {
		return r.PathValue("queue") + " is open.", "", queueChange(r, api.QueueSwitch{})
	})
}

func setQueueAction() *action {
	return on("queues/{queue}/concurrency", wildcard("queue"), func(_ *request, name string) (*preview, error) {
		return &preview{
			Title: "Set the concurrency of " + name + "?", Button: "Set the concurrency", Command: commandOn(name, "queues", "set"),
			Text:   []string{"All workers follow within a second. Running jobs continue if the number becomes smaller."},
			Fields: []field{{Name: "concurrency", Label: "Jobs at once on each worker", Help: "From 1 to 100,000. Empty: what the workers' documents and flags say.", Flag: "concurrency=VALUE", Unset: "concurrency=document"}},
		}, nil
	}, func(r *request) (string, string, error) {
		name, text := r.PathValue("queue"), strings.TrimSpace(r.PostFormValue("concurrency"))
		notice, change := "The workers decide about the concurrency of "+name+" again.", api.SettingChange{}
		if text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > job.MaxConcurrency {
				return "", "", formFault("Jobs at once on each worker: write a number from 1 to 100,000.")
			}
			notice, change.Value = "Each worker runs "+strconv.Itoa(n)+" of "+name+" at once.", []byte(strconv.Itoa(n))
		}
		return notice, "", settingChange(r, job.SettingConcurrency, name, change)
	})
}

func settingChange(r *request, kind job.SettingKind, name string, change api.SettingChange) error {
	return r.change(client.Call{Method: http.MethodPut, Path: "/v1/settings/" + string(kind) + "/" + url.PathEscape(name), Body: change}, nil)
}
