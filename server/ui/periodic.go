package ui

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

func periodicPage() *page {
	return &page{path: "periodic", nav: "Periodic jobs", title: "Periodic jobs", file: "periodic", moving: true, load: func(r *request) (any, error) {
		var list api.PeriodicList
		err := r.get("/v1/periodic", nil, &list)
		return list, err
	}}
}

// readPeriodic returns the periodic job that the path names.
func readPeriodic(r *request) (api.Periodic, error) {
	var list api.PeriodicList
	if err := r.get("/v1/periodic", nil, &list); err != nil {
		return api.Periodic{}, err
	}
	return listed(list.Periodic, "This server has no periodic job with this name.", func(p api.Periodic) bool { return p.Name == r.PathValue("name") })
}

func runPeriodicAction() *action {
	return on("periodic/{name}/run", readPeriodic, func(_ *request, p api.Periodic) (*preview, error) {
		return &preview{
			Title: "Run " + p.Name + " now?", Button: "Enqueue 1 job", Command: commandOn(p.Name, "periodic", "run", "--file", "FILE"), Counted: true, Count: 1,
			Text: []string{"One job of type " + p.Type + " is enqueued in " + p.Queue + ", in addition to the schedule. The next tick stays where it is."},
		}, nil
	}, func(r *request) (string, string, error) {
		var receipt api.Receipt
		err := r.change(client.Call{Method: http.MethodPost, Path: "/v1/periodic/" + url.PathEscape(r.PathValue("name")) + "/run"}, &receipt)
		return r.PathValue("name") + " was enqueued.", r.ui.href("jobs/" + receipt.ID), err
	})
}

func setPeriodicAction() *action {
	return &action{
		path: "periodic/set",
		preview: func(*request) (*preview, error) {
			return &preview{
				Title: "Set a periodic job", Button: "Set the periodic job", Command: "tenet periodic set",
				Text: []string{"Workers follow within a second. A job of the same name is replaced, also one that workers have from a file: ticks from two seconds after the change follow the new definition."},
				Fields: []field{
					{Name: "name", Label: "Name", Required: true, Flag: "VALUE", Unset: "NAME"},
					{Name: "cron", Label: "Schedule", Help: "Five fields, or @hourly, @daily, @every 10m.", Required: true, Flag: "--cron VALUE", Unset: "--cron EXPRESSION"},
					{Name: "zone", Label: "Time zone", Help: "For example Europe/Berlin. Empty: UTC.", Flag: "--time-zone VALUE", Usual: "UTC"},
					{Name: "missed", Label: "Missed ticks", Type: "select", Options: []string{"skip", "once", "all"}, Help: "Those that passed while no worker ran.", Flag: "--missed VALUE", Usual: "skip"},
					{Name: "job", Label: "Job", Type: "textarea", Help: `JSON, for example {"type": "report", "queue": "reports", "payload": {}}.`, Required: true, Flag: "--job VALUE", Unset: "--job JSON"},
				},
			}, nil
		},
		make: func(r *request) (string, string, error) {
			missed := r.PostFormValue("missed")
			if missed == "skip" {
				missed = ""
			}
			if !json.Valid([]byte(r.PostFormValue("job"))) {
				return "", "", formFault("Job: write JSON.")
			}
			value, err := json.Marshal(map[string]any{
				"cron": r.PostFormValue("cron"), "time_zone": r.PostFormValue("zone"), "missed": missed, "job": json.RawMessage(r.PostFormValue("job")),
			})
			if err != nil {
				return "", "", err
			}
			name := r.PostFormValue("name")
			return name + " is set.", "", settingChange(r, job.SettingPeriodic, name, api.SettingChange{Value: value})
		},
	}
}

func deletePeriodicAction() *action {
	return on("periodic/{name}/delete", wildcard("name"), func(_ *request, name string) (*preview, error) {
		return &preview{
			Title: "End " + name + "?", Button: "End " + name, Danger: true, Command: commandOn(name, "periodic", "delete"),
			Text: []string{"No more ticks are enqueued, even if workers have the job from a file. Jobs that are already enqueued stay."},
		}, nil
	}, func(r *request) (string, string, error) {
		name := r.PathValue("name")
		return name + " has ended.", "", settingChange(r, job.SettingPeriodic, name, api.SettingChange{Value: json.RawMessage(`{"deleted":true}`)})
	})
}

func resetPeriodicAction() *action {
	return on("periodic/{name}/reset", wildcard("name"), func(_ *request, name string) (*preview, error) {
		return &preview{
			Title: "Follow the workers' own " + name + "?", Button: "Follow the workers' own", Command: commandOn(name, "periodic", "set", "--document"),
			Text: []string{"What an operator has set for this periodic job is dropped. Workers that have it from a file or from code follow that; if none has, it ends."},
		}, nil
	}, func(r *request) (string, string, error) {
		name := r.PathValue("name")
		return name + " is as the workers have it.", "", settingChange(r, job.SettingPeriodic, name, api.SettingChange{})
	})
}
