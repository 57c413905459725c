package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// Bounds of a change of many jobs.
const (
	maxChanged  = 100_000          // jobs of one change; a person goes on with the next
	changeTime  = 20 * time.Second // after which no further batch begins
	shownJobs   = 5                // of a preview
	shownGroups = 12
)

// jobVerb is an action on jobs in words.
type jobVerb struct {
	action           job.Action
	verb, done, text string
	// states are those that a selection without a state is narrowed to; nil for all to which the action applies.
	states []job.State
	danger bool
}

var jobVerbs = []jobVerb{
	{
		action: job.ActionRetry, verb: "Retry", done: "Retried", states: []job.State{job.Scheduled, job.Dead, job.Cancelled},
		text: "They are due at once, and their attempts are counted from 0 again.",
	},
	{action: job.ActionCancel, verb: "Cancel", done: "Cancelled", text: "Waiting jobs are cancelled. The workers of running jobs are asked to stop them; a handler may finish nevertheless."},
	{action: job.ActionDelete, verb: "Delete", done: "Deleted", text: "They are removed with their history. This cannot be undone.", danger: true},
}

// jobActions are the changes of jobs: of those that the query names by id, or of those that its filter selects.
func jobActions() []*action {
	return lists.Map(jobVerbs, func(v jobVerb) *action {
		return &action{path: "jobs/" + string(v.action), preview: v.preview, make: v.make}
	})
}

// chosen is what a person has chosen to change.
type chosen struct {
	filter api.JobFilter
	text   string   // of the filter; empty for named jobs and for all
	ids    []string // named
	// narrowed says that the filter named no state, and was narrowed to those of the verb.
	narrowed bool
}

func (v jobVerb) chosen(r *request) (c chosen, err error) {
	if c.ids = r.query["id"]; len(c.ids) > 0 {
		c.filter = api.JobFilter{IDs: c.ids}
		return c, nil
	}
	s, err := r.searchFilter()
	if err != nil {
		return c, err
	}
	f, err := job.ParseFilter(s.Text, r.shown())
	if err != nil {
		return c, err
	}
	c.text = s.Text
	if len(f.States) == 0 && v.states != nil && len(f.IDs) == 0 {
		f.States, c.narrowed = v.states, true
	}
	c.filter = api.NewJobFilter(f)
	return c, nil
}

// searchFilter reads the filter of the query.
func (r *request) searchFilter() (jobSearch, error) {
	s := parseSearch(r.ui, r.query.Get("filter"))
	if s.Fault != nil {
		return s, &client.Problem{Status: http.StatusUnprocessableEntity, Title: "The filter is not valid", Detail: s.Fault.Problem, Remedy: "Correct the filter, and try again"}
	}
	return s, nil
}

// selection is what a change of jobs would apply to.
type selection struct {
	Total  int
	Cut    bool // there are more than maxChanged
	Groups []selectionGroup
	More   int // groups that are not shown
	Jobs   []api.Job
}

// selectionGroup counts the jobs of a queue, type and state.
type selectionGroup struct {
	Queue, Type string
	State       job.State
	Jobs        int
}

// selects counts the jobs that an action applies to, oldest first.
func (v jobVerb) selects(r *request, f api.JobFilter) (s selection, err error) {
	groups := map[selectionGroup]int{}
	search := api.JobSearch{Filter: f, Limit: api.MaxBatch}
	for {
		var page api.JobPage
		if err := r.ask("/v1/jobs/search", search, &page); err != nil {
			return s, err
		}
		for _, j := range page.Jobs {
			if !v.action.Applies(j.State) {
				continue
			}
			if s.Total == maxChanged {
				s.Cut = true
				break
			}
			s.Total++
			groups[selectionGroup{Queue: j.Queue, Type: j.Type, State: j.State}]++
			if len(s.Jobs) < shownJobs {
				s.Jobs = append(s.Jobs, j)
			}
		}
		if search.Cursor = page.Next; page.Next == "" || s.Cut {
			break
		}
	}
	for g, n := range groups {
		g.Jobs = n
		s.Groups = append(s.Groups, g)
	}
	slices.SortFunc(s.Groups, func(a, b selectionGroup) int {
		return cmp.Or(b.Jobs-a.Jobs, cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.State, b.State))
	})
	s.More = max(len(s.Groups)-shownGroups, 0)
	s.Groups = s.Groups[:len(s.Groups)-s.More]
	return s, nil
}

// has reports whether a state is among those selected.
func (s *selection) has(state job.State) bool {
	return slices.ContainsFunc(s.Groups, func(g selectionGroup) bool { return g.State == state })
}

func (v jobVerb) preview(r *request) (*preview, error) {
	c, err := v.chosen(r)
	if err != nil {
		return nil, err
	}
	s, err := v.selects(r, c.filter)
	if err != nil {
		return nil, err
	}
	count := plural(s.Total, "job", "jobs")
	p := &preview{
		Title: v.verb + " " + count + "?", Button: v.verb + " " + count, Counted: true, Count: s.Total, Danger: v.danger,
		Text: []string{v.text}, Command: v.command(c), ExtraTemplate: "selection", Extra: s,
	}
	switch s.Total {
	case 0:
		p.Title, p.Nothing, p.Extra, p.Command = "Nothing to "+strings.ToLower(v.verb), true, nil, ""
		p.Text = []string{"No job that was chosen is in a state that allows this."}
	case 1:
		p.Text = []string{strings.NewReplacer("They are", "It is", "their attempts are", "its attempts are", "with their", "with its").Replace(v.text)}
	}
	if len(c.ids) == 0 && s.Total > 0 {
		where := "all jobs"
		if c.text != "" {
			where = "all jobs that match " + c.text
		}
		p.Text = append([]string{"This applies to " + where + "."}, p.Text...)
	}
	if c.narrowed && s.Total > 0 {
		p.Text = append(p.Text, "Ready, running and completed jobs are left alone. To run completed jobs again, add state:completed to the filter.")
	}
	if s.Cut {
		p.Text = append(p.Text, fmt.Sprintf("More than %s jobs match. This changes the oldest %[1]s; repeat it for the others.", number(maxChanged)))
	}
	if v.action == job.ActionRetry && s.Total > typedAbove && s.has(job.Dead) {
		p.Text = append(p.Text, "This runs all of them at once. A redrive runs dead jobs a part at a time, and stops by itself if they die again.")
	}
	return p, nil
}

// command is the command line that makes the same change.
func (v jobVerb) command(c chosen) string {
	if len(c.ids) > 0 {
		return commandLine(append([]string{"jobs", string(v.action)}, operands(c.ids...)...))
	}
	dead := len(c.filter.States) == 1 && c.filter.States[0] == job.Dead
	switch {
	case dead && v.action == job.ActionRetry:
		return commandLine([]string{"dlq", "requeue", "--filter", c.text})
	case dead && v.action == job.ActionDelete:
		return commandLine([]string{"dlq", "purge", "--filter", c.text})
	}
	return commandLine([]string{"jobs", string(v.action), "--filter", cmp.Or(c.text, "before:0s")})
}

// make changes the jobs.
func (v jobVerb) make(r *request) (notice, next string, err error) {
	c, err := v.chosen(r)
	if err != nil {
		return "", "", err
	}
	done, err := inBatches(r, func(b batch) (out api.Changed, err error) {
		body := api.JobChange{Filter: c.filter, After: b.after, Limit: b.limit}
		err = r.do(client.Call{Method: http.MethodPost, Path: "/v1/jobs/actions/" + string(v.action), Body: body, Once: true, Key: b.key}, &out)
		return out, err
	})
	if err != nil {
		return "", "", err
	}
	if v.action == job.ActionDelete && len(c.ids) == 1 && strings.HasSuffix(pathOf(r.query.Get("return")), "/"+c.ids[0]) {
		next = r.ui.href("jobs")
	}
	return done.notice(v), next, nil
}

// batch is a part of a change of many jobs.
type batch struct {
	key, after string
	limit      int
}

// batches is what a change of many jobs has changed.
type batches struct {
	changed, most int
	over          bool  // its time was over
	fault         error // the server did not go on
}

// inBatches changes jobs in batches, never more than the preview has counted. It fails if the first batch does.
func inBatches(r *request, change func(batch) (api.Changed, error)) (b batches, err error) {
	if b.most, err = strconv.Atoi(r.PostFormValue("count")); err != nil || b.most < 1 {
		return b, &client.Problem{Status: http.StatusBadRequest, Title: "The count is missing", Detail: "A change of jobs states how many it changes.", Remedy: "Open the preview again"}
	}
	b.most = min(b.most, maxChanged)
	key := cmp.Or(r.PostFormValue("key"), uuidv7.Next())
	after, start := "", time.Now()
	for i := 1; b.changed < b.most && !b.over; i++ {
		var out api.Changed
		out, b.fault = change(batch{fmt.Sprintf("%s.%d", key, i), after, min(b.most-b.changed, api.MaxBatch)})
		if b.fault != nil {
			break
		}
		b.changed += len(out.IDs)
		if after = out.Next; after == "" {
			break
		}
		b.over = time.Since(start) > changeTime
	}
	if b.changed == 0 {
		return b, b.fault
	}
	return b, nil
}

// partial reports whether jobs are left that the change did not come to.
func (b *batches) partial() bool { return b.fault != nil || b.over && b.changed < b.most }

// notice says what a verb has changed.
func (b *batches) notice(v jobVerb) string {
	done := v.done
	if v.action == job.ActionCancel {
		done = "Asked to cancel" // those that run may finish
	}
	text := done + " " + plural(b.changed, "job", "jobs") + "."
	switch {
	case b.fault != nil:
		return fmt.Sprintf("%s %s of %s jobs, and then the server did not go on: %v", done, number(b.changed), number(b.most), b.fault)
	case b.partial():
		return fmt.Sprintf("%s %s of %s jobs in %s. Repeat the action for the others.", done, number(b.changed), number(b.most), seconds(changeTime.Seconds()))
	case v.action == job.ActionCancel && b.changed > 0:
		return text + " Running jobs end when their handlers return."
	case b.changed < b.most:
		return text + fmt.Sprintf(" %s meanwhile in a state that does not allow it.", plural(b.most-b.changed, "job was", "jobs were"))
	}
	return text
}

// pathOf is the path of an address.
func pathOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return u.Path
}
