package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func randomFlowCases() []jobsCase {
	return []jobsCase{{name: "J20/random flows with random outcomes agree with the model", run: func(s *jobs) {
		optional[job.FlowStore](s, s.Store)
		fewerChecks()
		rapid.Check(struct{ *testing.T }{s.T}, func(t *rapid.T) {
			m := newFlowModel(s, t)
			tended := func(f func(*rapid.T)) func(*rapid.T) { return f }
			if _, ok := s.Store.(job.Limiter); ok && rapid.Bool().Draw(t, "limited") {
				s.set(job.LimitName{Queue: m.queue, Name: "many"}, policy.JobLimit{Concurrency: 1000})
				s.settled()
				tended = func(f func(*rapid.T)) func(*rapid.T) {
					return func(t *rapid.T) { f(t); s.settled() }
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"": m.compare, "settle": tended(m.settle), "settle again": tended(m.settle), "change": tended(m.change), "change many": tended(m.changeMany),
				"retry the flow": tended(m.retry),
			})
		})
	}}}
}

// flowModel holds what the jobs of a flow should be, with each need on its own.
type flowModel struct {
	g     *graph
	queue string
	names []string // in the order of their IDs
	nodes map[string]*modelNode
}

type modelNode struct {
	state job.State // "" once deleted
	on    job.OnFailure
	needs map[string]bool // whether the need is met
}

func newFlowModel(s *jobs, t *rapid.T) *flowModel {
	m := &flowModel{queue: fmt.Sprint("flow ", ids.Add(1)), nodes: map[string]*modelNode{}}
	var list []job.FlowJob
	for i := range rapid.IntRange(2, 9).Draw(t, "jobs") {
		n := &modelNode{state: job.Ready, on: rapid.SampledFrom([]job.OnFailure{job.FailureCancel, job.FailureRun, job.FailureHold}).Draw(t, "on failure"), needs: map[string]bool{}}
		j := or(n.on, node(fmt.Sprint("n", i)))
		j.Queue = m.queue
		for _, need := range m.names {
			if rapid.IntRange(0, 2).Draw(t, "need") == 0 {
				j.Needs, n.needs[need], n.state = append(j.Needs, need), false, job.Waiting
			}
		}
		list = append(list, j)
		m.names = append(m.names, j.Node)
		m.nodes[j.Node] = n
	}
	m.g = s.flow(list...)
	return m
}

// end is the end of a job in a state, "" for a deletion.
func (m *flowModel) end(name string, state job.State) {
	m.nodes[name].state = state
	for _, n := range m.names {
		d := m.nodes[n]
		if _, needs := d.needs[name]; !needs || d.state == "" {
			continue
		}
		if state == job.Completed || d.on == job.FailureRun {
			d.needs[name] = true
		}
		switch {
		case d.state != job.Waiting:
		case state != job.Completed && (d.on == job.FailureCancel || d.on == job.FailureHold && state == "") && m.fails(name, d):
			m.end(n, job.Cancelled)
		case d.met():
			d.state = job.Ready
		}
	}
}

// fails reports whether the failure of a need matters: it does not if the need has been met before.
func (m *flowModel) fails(need string, d *modelNode) bool { return !d.needs[need] }

func (n *modelNode) met() bool { return !slices.Contains(slices.Collect(maps.Values(n.needs)), false) }

func (m *flowModel) restart(name string) {
	n := m.nodes[name]
	n.state = job.Waiting
	if n.met() {
		n.state = job.Ready
	}
}

// settle claims some jobs and settles them in one call.
func (m *flowModel) settle(t *rapid.T) {
	held := m.g.lease(m.queue, rapid.IntRange(1, 4).Draw(t, "claimed"), long)
	kinds := map[job.Kind]job.State{job.KindComplete: job.Completed, job.KindDead: job.Dead, job.KindCancel: job.Cancelled, job.KindRelease: job.Ready}
	var list []job.Settlement
	for _, r := range held {
		kind := rapid.SampledFrom([]job.Kind{job.KindComplete, job.KindComplete, job.KindDead, job.KindCancel, job.KindRelease}).Draw(t, "kind")
		list = append(list, job.Settlement{Ref: r.Ref(), Kind: kind, Reason: policy.ReasonSuccess})
	}
	if errs := m.g.Settle(m.g.ctx, list); errs != nil {
		t.Fatalf("Settle: %v", errs)
	}
	for i, r := range held {
		name := m.name(r.ID)
		if m.nodes[name].state != job.Ready {
			t.Fatalf("J20: %s is %s and was claimed", name, m.nodes[name].state)
		}
		if state := kinds[list[i].Kind]; state.Finished() {
			m.nodes[name].state = job.Running // until it is settled with the others
		}
	}
	for i, r := range held {
		if state := kinds[list[i].Kind]; state.Finished() {
			m.end(m.name(r.ID), state)
		}
	}
}

func (m *flowModel) name(id string) string {
	return m.names[slices.IndexFunc(m.names, func(name string) bool { return m.g.ids[name] == id })]
}

// change applies an operator's action to one job.
func (m *flowModel) change(t *rapid.T) {
	name := rapid.SampledFrom(m.names).Draw(t, "job")
	action := rapid.SampledFrom([]job.Action{job.ActionRetry, job.ActionRetry, job.ActionCancel, job.ActionDelete}).Draw(t, "action")
	changed := m.g.change(action, m.g.on(name), 1)
	n := m.nodes[name]
	if applies := n.state != "" && action.Applies(n.state); applies != (len(changed) == 1) {
		t.Fatalf("J20: %s of %s, which is %q: %v", action, name, n.state, changed)
	}
	switch {
	case len(changed) == 0:
	case action == job.ActionRetry:
		if n.state != job.Ready {
			m.restart(name)
		}
	case action == job.ActionCancel:
		m.end(name, job.Cancelled)
	default:
		m.end(name, "")
	}
}

// retry starts everything again that has failed.
func (m *flowModel) retry(*rapid.T) {
	m.g.change(job.ActionRetry, m.g.of(job.Dead, job.Cancelled), 100)
	for _, name := range m.names {
		if s := m.nodes[name].state; s == job.Dead || s == job.Cancelled {
			m.restart(name)
		}
	}
}

func (m *flowModel) compare(t *rapid.T) {
	want, got := map[string]job.State{}, map[string]job.State{}
	for _, name := range m.names {
		if s := m.nodes[name].state; s != "" {
			want[name] = s
		}
	}
	for _, r := range m.g.list(m.g.of()) {
		got[r.Node] = r.State
	}
	noDiff(t, "J20: states", cmp.Diff(want, got))
	if len(got) > 0 {
		noDiff(t, "J20: status", m.g.miscounted())
	}
}

// changeMany changes several jobs of the flow in one call.
func (m *flowModel) changeMany(t *rapid.T) {
	action := rapid.SampledFrom([]job.Action{job.ActionRetry, job.ActionRetry, job.ActionRetry, job.ActionCancel, job.ActionDelete}).Draw(t, "action")
	var names []string
	for _, name := range m.names {
		if rapid.IntRange(0, 1).Draw(t, "pick") == 0 && m.nodes[name].state != "" && action.Applies(m.nodes[name].state) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	m.g.change(action, m.g.on(names...), 100)
	for _, name := range names {
		switch action {
		case job.ActionRetry:
			if m.nodes[name].state != job.Ready {
				m.restart(name)
			}
		case job.ActionCancel:
			m.end(name, job.Cancelled)
		default:
			m.end(name, "")
		}
	}
}
