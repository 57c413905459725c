package ui

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

const (
	jobsPageSize = 50
	// firstLook bounds the search that opens the page, and longLook one that a person continues, in seconds.
	firstLook = 0.15
	longLook  = 2
)

// jobsView is the page of jobs: a search, newest first.
type jobsView struct {
	Search    jobSearch
	Tabs      []stateTab
	Rows      []jobRow
	Older     string // the next page
	Newest    string // the first page, unless it is this one
	Stopped   bool   // the time was over before all jobs were looked at
	LookedTo  string
	Unindexed []string
	Empty     bool // there are no jobs at all
	Command   string
	OfDead    bool // the search is for dead jobs
	Below     string
}

// Still reports that the page does not follow changes: a search without an index costs its whole time again.
func (v jobsView) Still() bool { return v.Stopped || len(v.Unindexed) > 0 }

// stateTab is a quick filter.
type stateTab struct {
	Name, Link, Count string
	Current           bool
}

// jobRow is a line of the table.
type jobRow struct {
	api.Job
	When   string // what happened, or will happen, At
	At     time.Time
	Number string // of attempts
	Waits  string // what a waiting job waits for
}

func newJobRow(j api.Job) jobRow {
	row := jobRow{Job: j, Number: strconv.Itoa(j.Attempts)}
	if j.MaxAttempts > 0 {
		row.Number += " of " + strconv.Itoa(j.MaxAttempts)
	}
	switch j.State {
	case job.Waiting:
		row.When, row.At = "stored", j.CreatedAt
		if row.Waits = "waits for " + j.WaitsFor; j.WaitsFor == job.WaitsForNeeds {
			row.Waits = "waits for jobs of its flow"
		}
	case job.Scheduled:
		row.When, row.At = "runs", j.RunAt
	case job.Ready:
		row.When, row.At = "due", j.RunAt
	case job.Running:
		row.When, row.At = "claimed", j.ClaimedAt
	case job.Completed, job.Dead, job.Cancelled:
		row.When, row.At = "ended", j.FinishedAt
	}
	return row
}

func loadJobs(r *request) (any, error) {
	out := jobsView{Search: parseSearch(r.ui, r.query.Get("filter")), Below: r.query.Get("below")}
	text := out.Search.Text
	out.Command = commandLine([]string{"jobs", "list"})
	if text != "" {
		out.Command = commandLine([]string{"jobs", "search", text})
	}
	var stats api.Stats
	if err := r.get("/v1/stats", nil, &stats); err != nil {
		return nil, err
	}
	out.Empty = len(stats.Queues) == 0
	out.Tabs = out.Search.tabs(r.ui, stats)
	out.OfDead = out.Search.state() == job.Dead
	if out.Search.Fault != nil || out.Search.nothing(stats) {
		return out, nil
	}
	within := firstLook
	if out.Below != "" {
		within = longLook
		out.Newest = r.ui.href("jobs", "filter", text)
	}
	var found api.JobFound
	err := r.ask("/v1/jobs/find", api.JobFind{Filter: api.JobFilter{Filter: text}, Below: out.Below, Limit: jobsPageSize, Within: within}, &found)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusUnprocessableEntity {
		out.Search.Fault = &searchFault{Problem: p.Detail}
		for _, e := range p.Errors {
			out.Search.Fault.Problem = e.Problem
		}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out.Rows = lists.Map(found.Jobs, newJobRow)
	out.Unindexed = found.Unindexed
	if found.Next != "" {
		out.Older = r.ui.href("jobs", "filter", text, "below", found.Next)
		out.Stopped, out.LookedTo = len(found.Jobs) < jobsPageSize, found.Next
	}
	return out, nil
}
