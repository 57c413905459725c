package api

import (
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

// FlowJobRequest is a job of a flow to be stored.
type FlowJobRequest struct {
	NewJobRequest
	Node      string        `json:"node" minLength:"1" maxLength:"128" doc:"The job's name in its flow."`
	Needs     []string      `json:"needs,omitempty" doc:"The nodes that must end before the job can run."`
	OnFailure job.OnFailure `json:"on_failure,omitempty" enum:"cancel,run,hold" doc:"What the job does when one of its needs ends dead, cancelled or deleted. Default cancel."`
}

// NewFlow is a flow to be stored.
type NewFlow struct {
	ID   string           `json:"id,omitempty" maxLength:"128" doc:"The flow's ID; absent for a new UUIDv7. If it exists, nothing is stored."`
	Jobs []FlowJobRequest `json:"jobs" minItems:"1" maxItems:"100000" nullable:"false"`
}

// Flow returns the flow as a job.Client takes it.
func (n *NewFlow) Flow() *job.Flow {
	f := &job.Flow{ID: n.ID, Jobs: make([]job.FlowJob, len(n.Jobs))}
	for i := range n.Jobs {
		j := &n.Jobs[i]
		f.Jobs[i] = job.FlowJob{Request: j.Request(), Node: j.Node, Needs: j.Needs, OnFailure: j.OnFailure}
	}
	return f
}

// FromNewFlow describes a flow as a job.Client hands it to its store. The server gives its jobs IDs of its own.
func FromNewFlow(f job.NewFlow) NewFlow {
	n := NewFlow{ID: f.ID, Jobs: make([]FlowJobRequest, len(f.Jobs))}
	for i := range f.Jobs {
		in := &f.Jobs[i]
		n.Jobs[i] = FlowJobRequest{NewJobRequest: FromInsert(in.Insert), Node: in.Node, OnFailure: in.OnFailure}
		for _, at := range in.Needs {
			n.Jobs[i].Needs = append(n.Jobs[i].Needs, f.Jobs[at-1].Node)
		}
	}
	return n
}

// FlowReceipt is the result of storing a flow.
type FlowReceipt struct {
	ID         string         `json:"id"`
	Existed    bool           `json:"existed" doc:"A flow with this ID existed, and nothing was changed."`
	Durability job.Durability `json:"durability,omitempty"`
}

// Flow counts the jobs of a flow.
type Flow struct {
	ID        string        `json:"id"`
	State     job.FlowState `json:"state" enum:"running,completed,failed,cancelled" doc:"The state of the flow: running while a job has not finished, then failed if a job is dead, cancelled if one was cancelled, or completed."`
	CreatedAt time.Time     `json:"created_at"`
	Layers    int           `json:"layers" doc:"The longest path, in jobs."`
	Jobs      int           `json:"jobs" doc:"The number of jobs that are kept."`
	Open      int           `json:"open" doc:"The number of jobs that have not finished."`
	Completed int           `json:"completed"`
	Dead      int           `json:"dead"`
	Cancelled int           `json:"cancelled"`
}

// NewFlowInfo describes a flow.
func NewFlowInfo(f job.FlowInfo) Flow {
	return Flow{
		ID: f.ID, State: f.State(), CreatedAt: f.CreatedAt, Layers: f.Layers, Jobs: f.Jobs, Open: f.Open(), Completed: f.Completed, Dead: f.Dead, Cancelled: f.Cancelled,
	}
}

// Info returns the flow as stores return it, without its cursor.
func (f *Flow) Info() job.FlowInfo {
	return job.FlowInfo{ID: f.ID, CreatedAt: f.CreatedAt, Layers: f.Layers, Jobs: f.Jobs, Completed: f.Completed, Dead: f.Dead, Cancelled: f.Cancelled}
}

// FlowStatus is a flow with the states of its jobs.
type FlowStatus struct {
	Flow
	Waiting   int        `json:"waiting"`
	Scheduled int        `json:"scheduled"`
	Ready     int        `json:"ready"`
	Running   int        `json:"running"`
	Bands     []FlowBand `json:"bands" nullable:"false" doc:"The states of jobs by layer, or by consecutive layers where the flow has more than 100."`
}

// FlowBand counts the jobs of consecutive layers.
type FlowBand struct {
	From   int               `json:"from" doc:"The first layer, from 1."`
	To     int               `json:"to" doc:"The last layer."`
	States map[job.State]int `json:"states" nullable:"false"`
}

// NewFlowStatus describes a flow.
func NewFlowStatus(f job.FlowStatus) FlowStatus {
	return FlowStatus{
		Flow: NewFlowInfo(f.FlowInfo), Waiting: f.Waiting, Scheduled: f.Scheduled, Ready: f.Ready, Running: f.Running,
		Bands: lists.Map(f.Bands, func(b job.FlowBand) FlowBand { return FlowBand(b) }),
	}
}

// Status returns the flow as stores return it.
func (f *FlowStatus) Status() job.FlowStatus {
	return job.FlowStatus{
		FlowInfo: f.Info(), Waiting: f.Waiting, Scheduled: f.Scheduled, Ready: f.Ready, Running: f.Running,
		Bands: lists.Map(f.Bands, func(b FlowBand) job.FlowBand { return job.FlowBand(b) }),
	}
}

// FlowPage is a page of flows, newest first.
type FlowPage struct {
	Flows []Flow `json:"flows" nullable:"false"`
	Next  Cursor `json:"next,omitempty" doc:"The cursor of the next page, absent on the last one."`
}

// FlowNode is a job of a flow.
type FlowNode struct {
	Position   int           `json:"position" doc:"The position of the job in its flow, from 1."`
	Node       string        `json:"node"`
	Layer      int           `json:"layer" doc:"The length of the longest path to the job, from 1."`
	JobID      string        `json:"job_id"`
	Type       string        `json:"type"`
	State      job.State     `json:"state" enum:"waiting,scheduled,ready,running,completed,dead,cancelled"`
	OnFailure  job.OnFailure `json:"on_failure" enum:"cancel,run,hold"`
	Unmet      int           `json:"unmet" doc:"The number of needs that have not been met."`
	Needs      []int32       `json:"needs" nullable:"false" doc:"The positions of the jobs that this one needs."`
	Dependents int           `json:"dependents" doc:"The number of jobs that need this one."`
}

// NewFlowNode describes a job of a flow.
func NewFlowNode(n job.FlowNode) FlowNode {
	out := FlowNode{
		Position: n.Position, Node: n.Node, Layer: n.Layer, JobID: n.JobID, Type: n.Type, State: n.State, OnFailure: n.OnFailure, Unmet: n.Unmet,
		Needs: n.Needs, Dependents: n.Dependents,
	}
	if out.Needs == nil {
		out.Needs = []int32{}
	}
	return out
}

// FlowNode returns the job as stores return it.
func (n *FlowNode) FlowNode() job.FlowNode {
	return job.FlowNode{
		Position: n.Position, Node: n.Node, Layer: n.Layer, JobID: n.JobID, Type: n.Type, State: n.State, OnFailure: n.OnFailure, Unmet: n.Unmet,
		Needs: n.Needs, Dependents: n.Dependents,
	}
}

// FlowNodePage is a page of jobs of a flow, in the order of their positions.
type FlowNodePage struct {
	Nodes []FlowNode `json:"nodes" nullable:"false"`
	Next  int        `json:"next,omitempty" doc:"Continues the list, as after. Absent on the last page."`
}

// FlowChange bounds a change of a flow.
type FlowChange struct {
	After string `json:"after,omitempty" maxLength:"64" doc:"Only jobs with higher IDs: the next of the change that this one continues."`
	Limit int    `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"1000"`
}
