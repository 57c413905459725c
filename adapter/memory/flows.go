package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

var _ job.FlowStore = (*Jobs)(nil)

// flows are the stored flows, in the order in which they were stored.
type flows struct {
	byID map[string]*flow
	list []*flow
	last int64
	// finished are the finished jobs of flows, which retention removes with their flow.
	finished map[job.State]*pile
}

type flow struct {
	job.FlowInfo
	nodes    []*flowNode // by position; nil for a job that was removed
	finished time.Time   // when its last job finished; zero while one has not
}

// flowNode is a job in its flow.
type flowNode struct {
	job.FlowInsert
	flow     *flow
	entry    *entry
	position int
	unmet    int // needs that have not been met
	needed   job.Needed
}

func newFlows() flows {
	any := func(_, _ *entry) bool { return false }
	return flows{byID: map[string]*flow{}, finished: map[job.State]*pile{job.Completed: newPile(any), job.Dead: newPile(any), job.Cancelled: newPile(any)}}
}

// ended returns the jobs that have finished in a state.
func (s *Jobs) ended(state job.State) []*entry {
	return slices.Concat(s.jobs.finished[state].entries, s.flows.finished[state].entries)
}

// EnqueueFlow implements job.FlowStore.
func (s *Jobs) EnqueueFlow(ctx context.Context, n job.NewFlow) (job.FlowReceipt, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return job.FlowReceipt{}, err
	}
	defer s.leave()
	receipt := job.FlowReceipt{ID: n.ID, Durability: job.InMemory}
	if s.flows.byID[n.ID] != nil {
		return job.FlowReceipt{ID: n.ID, Existed: true}, nil
	}
	for i := range n.Jobs {
		if s.jobs.byID[n.Jobs[i].ID] != nil {
			return job.FlowReceipt{}, fmt.Errorf("%w: a job with the ID %s exists; give every job its own", job.ErrConflict, n.Jobs[i].ID)
		}
	}
	s.flows.last++
	f := &flow{FlowInfo: job.FlowInfo{ID: n.ID, CreatedAt: now, Layers: n.Layers, Cursor: s.flows.last}}
	s.flows.byID[n.ID], s.flows.list = f, append(s.flows.list, f)
	for i := range n.Jobs {
		in := &n.Jobs[i]
		e := &entry{Record: clone(job.New(in.Insert, now)), living: true}
		e.Flow, e.Node = n.ID, in.Node
		e.node = &flowNode{FlowInsert: *in, flow: f, entry: e, position: i + 1, unmet: len(in.Needs), needed: in.Needed}
		e.node.Insert = job.Insert{} // the record has it
		e.node.Needs, e.node.Dependents = slices.Clone(in.Needs), slices.Clone(in.Dependents)
		f.nodes = append(f.nodes, e.node)
		s.jobs.byID[in.ID] = e
		s.jobs.order.add(in.ID)
	}
	for _, node := range f.nodes {
		s.place(node.entry)
	}
	return receipt, nil
}

// moved notes that a job went to another state. The end of a job frees or cancels its dependents.
func (f *flows) moved(s *Jobs, e *entry, was job.State) {
	if e.node == nil || e.State == was {
		return
	}
	of := e.node.flow
	of.Count(was, e.State)
	of.finished = time.Time{}
	if of.Open() == 0 {
		of.finished = e.FinishedAt
	}
	if e.State.Finished() {
		e.node.end(s, e.State, e.FinishedAt)
	}
}

// end tells the dependents of a job that it has ended; the state is "" for a job that was removed.
func (n *flowNode) end(s *Jobs, state job.State, now time.Time) {
	needed := n.needed
	n.needed = needed.Ended(state)
	for _, at := range n.Dependents {
		d := n.flow.nodes[at-1]
		if d == nil {
			continue
		}
		if needed.Meets(state, d.OnFailure) {
			d.unmet--
		}
		switch waits := d.entry.State == job.Waiting && d.entry.WaitsFor == job.WaitsForNeeds; {
		case !waits:
		case needed.Cancels(state, d.OnFailure):
			d.entry.CancelUnmet(now)
			s.place(d.entry)
		case d.unmet == 0:
			d.entry.Release(now)
			s.place(d.entry)
		}
	}
}

// dropped notes that a job is removed.
func (f *flows) dropped(s *Jobs, e *entry) {
	if e.node == nil {
		return
	}
	of := e.node.flow
	of.nodes[e.node.position-1] = nil
	of.Count(e.was, "")
	e.node.end(s, "", s.now())
	switch {
	case of.Jobs == 0:
		delete(f.byID, of.ID)
		f.list = slices.DeleteFunc(f.list, func(other *flow) bool { return other == of })
	case of.Open() == 0 && of.finished.IsZero():
		of.finished = s.now()
	}
}

// remove removes at most limit jobs of flows that finished longer ago than jobs of their state are kept.
func (f *flows) remove(s *Jobs, m job.Maintenance, limit int, now time.Time) (removed int) {
	for _, of := range slices.Clone(f.list) {
		for _, n := range of.nodes {
			if of.finished.IsZero() || removed >= limit {
				break
			}
			if n == nil {
				continue
			}
			if keep, listed := m.Keep[n.entry.State]; listed && !now.Before(of.finished.Add(keep)) {
				s.drop(n.entry)
				removed++
			}
		}
	}
	return removed
}

// Flow implements job.FlowStore.
func (s *Jobs) Flow(ctx context.Context, id string) (job.FlowStatus, error) {
	if _, err := s.enter(ctx); err != nil {
		return job.FlowStatus{}, err
	}
	defer s.mu.Unlock()
	f := s.flows.byID[id]
	if f == nil {
		return job.FlowStatus{}, &job.NotFoundError{What: "flow", ID: id}
	}
	status := job.FlowStatus{FlowInfo: f.FlowInfo}
	nodes := slices.DeleteFunc(slices.Clone(f.nodes), func(n *flowNode) bool { return n == nil })
	slices.SortStableFunc(nodes, func(a, b *flowNode) int { return cmp.Compare(a.Layer, b.Layer) })
	for _, n := range nodes {
		status.Add(n.Layer, n.entry.State, 1)
	}
	return status, nil
}

// Flows implements job.FlowStore.
func (s *Jobs) Flows(ctx context.Context, q job.FlowQuery) ([]job.FlowInfo, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var page []job.FlowInfo
	for _, f := range slices.Backward(s.flows.list) {
		if len(page) == cmp.Or(max(q.Limit, 0), 100) {
			break
		}
		if q.Below == 0 || f.Cursor < q.Below {
			page = append(page, f.FlowInfo)
		}
	}
	return page, nil
}

// FlowNodes implements job.FlowStore.
func (s *Jobs) FlowNodes(ctx context.Context, q job.NodeQuery) ([]job.FlowNode, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	f, positions, err := s.flows.asked(s, q)
	if err != nil {
		return nil, err
	}
	var page []job.FlowNode
	for _, at := range positions {
		n := f.nodes[at-1]
		if n == nil || n.position <= q.After || q.Node != "" && n.Node != q.Node {
			continue
		}
		if len(page) == cmp.Or(max(q.Limit, 0), 1000) {
			break
		}
		node := job.FlowNode{
			Position: n.position, Node: n.Node, Layer: n.Layer, JobID: n.entry.ID, Type: n.entry.Type, State: n.entry.State, OnFailure: n.OnFailure,
			Unmet: n.unmet, Needs: slices.Clone(n.Needs), Dependents: len(n.Dependents),
		}
		if q.Outputs {
			node.Output = bytes.Clone(n.entry.Output)
		}
		page = append(page, node)
	}
	return page, nil
}

// asked returns the flow and the positions that a query asks for.
func (f *flows) asked(s *Jobs, q job.NodeQuery) (of *flow, positions []int32, err error) {
	if q.Flow != "" {
		if of = f.byID[q.Flow]; of == nil {
			return nil, nil, q.NotFound()
		}
		for i := range of.nodes {
			positions = append(positions, int32(i+1))
		}
		return of, positions, nil
	}
	e := s.jobs.byID[cmp.Or(q.NeededBy, q.DependsOn)]
	if e == nil || e.node == nil {
		return nil, nil, q.NotFound()
	}
	if q.NeededBy != "" {
		return e.node.flow, e.node.Needs, nil
	}
	return e.node.flow, e.node.Dependents, nil
}
