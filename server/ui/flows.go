package ui

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

const (
	flowsPageSize = 50
	// maxFlowsRead bounds the flows that a search for a state or a part of an ID reads; a person goes on with the next ones.
	maxFlowsRead = 5000
)

// flowsView is the page of flows, newest first.
type flowsView struct {
	ID, State string // what the filter asks for
	States    []job.FlowState
	Rows      []flowRow
	Older     string
	Newest    string // the first page, unless it is this one
	Stopped   bool   // there may be more that match
	None      bool   // there are no flows at all
}

// Still reports that the page does not follow changes: a filter reads many flows each time.
func (v *flowsView) Still() bool { return v.ID != "" || v.State != "" }

// flowRow is a flow in a list.
type flowRow struct {
	api.Flow
	Path string
	Bar  []barPart
	Text string // the bar in words
}

var flowClass = map[job.FlowState]string{job.FlowRunning: "cool", job.FlowCompleted: "good", job.FlowFailed: "bad", job.FlowCancelled: "warn"}

// Class is the colour of the flow's state.
func (r flowRow) Class() string { return flowClass[r.State] }

func newFlowRow(u *UI, f api.Flow) flowRow {
	row := flowRow{Flow: f, Path: u.href("flows/" + url.PathEscape(f.ID))}
	row.Bar, row.Text = newBar(f.Jobs, f.Open, []barCount{{"completed", f.Completed}, {"dead", f.Dead}, {"cancelled", f.Cancelled}})
	return row
}

func loadFlows(r *request) (any, error) {
	v := &flowsView{
		ID: strings.TrimSpace(r.query.Get("id")), State: r.query.Get("state"),
		States: []job.FlowState{job.FlowRunning, job.FlowCompleted, job.FlowFailed, job.FlowCancelled},
	}
	cursor := r.query.Get("cursor")
	if cursor != "" {
		v.Newest = r.ui.href("flows", "id", v.ID, "state", v.State)
	} else if v.ID != "" { // the one with this ID, however old it is
		var one api.FlowStatus
		err := r.get("/v1/flows/"+url.PathEscape(v.ID), nil, &one)
		if err != nil && !answered(err, http.StatusNotFound) {
			return nil, err
		}
		if err == nil && v.matches(&one.Flow) {
			v.Rows = append(v.Rows, newFlowRow(r.ui, one.Flow))
			return v, nil
		}
	}
	size := flowsPageSize
	if v.Still() {
		size = 500
	}
	for read := 0; ; {
		var list api.FlowPage
		if err := r.get("/v1/flows", params.Of("limit", strconv.Itoa(size), "cursor", cursor), &list); err != nil {
			return nil, err
		}
		for i := range list.Flows {
			if v.matches(&list.Flows[i]) {
				v.Rows = append(v.Rows, newFlowRow(r.ui, list.Flows[i]))
			}
		}
		v.None = cursor == "" && len(list.Flows) == 0
		read += len(list.Flows)
		if cursor = string(list.Next); cursor == "" {
			return v, nil
		}
		if len(v.Rows) >= flowsPageSize || read >= maxFlowsRead {
			v.Stopped = len(v.Rows) < flowsPageSize
			v.Older = r.ui.href("flows", "id", v.ID, "state", v.State, "cursor", cursor)
			return v, nil
		}
	}
}

func (v *flowsView) matches(f *api.Flow) bool {
	return (v.State == "" || string(f.State) == v.State) && strings.Contains(strings.ToLower(f.ID), strings.ToLower(v.ID))
}
