package ui

import (
	"cmp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// deadLetters is the page of dead jobs, grouped by cause.
type deadLetters struct {
	Search  jobSearch
	Groups  []causeGroup
	Cut     int    // how many groups are shown, if there are more
	Redrive string // what the button for all says
	Looked  int    // jobs that were counted, if not all were
	More    bool
	All     string // the filter that selects all that is shown
	Active  []redriveView
	Empty   bool // there are no dead jobs at all
}

// causeGroup is a group of dead jobs.
type causeGroup struct {
	job.CauseGroup
	Filter string // selects the group
	Text   string
}

// shownCauses bounds the groups of the page.
const shownCauses = 200

func loadDeadLetters(r *request) (any, error) {
	d := deadLetters{Search: parseSearch(r.ui, r.query.Get("filter"))}
	if d.Search.Fault != nil {
		return d, nil
	}
	d.All = d.Search.withState("")
	var causes api.Causes
	if err := r.ask("/v1/dlq/causes", api.CauseQuery{Filter: api.JobFilter{Filter: d.All}, Limit: shownCauses + 1}, &causes); err != nil {
		return nil, err
	}
	d.Looked, d.More = causes.Looked, causes.More
	if len(causes.Groups) > shownCauses {
		d.Cut, causes.Groups = shownCauses, causes.Groups[:shownCauses]
	}
	total := 0
	for _, g := range causes.Groups {
		d.Groups = append(d.Groups, newCauseGroup(g))
		total += g.Count
	}
	if d.Redrive = "Redrive all…"; !d.More && d.Cut == 0 {
		d.Redrive = "Redrive all " + number(total) + "…"
	}
	d.Empty = len(d.Groups) == 0 && d.All == ""
	active, err := readRedrives(r, "", true)
	d.Active = active.Redrives
	return d, err
}

func newCauseGroup(g job.CauseGroup) causeGroup {
	row := causeGroup{CauseGroup: g, Text: g.Fingerprint}
	row.Filter = term(job.FieldQueue, g.Queue) + " " + term(job.FieldType, g.Type)
	if g.Cause != "" {
		row.Filter = term(job.FieldCause, g.Cause) + " " + row.Filter
	}
	row.Text = cmp.Or(row.Text, "Cause not recorded: these jobs died in an earlier release")
	return row
}
