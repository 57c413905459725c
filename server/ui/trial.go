package ui

import (
	"fmt"
	"net/http"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
	"github.com/tenetdev/tenet/server/internal/params"
)

type trialView struct {
	documentHead
	Trial   api.Trial
	Share   float64 // of the decisions that differ
	Command string
}

func trialPage() *page {
	return documentPage("Trial", page{path: "policies/{name}/trial", file: "trial", moving: true}, func(r *request, h documentHead) (any, error) {
		if h.Trial == nil {
			return trialView{documentHead: h}, nil
		}
		trial, err := r.trial(h.Name)
		if err != nil {
			return nil, err
		}
		out := trialView{documentHead: h, Trial: trial, Command: commandLine([]string{"policy", "trial", "show", h.Name})}
		if out.Trial.Decisions > 0 {
			out.Share = float64(out.Trial.Diverged) / float64(out.Trial.Decisions)
		}
		return out, nil
	})
}

// trial reads the trial of a document; the zero value if it has ended meanwhile.
func (r *request) trial(name string) (t api.Trial, err error) {
	if err = r.get(documentPath(name, "/trial"), nil, &t); answered(err, http.StatusNotFound) {
		err = nil
	}
	return t, err
}

func endTrialAction() *action {
	return onDocument("policies/{name}/trial/end", func(_ *request, d *policystore.Document) (*preview, error) {
		if d.Trial == nil {
			return &preview{Title: "No revision is under trial", Nothing: true, Text: []string{d.Name + " has no revision under trial."}}, nil
		}
		return &preview{
			Title: "End the trial of " + d.Name + "?", Button: "End the trial", Command: commandLine([]string{"policy", "trial", "end", d.Name}),
			Fields: []field{{Name: "revision", Type: "hidden", Value: decimal(d.Trial.Revision)}},
			Text:   []string{fmt.Sprintf("Clients forget revision %d, and what it would have decided is no longer shown. The revision itself stays in the list.", d.Trial.Revision)},
		}, nil
	}, func(r *request, name string) (string, error) {
		return "The trial of " + name + " has ended.", r.change(client.Call{Method: http.MethodDelete, Path: documentPath(name, "/trial"), Query: params.Of("revision", r.PostFormValue("revision"))}, nil)
	})
}
