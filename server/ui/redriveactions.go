package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// The plan that the form of a redrive proposes.
const (
	proposedRate   = 100 // jobs per second
	proposedCanary = 10
	proposedStop   = 20 // percent
)

func redriveActions() []*action {
	return append(lists.Map(redriveChanges, redriveChange.act), newRedriveAction(), redriveRateAction())
}

// newRedriveAction makes a redrive of the dead jobs that the query's filter selects.
func newRedriveAction() *action {
	return &action{path: "dlq/redrive", preview: previewRedrive, make: func(r *request) (string, string, error) {
		s, err := redriveFilter(r)
		if err != nil {
			return "", "", err
		}
		body, err := redriveForm(r)
		if err != nil {
			return "", "", err
		}
		body.Filter.Filter = s
		if n, err := strconv.Atoi(r.PostFormValue("count")); err == nil {
			var found api.RedrivePreview
			if err := r.ask("/v1/redrives/preview", body.RedriveSelection, &found); err != nil {
				return "", "", err
			}
			if found.Total > n {
				return "", "", formFault("More jobs match now than were counted: look at them, and decide again.")
			}
		}
		var made api.Redrive
		if err := r.change(client.Call{Method: http.MethodPost, Path: "/v1/redrives", Body: body}, &made); err != nil {
			return "", "", err
		}
		return "The redrive of " + plural(made.Total, "job", "jobs") + " has begun.", r.ui.href("redrives/" + made.ID), nil
	}}
}

// redriveFilter is the filter of a redrive, without states: it selects dead jobs.
func redriveFilter(r *request) (string, error) {
	s, err := r.searchFilter()
	return s.withState(""), err
}

func previewRedrive(r *request) (*preview, error) {
	filter, err := redriveFilter(r)
	if err != nil {
		return nil, err
	}
	var found api.RedrivePreview
	if err := r.ask("/v1/redrives/preview", api.RedriveSelection{Filter: api.JobFilter{Filter: filter}}, &found); err != nil {
		return nil, err
	}
	if found.Total == 0 {
		return &preview{Title: "Nothing to redrive", Nothing: true, Text: []string{"No dead job matches this filter now."}}, nil
	}
	s := selection{Total: found.Total, More: max(0, len(found.Groups)-shownGroups)}
	for _, g := range found.Groups[:min(len(found.Groups), shownGroups)] {
		s.Groups = append(s.Groups, selectionGroup{Queue: g.Queue, Type: g.Type, State: job.Dead, Jobs: g.Jobs})
	}
	canary := min(proposedCanary, found.Total)
	count := plural(found.Total, "job", "jobs")
	return &preview{
		Title: "Redrive " + count + "?", Button: "Redrive " + count, Counted: true, Count: found.Total, ExtraTemplate: "selection", Extra: s,
		Text: []string{"They are selected now, and run again a part at a time. You can pause, abort or undo the redrive at any time."},
		Fields: []field{
			{Name: "canary", Label: "Canary", Type: "number", Value: strconv.Itoa(canary), Help: "Jobs that are released first. The others follow only if all of them complete. 0 for none.", Flag: "--canary VALUE", Usual: "0"},
			{Name: "rate", Label: "Rate, jobs per second", Type: "number", Value: strconv.Itoa(proposedRate), Help: fmt.Sprintf("At %d/s, these jobs are released in %s. 0 for no limit.", proposedRate, seconds(float64(found.Total)/proposedRate)), Flag: "--rate VALUE/s", Usual: "0"},
			{Name: "stop", Label: "Stop threshold, percent", Type: "number", Value: strconv.Itoa(proposedStop), Help: "The redrive stops by itself when this share of the jobs that have ended died again. 0 for never.", Flag: "--stop-at VALUE%", Usual: "0"},
		},
		Command: redriveCommand(filter),
	}, nil
}

// redriveForm reads the plan from the form.
func redriveForm(r *request) (n api.NewRedrive, err error) {
	canary, err := formNumber(r, "canary", "Canary", 1e9)
	if err != nil {
		return n, err
	}
	if n.Canary = int(canary); float64(n.Canary) != canary {
		return n, formFault("Canary: write a whole number of jobs.")
	}
	if n.Rate, err = formNumber(r, "rate", "Rate", 1e6); err != nil {
		return n, err
	}
	stop, err := formNumber(r, "stop", "Stop threshold", 100)
	n.StopShare = stop / 100
	return n, err
}

// formNumber reads a number from 0 to a maximum from a field, which may be empty.
func formNumber(r *request, name, label string, most float64) (float64, error) {
	text := strings.TrimSpace(r.PostFormValue(name))
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= most) {
		return 0, formFault(fmt.Sprintf("%s: write a number from 0 to %s.", label, number(most)))
	}
	return f, nil
}

// redriveChange is a change of a redrive in words.
type redriveChange struct {
	action       job.RedriveAction
	verb, notice string
	text         string
	danger       bool
}

var redriveChanges = []redriveChange{
	{job.RedrivePause, "Pause", "The redrive is paused.", "No further job is released. Jobs that were released run to their end.", false},
	{job.RedriveResume, "Resume", "The redrive goes on.", "The redrive goes on releasing jobs as its plan says.", false},
	{job.RedriveAbort, "Abort", "The redrive is aborted.", "No further job is released, and the redrive cannot go on. Jobs that were released run to their end; the others stay dead.", true},
	{job.RedriveUndo, "Undo", "The redrive is aborted, and jobs that have not run are put back.", "The redrive is aborted. Released jobs that no worker has claimed are put back among the dead jobs, as they were.", true},
}

func (c redriveChange) act() *action {
	return on("redrives/{id}/"+string(c.action), readRedrive, func(_ *request, one api.Redrive) (*preview, error) {
		return &preview{
			Title: c.verb + " the redrive of " + plural(one.Total, "job", "jobs") + "?", Button: c.verb + " the redrive", Danger: c.danger,
			Text: []string{c.text, newRedriveView(one).Text + "."}, Command: commandLine([]string{"redrives", string(c.action), one.ID}),
		}, nil
	}, func(r *request) (string, string, error) {
		path := "/v1/redrives/" + url.PathEscape(r.PathValue("id")) + "/" + string(c.action)
		return c.notice, r.ui.href("redrives/" + r.PathValue("id")), r.change(client.Call{Method: http.MethodPost, Path: path}, nil)
	})
}

func redriveRateAction() *action {
	return on("redrives/{id}/rate", readRedrive, func(_ *request, one api.Redrive) (*preview, error) {
		return &preview{
			Title: "Change the rate?", Button: "Change the rate", Text: []string{plural(one.Left, "job is", "jobs are") + " left to release."},
			Fields:  []field{{Name: "rate", Label: "Rate, jobs per second", Type: "number", Value: trim(one.Rate, 3), Help: "0 for no limit.", Flag: "VALUE/s", Usual: "0", Unset: "none"}},
			Command: commandLine([]string{"redrives", "rate", one.ID}),
		}, nil
	}, func(r *request) (string, string, error) {
		rate, err := formNumber(r, "rate", "Rate", 1e6)
		if err != nil {
			return "", "", err
		}
		path := "/v1/redrives/" + url.PathEscape(r.PathValue("id")) + "/rate"
		call := client.Call{Method: http.MethodPost, Path: path, Body: api.RedriveRate{Rate: rate}}
		return "The rate is " + map[bool]string{true: "not limited", false: perSecond(rate)}[rate == 0] + ".", r.ui.href("redrives/" + r.PathValue("id")), r.change(call, nil)
	})
}
