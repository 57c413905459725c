package ui

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// onDocument is an action on the document that the path names.
func onDocument(path string, show func(*request, *policystore.Document) (*preview, error), change func(r *request, name string) (notice string, err error)) *action {
	read := func(r *request) (*policystore.Document, error) {
		d := &policystore.Document{}
		return d, r.get(documentPath(r.PathValue("name"), ""), nil, d)
	}
	return on(path, read, show, func(r *request) (string, string, error) {
		notice, err := change(r, r.PathValue("name"))
		return notice, "", err
	})
}

func freezeAction() *action {
	return onDocument("policies/{name}/freeze", func(_ *request, d *policystore.Document) (*preview, error) {
		p := &preview{
			Title: "Freeze " + d.Name + "?", Button: "Freeze " + d.Name,
			Text:    []string{"Nobody can publish or roll back the document, and a rollout does not advance, until somebody unfreezes it. A revision that does harm is still taken back."},
			Fields:  []field{{Name: "reason", Label: "Reason", Required: true, Help: "Whoever wants to change the document sees it.", Flag: "--reason VALUE", Unset: "--reason REASON"}},
			Command: commandLine([]string{"policy", "freeze", d.Name}),
		}
		if d.Freeze != nil {
			p.Text = append(p.Text, fmt.Sprintf("%s froze it already: %s. Your reason replaces this one.", d.Freeze.Actor, strings.TrimSuffix(d.Freeze.Reason, ".")))
		}
		return p, nil
	}, func(r *request, name string) (string, error) {
		return name + " is frozen.", r.change(client.Call{Method: http.MethodPut, Path: documentPath(name, "/freeze"), Body: api.Freeze{Reason: r.PostFormValue("reason")}}, nil)
	})
}

func unfreezeAction() *action {
	return onDocument("policies/{name}/unfreeze", func(_ *request, d *policystore.Document) (*preview, error) {
		p := &preview{Title: "Unfreeze " + d.Name + "?", Button: "Unfreeze " + d.Name, Nothing: d.Freeze == nil, Text: []string{d.Name + " is not frozen."}}
		if d.Freeze != nil {
			p.Command = commandLine([]string{"policy", "unfreeze", d.Name})
			p.Text = []string{fmt.Sprintf("%s froze it: %s", d.Freeze.Actor, d.Freeze.Reason), "The document can be published and rolled back again, and its rollout goes on."}
		}
		return p, nil
	}, func(r *request, name string) (string, error) {
		return name + " can be changed again.", r.change(client.Call{Method: http.MethodDelete, Path: documentPath(name, "/freeze")}, nil)
	})
}

func rollbackAction() *action {
	return onDocument("policies/{name}/rollback/{revision}", func(r *request, d *policystore.Document) (*preview, error) {
		name, to := d.Name, r.pathNumber("revision")
		change, err := r.difference(name, d.Current, to)
		if err != nil {
			return nil, err
		}
		p := &preview{
			Title: fmt.Sprintf("Bring back revision %d of %s?", to, name), Button: fmt.Sprintf("Bring back revision %d", to),
			Text: []string{fmt.Sprintf("Its content becomes revision %d and replaces revision %d, at once or in steps. A client never goes back in numbers.", d.Newest+1, d.Current)},
			Fields: append([]field{
				{Name: "base", Type: "hidden", Value: decimal(d.Current)},
				{Name: "message", Label: "Message", Help: "Others see it in the list of revisions.", Flag: "--message VALUE"},
			}, planForm{}.fields()...),
			Command: commandLine([]string{"policy", "rollback", name, "--to", decimal(to), "--base", decimal(d.Current)}),
			Extra:   change, ExtraTemplate: "difference",
		}
		if d.Trial != nil && d.Trial.Revision == to {
			p.Title, p.Button = fmt.Sprintf("Put revision %d of %s in force?", to, name), fmt.Sprintf("Put revision %d in force", to)
			p.Text = append(p.Text, "Its trial ends.")
		}
		if len(change.Lines) == 0 {
			p.Text = append(p.Text, "The two do not differ: nothing changes but the number.")
		}
		return p, nil
	}, func(r *request, name string) (string, error) {
		plan, err := r.planForm().plan()
		if err != nil {
			return "", formFault(err.Error())
		}
		var out api.Published
		err = r.change(client.Call{
			Method: http.MethodPost, Path: documentPath(name, "/rollback"), IfMatch: strconv.Quote(r.PostFormValue("base")),
			Body: api.Rollback{To: r.pathNumber("revision"), Message: r.PostFormValue("message"), Rollout: plan},
		}, &out)
		if changed(err) {
			return "", formFault("Another revision has come into force meanwhile. Look at the differences from it below, and decide again.")
		}
		return publishedNotice(out), err
	})
}

func publishedNotice(p api.Published) string {
	if p.Trial {
		return fmt.Sprintf("Revision %d of %s is under trial.", p.Revision, p.Name)
	}
	if p.Rollout != nil {
		return fmt.Sprintf("Revision %d of %s is rolled out in %s.", p.Revision, p.Name, plural(len(p.Rollout.Plan.Steps), "step", "steps"))
	}
	return fmt.Sprintf("Revision %d of %s is in force.", p.Revision, p.Name)
}

// changed reports whether another revision was in force than the one that a change was to replace.
func changed(err error) bool { return answered(err, http.StatusPreconditionFailed) }

// pathNumber reads a number of the page's path; 0 if it is not a number.
func (r *request) pathNumber(name string) int64 {
	n, _ := strconv.ParseInt(r.PathValue(name), 10, 64)
	return n
}
