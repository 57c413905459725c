package ui

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

const (
	// maxFlowRead bounds the jobs of a flow that its page reads to draw it. A larger flow is drawn by layers.
	maxFlowRead  = 2000
	flowNodePage = 1000 // that the API returns at most
	flowRows     = 50   // of the table
	shownNeeds   = 4    // of a row
)

// flowView is the page of a flow.
type flowView struct {
	flowRow

	Status  api.FlowStatus
	Words   string // how it stands
	Advice  string
	Alarm   bool
	Share   string // that has ended
	Total   int
	Left    int
	Counts  []stateCount
	Graph   graph
	Grouped string // what a box stands for, if not for a job
	Rows    []nodeRow
	Next    string // the next page of the table
	First   string // the first page of it, unless it is this one
	Failed  int    // jobs that a retry may apply to
	Command string
}

// Title names the page.
func (v *flowView) Title() string { return "Flow " + v.ID }

// nodeRow is a line of the table of jobs.
type nodeRow struct {
	api.FlowNode
	NeedNames string
}

func loadFlow(r *request) (any, error) {
	id := r.PathValue("id")
	v := &flowView{Command: commandOn(id, "flows", "inspect")}
	if err := r.get("/v1/flows/"+url.PathEscape(id), nil, &v.Status); err != nil {
		return nil, err
	}
	v.flowRow = newFlowRow(r.ui, v.Status.Flow)
	v.describe()
	var nodes []api.FlowNode
	if v.Jobs <= maxFlowRead {
		for after := 0; ; {
			page, err := readNodes(r, id, after, flowNodePage)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, page.Nodes...)
			if after = page.Next; after == 0 {
				break
			}
		}
	}
	v.Graph, v.Grouped = flowGraph(r.ui, &v.Status, nodes)
	return v, v.table(r, nodes)
}

func readNodes(r *request, id string, after, limit int) (page api.FlowNodePage, err error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}, "after": {strconv.Itoa(after)}}
	err = r.get("/v1/flows/"+url.PathEscape(id)+"/nodes", query, &page)
	return page, err
}

// describe says how it stands with the flow.
func (v *flowView) describe() {
	s := &v.Status
	v.Total, v.Left, v.Failed = s.Jobs, s.Waiting+s.Scheduled, s.Dead+s.Cancelled
	v.Share = percent(float64(s.Jobs-s.Open) / float64(max(s.Jobs, 1)))
	v.Bar, v.Text = newBar(s.Jobs, v.Left, []barCount{{"completed", s.Completed}, {"dead", s.Dead}, {"cancelled", s.Cancelled}, {"running", s.Running}, {"ready", s.Ready}})
	v.Alarm = s.Dead > 0
	filter := term(job.FieldFlow, v.ID)
	for _, c := range flowCounts(s) {
		v.Counts = append(v.Counts, stateCount{job.State(c.name), term("state", c.name) + " " + filter, c.n})
	}
	done := number(s.Completed) + " of " + plural(s.Jobs, "job has", "jobs have") + " completed"
	if s.Jobs > 1 && s.Completed == 1 {
		done = fmt.Sprintf("1 of %s jobs has completed", number(s.Jobs))
	}
	switch v.State {
	case job.FlowRunning:
		v.Words = "This flow is running: " + done
		if s.Dead > 0 {
			v.Words += ", " + plural(s.Dead, "job is", "jobs are") + " dead"
			v.Advice = "Jobs that need a dead one are cancelled, go on or wait for its retry, as each of them says."
		}
		v.Words += "."
	case job.FlowCompleted:
		v.Words = "This flow is completed: all of its jobs have completed."
		if s.Jobs == 1 {
			v.Words = "This flow is completed."
		}
	case job.FlowFailed:
		v.Words = "This flow has failed: " + plural(s.Dead, "job is", "jobs are") + " dead"
		if s.Cancelled > 0 {
			v.Words += ", and " + plural(s.Cancelled, "job was", "jobs were") + " cancelled"
		}
		v.Words += "."
		v.Advice = "Mend the cause, and then retry what failed: completed jobs stay as they are."
	case job.FlowCancelled:
		v.Words = "This flow was cancelled: " + done + ", " + plural(s.Cancelled, "job was", "jobs were") + " cancelled."
		v.Advice = "Retry what was cancelled to run it after all."
	}
}

// flowCounts counts the jobs of a flow by their states.
func flowCounts(s *api.FlowStatus) (list []barCount) {
	counts := map[job.State]int{
		job.Waiting: s.Waiting, job.Scheduled: s.Scheduled, job.Ready: s.Ready, job.Running: s.Running, job.Completed: s.Completed, job.Dead: s.Dead, job.Cancelled: s.Cancelled,
	}
	for _, state := range job.States() {
		list = append(list, barCount{string(state), counts[state]})
	}
	return list
}

// table fills in the rows of the table, from the jobs that have been read or else from the store.
func (v *flowView) table(r *request, nodes []api.FlowNode) error {
	after, _ := strconv.Atoi(r.query.Get("after")) // whatever is not a position is the first page
	rows := nodes
	next := 0
	if v.Jobs > maxFlowRead {
		page, err := readNodes(r, v.ID, max(after, 0), flowRows)
		if err != nil {
			return err
		}
		rows, next = page.Nodes, page.Next
	} else {
		for len(rows) > 0 && rows[0].Position <= after {
			rows = rows[1:]
		}
		if len(rows) > flowRows {
			rows = rows[:flowRows]
			next = rows[flowRows-1].Position
		}
	}
	names := make(map[int32]string, len(nodes))
	for _, n := range nodes {
		names[int32(n.Position)] = n.Node
	}
	for _, n := range rows {
		v.Rows = append(v.Rows, nodeRow{n, needNames(n.Needs, names)})
	}
	if next > 0 {
		v.Next = v.Path + "?after=" + strconv.Itoa(next)
	}
	if after > 0 {
		v.First = v.Path
	}
	return nil
}

// needNames names the first needs of a job.
func needNames(needs []int32, names map[int32]string) string {
	var list []string
	for _, at := range needs {
		if name, known := names[at]; known && len(list) < shownNeeds {
			list = append(list, name)
		}
	}
	switch more := len(needs) - len(list); {
	case len(needs) == 0:
		return ""
	case len(list) == 0:
		return plural(more, "job", "jobs")
	case more > 0:
		return strings.Join(list, ", ") + " and " + number(more) + " more"
	}
	return strings.Join(list, ", ")
}
