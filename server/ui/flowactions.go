package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// flowVerb is an action on the jobs of a flow in words.
type flowVerb struct {
	jobVerb
	what string // of the flow it changes: "the flow"
}

func flowActions() []*action {
	verbs := []flowVerb{
		{jobVerb{
			action: job.ActionCancel, verb: "Cancel", done: "Cancelled", danger: true,
			text: "Jobs that have not begun are cancelled at once. The workers of running jobs are asked to stop them; a handler may finish nevertheless. Completed jobs stay as they are.",
		}, "the flow"},
		{jobVerb{
			action: job.ActionRetry, verb: "Retry", done: "Retried", states: []job.State{job.Dead, job.Cancelled},
			text: "The dead and cancelled jobs run again, and their attempts are counted from 0 again. Those with unmet needs wait for them. Completed jobs stay as they are.",
		}, "what failed"},
	}
	return lists.Map(verbs, func(v flowVerb) *action {
		return &action{path: "flows/{id}/" + string(v.action), preview: v.preview, make: v.make}
	})
}

func (v flowVerb) preview(r *request) (*preview, error) {
	id := r.PathValue("id")
	var flow api.FlowStatus // which says so if the flow does not exist
	if err := r.get("/v1/flows/"+url.PathEscape(id), nil, &flow); err != nil {
		return nil, err
	}
	total, states := v.applies(&flow)
	if total == 0 {
		return &preview{Title: "Nothing to " + strings.ToLower(v.verb), Nothing: true, Text: []string{"No job of this flow is in a state that allows this."}}, nil
	}
	count := plural(total, "job", "jobs")
	p := &preview{
		Title: v.verb + " " + v.what + "?", Button: v.verb + " " + count, Counted: true, Count: total, Danger: v.danger,
		Text:    []string{"This applies to " + count + " of " + number(flow.Jobs) + " in flow " + id + ": " + states + ".", v.text},
		Command: commandOn(id, "flows", string(v.action)),
	}
	if total > typedAbove { // which takes long to list
		return p, nil
	}
	f, err := job.ParseFilter(term(job.FieldFlow, id), time.Now())
	if err != nil {
		return nil, err
	}
	f.States = v.states
	s, err := v.selects(r, api.NewJobFilter(f))
	p.ExtraTemplate, p.Extra = "selection", s
	return p, err
}

// applies counts the jobs of a flow to which the action applies, by their states.
func (v flowVerb) applies(flow *api.FlowStatus) (total int, states string) {
	var words []string
	for _, c := range flowCounts(flow) {
		if state := job.State(c.name); c.n > 0 && v.action.Applies(state) && (v.states == nil || slices.Contains(v.states, state)) {
			total += c.n
			words = append(words, number(c.n)+" "+c.name)
		}
	}
	return total, strings.Join(words, ", ")
}

// make changes the jobs of the flow in batches.
func (v flowVerb) make(r *request) (notice, next string, err error) {
	path := "/v1/flows/" + url.PathEscape(r.PathValue("id"))
	var before, after api.FlowStatus
	if err := r.get(path, nil, &before); err != nil {
		return "", "", err
	}
	changed, err := inBatches(r, func(b batch) (out api.Changed, err error) {
		err = r.do(client.Call{Method: http.MethodPost, Path: path + "/" + string(v.action), Body: api.FlowChange{After: b.after, Limit: b.limit}, Once: true, Key: b.key}, &out)
		return out, err
	})
	if err != nil {
		return "", "", err
	}
	if v.action != job.ActionCancel || changed.partial() {
		return changed.notice(v.jobVerb), "", nil
	}
	if err := r.get(path, nil, &after); err != nil {
		return "", "", err
	}
	ended := after.Cancelled - before.Cancelled // with the jobs that need a cancelled one
	notice = v.done + " " + plural(max(ended, 0), "job", "jobs") + "."
	if after.Running > 0 {
		notice += fmt.Sprintf(" %s asked to stop.", plural(after.Running, "running job is", "running jobs are"))
	}
	return notice, "", nil
}
