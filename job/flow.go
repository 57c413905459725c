package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/internal/uuidv7"
)

// Flow describes jobs that are stored together and name each other as needs: any directed acyclic graph. The zero value is an
// empty flow. Build it with Add, Chain and Group, and store it with [Client.EnqueueFlow]. It is not safe for concurrent use.
type Flow struct {
	// ID names the flow for operators, at most 128 bytes without control characters. Default: a UUIDv7. Storing a second flow
	// under an ID that exists changes nothing; an ID is free again once all jobs of its flow have been removed.
	ID   string
	Jobs []FlowJob
}

// FlowJob is a job of a flow, from [Definition.Node] or written out. A unique key is not allowed.
type FlowJob struct {
	Request
	// Node is the job's name within its flow. Required, at most 128 bytes without control characters.
	Node string
	// Needs are the nodes that must end before the job can run.
	Needs []string
	// OnFailure is what happens when one of the needs ends dead, cancelled or deleted. Default FailureCancel.
	OnFailure OnFailure
}

// OnFailure is what a job of a flow does when one of its needs fails, which is to end dead, cancelled or deleted.
type OnFailure string

// The kinds of OnFailure.
const (
	// FailureCancel cancels the job, which is then a failed need of the jobs that need it.
	FailureCancel OnFailure = "cancel"
	// FailureRun counts the need as met.
	FailureRun OnFailure = "run"
	// FailureHold keeps the job waiting until the need is retried and completes. If the need is deleted, the job is cancelled.
	FailureHold OnFailure = "hold"
)

// Limits of flows.
const (
	MaxFlowJobs  = 100_000
	MaxFlowNeeds = 1_000_000 // of all jobs of a flow together
	maxNameBytes = 128
)

// Add adds a job, which also needs the given nodes, and returns its node.
func (f *Flow) Add(j FlowJob, needs ...string) string {
	j.Needs = slices.Concat(j.Needs, needs)
	f.Jobs = append(f.Jobs, j)
	return j.Node
}

// Chain adds jobs each of which also needs the one before it; the first one needs the given nodes. It returns the last node as a list of
// one, or the given nodes if there are no jobs.
func (f *Flow) Chain(needs []string, jobs ...FlowJob) []string {
	for _, j := range jobs {
		needs = []string{f.Add(j, needs...)}
	}
	return needs
}

// Group adds jobs that do not depend on each other, each of which also needs the given nodes. It returns their nodes: the needs
// of a job that follows the whole group.
func (f *Flow) Group(needs []string, jobs ...FlowJob) []string {
	return lists.Map(jobs, func(j FlowJob) string { return f.Add(j, needs...) })
}

// FlowError reports a flow that cannot be stored.
type FlowError struct {
	Node    string // "" for the flow itself
	Problem string
}

// Error implements error.
func (e *FlowError) Error() string {
	if e.Node == "" {
		return "job: flow: " + e.Problem
	}
	return fmt.Sprintf("job: flow: node %q: %s", e.Node, e.Problem)
}

// NewFlow is a checked flow, as stores take it.
type NewFlow struct {
	ID     string
	Layers int // the longest path, in jobs
	Jobs   []FlowInsert
}

// FlowInsert is a job of a NewFlow.
type FlowInsert struct {
	Insert
	Node      string
	OnFailure OnFailure
	// Layer is the length of the longest path to the job, from 1.
	Layer int
	// Needs and Dependents are positions in the flow, from 1, ascending.
	Needs, Dependents []int32
}

// Inserts checks the flow and prepares it for a store, with DefaultMaxPayload as the limit of payloads that do not set their own.
// Errors are of type *FlowError, *RequestError or *PayloadTooLargeError.
func (f *Flow) Inserts() (NewFlow, error) { return f.inserts(DefaultMaxPayload) }

func (f *Flow) inserts(maxPayload int) (NewFlow, error) {
	if f == nil {
		return NewFlow{}, &FlowError{Problem: "it is nil"}
	}
	out := NewFlow{ID: cmp.Or(f.ID, uuidv7.Next()), Jobs: make([]FlowInsert, len(f.Jobs))}
	switch {
	case len(f.Jobs) == 0:
		return out, &FlowError{Problem: "it has no jobs"}
	case len(f.Jobs) > MaxFlowJobs:
		return out, &FlowError{Problem: fmt.Sprintf("%d jobs, above the limit of %d; divide it", len(f.Jobs), MaxFlowJobs)}
	}
	if problem := nameProblem(out.ID); problem != "" {
		return out, &FlowError{Problem: "id: " + problem}
	}
	positions := make(map[string]int32, len(f.Jobs))
	for i := range f.Jobs {
		j := &f.Jobs[i]
		if problem := j.problem(positions); problem != "" {
			return out, &FlowError{Node: j.Node, Problem: problem}
		}
		positions[j.Node] = int32(i + 1)
		in, err := j.insert(i, maxPayload)
		if err != nil {
			return out, err
		}
		out.Jobs[i] = FlowInsert{Insert: in, Node: j.Node, OnFailure: cmp.Or(j.OnFailure, FailureCancel)}
	}
	if err := f.connect(out.Jobs, positions); err != nil {
		return out, err
	}
	var err error
	out.Layers, err = layers(out.Jobs)
	return out, err
}

func nameProblem(s string) string {
	if s == "" {
		return "missing"
	}
	if problem := textProblem(s, maxNameBytes); problem != "" {
		return problem
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "contains a control character"
	}
	return ""
}

// problem returns what is wrong with a job, apart from its request. Earlier jobs have the given positions.
func (j *FlowJob) problem(positions map[string]int32) string {
	switch problem := nameProblem(j.Node); {
	case problem != "":
		return "node: " + problem
	case positions[j.Node] != 0:
		return "another job of the flow has this name; give each its own"
	case j.UniqueKey != "":
		return "unique_key: not allowed in a flow; give the flow an ID instead"
	}
	switch j.OnFailure {
	case "", FailureCancel, FailureRun, FailureHold:
		return ""
	}
	return fmt.Sprintf("on_failure: %q does not exist; write cancel, run or hold", j.OnFailure)
}

// connect fills in the needs and dependents of jobs.
func (f *Flow) connect(jobs []FlowInsert, positions map[string]int32) error {
	total := 0
	for i := range f.Jobs {
		if total += len(f.Jobs[i].Needs); total > MaxFlowNeeds {
			return &FlowError{Problem: fmt.Sprintf("more than %d needs; put a job between groups that need each other", MaxFlowNeeds)}
		}
		for _, name := range f.Jobs[i].Needs {
			at := positions[name]
			if at == 0 {
				return f.unknown(i, name)
			}
			jobs[i].Needs = append(jobs[i].Needs, at)
		}
		slices.Sort(jobs[i].Needs)
		jobs[i].Needs = slices.Compact(jobs[i].Needs)
		if len(jobs[i].Needs) > 0 {
			jobs[i].WaitsFor = WaitsForNeeds
		}
		jobs[i].Needed = max(jobs[i].Needed, NeededByNone)
		for _, at := range jobs[i].Needs {
			jobs[at-1].Dependents, jobs[at-1].Needed = append(jobs[at-1].Dependents, int32(i+1)), NeededByAll
		}
	}
	return nil
}

func (f *Flow) unknown(i int, name string) error {
	nodes := make([]string, 0, min(len(f.Jobs), 1000))
	for at := range f.Jobs[:cap(nodes)] {
		nodes = append(nodes, f.Jobs[at].Node)
	}
	problem := fmt.Sprintf("it needs %q, which is not a node of the flow", name) + near.Question(name, nodes)
	return &FlowError{Node: f.Jobs[i].Node, Problem: problem}
}

// layers fills in the layers of jobs and returns how many there are, or an error that names a cycle.
func layers(jobs []FlowInsert) (most int, err error) {
	unmet, free := make([]int, len(jobs)), make([]int32, 0, len(jobs))
	for i := range jobs {
		if unmet[i] = len(jobs[i].Needs); unmet[i] == 0 {
			jobs[i].Layer = 1
			free = append(free, int32(i+1))
		}
	}
	for next := 0; next < len(free); next++ {
		j := &jobs[free[next]-1]
		most = max(most, j.Layer)
		for _, at := range j.Dependents {
			d := &jobs[at-1]
			d.Layer = max(d.Layer, j.Layer+1)
			if unmet[at-1]--; unmet[at-1] == 0 {
				free = append(free, at)
			}
		}
	}
	if len(free) < len(jobs) {
		return 0, cycle(jobs, unmet)
	}
	return most, nil
}

// cycle describes a cycle among the jobs with unmet needs: each of them needs another one.
func cycle(jobs []FlowInsert, unmet []int) error {
	at := slices.IndexFunc(unmet, func(n int) bool { return n > 0 })
	seen, path := map[int]int{}, []string{}
	for {
		if from, again := seen[at]; again {
			const shown = 10
			path = append(path[from:], jobs[at].Node)
			if len(path) > shown {
				path = append(path[:shown-1:shown-1], "…", jobs[at].Node)
			}
			return &FlowError{Node: jobs[at].Node, Problem: "it needs itself: " + strings.Join(path, " needs ")}
		}
		seen[at] = len(path)
		path = append(path, jobs[at].Node)
		at = int(jobs[at].Needs[slices.IndexFunc(jobs[at].Needs, func(need int32) bool { return unmet[need-1] > 0 })]) - 1
	}
}

// ErrNoFlows is returned for a store that does not keep flows.
var ErrNoFlows = errors.New("job: this store does not keep flows")

// EnqueueFlow stores all jobs of a flow in one transaction. It returns a *FlowError for a flow with a cycle, an unknown or a repeated
// name, the errors of EnqueueMany for its requests, and ErrNoFlows for a store that does not implement FlowStore.
func (c *Client) EnqueueFlow(ctx context.Context, f *Flow) (FlowReceipt, error) {
	if ctx == nil {
		return FlowReceipt{}, errors.New("job: enqueue a flow: the context is nil")
	}
	store, ok := c.store.(FlowStore)
	if !ok {
		return FlowReceipt{}, ErrNoFlows
	}
	list, err := f.inserts(c.maxPayload)
	if err != nil {
		return FlowReceipt{}, err
	}
	for i := range list.Jobs {
		if err := c.seal(i, &list.Jobs[i].Insert); err != nil {
			return FlowReceipt{}, err
		}
	}
	receipt, err := store.EnqueueFlow(ctx, list)
	if err != nil {
		return FlowReceipt{}, fmt.Errorf("job: enqueue a flow: %w", err)
	}
	return receipt, nil
}

// FlowReceipt is the result of storing a flow.
type FlowReceipt struct {
	ID         string
	Existed    bool // a flow with this ID existed; nothing was changed
	Durability Durability
}

// FlowStore is implemented by stores that keep flows. Its methods return ErrNotFound for a flow or job that does not exist. A flow is
// cancelled and retried by Admin.Change with a filter of FieldFlow.
type FlowStore interface {
	// EnqueueFlow stores a flow in one transaction, or nothing if its ID exists.
	EnqueueFlow(ctx context.Context, f NewFlow) (FlowReceipt, error)
	// Flow returns a flow with its counts. It reads all of its jobs.
	Flow(ctx context.Context, id string) (FlowStatus, error)
	// Flows lists flows, newest first, from kept counts.
	Flows(ctx context.Context, q FlowQuery) ([]FlowInfo, error)
	// FlowNodes lists jobs of a flow in the order of their positions.
	FlowNodes(ctx context.Context, q NodeQuery) ([]FlowNode, error)
}

// FlowState is the state of a flow.
type FlowState string

// The states of flows.
const (
	FlowRunning   FlowState = "running"   // at least one job has not finished
	FlowCompleted FlowState = "completed" // all jobs have completed
	FlowFailed    FlowState = "failed"    // all jobs have finished, at least one of them dead
	FlowCancelled FlowState = "cancelled" // all jobs have finished, at least one of them cancelled and none dead
)

// FlowInfo counts the jobs of a flow.
type FlowInfo struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Layers    int       `json:"layers"` // the longest path, in jobs
	Jobs      int       `json:"jobs"`   // that are kept
	Completed int       `json:"completed"`
	Dead      int       `json:"dead"`
	Cancelled int       `json:"cancelled"`
	Cursor    int64     `json:"-"` // continues a list after this flow, as FlowQuery.Below
}

// Open is the number of jobs that have not finished.
func (f *FlowInfo) Open() int { return f.Jobs - f.Completed - f.Dead - f.Cancelled }

// State returns the state of the flow.
func (f *FlowInfo) State() FlowState {
	switch {
	case f.Open() > 0:
		return FlowRunning
	case f.Dead > 0:
		return FlowFailed
	case f.Cancelled > 0:
		return FlowCancelled
	}
	return FlowCompleted
}

// Count counts a job that goes from one state to another; "" is outside the store.
func (f *FlowInfo) Count(from, to State) {
	add := func(s State, n int) {
		switch s {
		case Completed:
			f.Completed += n
		case Dead:
			f.Dead += n
		case Cancelled:
			f.Cancelled += n
		case Waiting, Scheduled, Ready, Running:
		}
		if s != "" {
			f.Jobs += n
		}
	}
	add(from, -1)
	add(to, 1)
}

// FlowStatus is a flow with the states of its jobs.
type FlowStatus struct {
	FlowInfo
	Waiting   int        `json:"waiting"`
	Scheduled int        `json:"scheduled"`
	Ready     int        `json:"ready"`
	Running   int        `json:"running"`
	Bands     []FlowBand `json:"bands"`
}

// MaxFlowBands bounds the bands of a FlowStatus.
const MaxFlowBands = 100

// FlowBand counts the jobs of consecutive layers, or of a single layer if the flow has at most MaxFlowBands layers.
type FlowBand struct {
	From   int           `json:"from"`
	To     int           `json:"to"`
	States map[State]int `json:"states"`
}

// BandWidth is the number of layers in a band.
func (f *FlowInfo) BandWidth() int { return max(1, (f.Layers+MaxFlowBands-1)/MaxFlowBands) }

// Add counts n jobs of a layer in a state. Stores call it in the order of layers.
func (f *FlowStatus) Add(layer int, s State, n int) {
	width := f.BandWidth()
	from := (layer-1)/width*width + 1
	if len(f.Bands) == 0 || f.Bands[len(f.Bands)-1].From != from {
		f.Bands = append(f.Bands, FlowBand{From: from, To: min(from+width-1, f.Layers), States: map[State]int{}})
	}
	f.Bands[len(f.Bands)-1].States[s] += n
	switch s {
	case Waiting:
		f.Waiting += n
	case Scheduled:
		f.Scheduled += n
	case Ready:
		f.Ready += n
	case Running:
		f.Running += n
	case Completed, Dead, Cancelled: // counted already
	}
}

// FlowQuery asks for a page of flows.
type FlowQuery struct {
	Below int64 // FlowInfo.Cursor of the last flow of the page before; 0 for the first page
	Limit int   // default 100
}

// NodeQuery asks for a page of the jobs of the flow with the ID Flow. If Flow is empty, it asks for the needs of the job NeededBy or the
// dependents of the job DependsOn.
type NodeQuery struct {
	Flow      string
	NeededBy  string
	DependsOn string
	Node      string // only this node; "" for all
	After     int    // position of the last job of the page before
	Limit     int    // default 1000
	Outputs   bool   // with their outputs
}

// NotFound returns the error of a query for a flow or job that a store does not have.
func (q NodeQuery) NotFound() error {
	if q.Flow != "" {
		return &NotFoundError{What: "flow", ID: q.Flow}
	}
	return &NotFoundError{What: "flow of job", ID: cmp.Or(q.NeededBy, q.DependsOn)}
}

// FlowNode is a job of a flow.
type FlowNode struct {
	Position   int       `json:"position"` // in the flow, from 1
	Node       string    `json:"node"`
	Layer      int       `json:"layer"`
	JobID      string    `json:"job_id"`
	Type       string    `json:"type"`
	State      State     `json:"state"`
	OnFailure  OnFailure `json:"on_failure"`
	Unmet      int       `json:"unmet"` // needs that have not ended
	Needs      []int32   `json:"needs"` // positions
	Dependents int       `json:"dependents"`
	Output     []byte    `json:"output,omitempty"`
}
