package ui

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// shownRelated is how many needs and how many dependents of a job its page shows.
const shownRelated = 20

// jobFlow is the flow around a job.
type jobFlow struct {
	Path       string // of the flow
	Hidden     bool   // the caller may not see flows
	Needs      []relatedJob
	Dependents []relatedJob
	MoreNeeds  bool
	MoreAfter  bool
	Graph      graph
	Unmet      int // needs that have not completed, of those shown
	HasOutputs bool
}

// relatedJob is a need or a dependent of a job.
type relatedJob struct {
	api.FlowNode
	Output *api.Job // with its output, once asked for
}

// readJobFlow reads what a job needs and what needs it; nil for a job without a flow.
func readJobFlow(r *request, j *api.Job, outputs bool) (*jobFlow, error) {
	if j.Flow == "" {
		return nil, nil
	}
	f := &jobFlow{Path: r.ui.href("flows/" + url.PathEscape(j.Flow))}
	var err error
	f.Needs, f.MoreNeeds, err = readRelated(r, j.ID, "needs")
	if answered(err, http.StatusForbidden) {
		f.Hidden = true
		return f, nil
	}
	if err == nil {
		f.Dependents, f.MoreAfter, err = readRelated(r, j.ID, "dependents")
	}
	if err != nil {
		return nil, err
	}
	f.draw(r.ui, j)
	for i := range f.Needs {
		n := &f.Needs[i]
		if n.State == job.Completed {
			f.HasOutputs = true
		} else {
			f.Unmet++
		}
		if !outputs || n.State != job.Completed {
			continue
		}
		n.Output = &api.Job{}
		err := r.get("/v1/jobs/"+url.PathEscape(n.JobID), nil, n.Output)
		if answered(err, http.StatusNotFound) {
			n.Output, err = nil, nil // it has just been deleted
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

func readRelated(r *request, id, relation string) (list []relatedJob, more bool, err error) {
	var page api.FlowNodePage
	err = r.get("/v1/jobs/"+url.PathEscape(id)+"/"+relation, url.Values{"limit": {strconv.Itoa(shownRelated)}}, &page)
	return lists.Map(page.Nodes, func(n api.FlowNode) relatedJob { return relatedJob{FlowNode: n} }), page.Next > 0, err
}

// draw draws the needs to the left of the job and the dependents to its right.
func (f *jobFlow) draw(u *UI, j *api.Job) {
	nodes := []api.FlowNode{{Node: j.Node, JobID: j.ID, Type: j.Type, State: j.State, Layer: 2}}
	var lines [][2]int
	for _, n := range f.Needs {
		n.Layer = 1
		lines = append(lines, [2]int{len(nodes), 0})
		nodes = append(nodes, n.FlowNode)
	}
	for _, n := range f.Dependents {
		n.Layer = 3
		lines = append(lines, [2]int{0, len(nodes)})
		nodes = append(nodes, n.FlowNode)
	}
	for i := range nodes { // the positions of others are not known
		nodes[i].Position, nodes[i].Needs = i, nil
	}
	boxes, _ := jobBoxes(u, nodes, j.ID)
	f.Graph = drawGraph(boxes, lines)
	f.Graph.Name = "The flow around the job"
	f.Graph.Text = "The job with the jobs that it needs to its left, and those that need it to its right"
}
