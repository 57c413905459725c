package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// graph is a stored flow with the IDs of its jobs by node.
type graph struct {
	*jobs
	store job.FlowStore
	id    string
	ids   map[string]string
}

// node describes a job of a flow for a case.
func node(name string, needs ...string) job.FlowJob {
	return job.FlowJob{Node: name, Needs: needs, Request: job.Request{Type: "t", Queue: queue}}
}

// or sets what a job does after a failure.
func or(on job.OnFailure, j job.FlowJob) job.FlowJob {
	j.OnFailure = on
	return j
}

// store stores a flow. It skips the case for a store without flows.
func (s *jobs) flow(list ...job.FlowJob) *graph {
	s.Helper()
	store := optional[job.FlowStore](s, s.Store)
	f, err := (&job.Flow{Jobs: list}).Inserts()
	s.must(err, nil)
	g := &graph{jobs: s, store: store, id: f.ID, ids: map[string]string{}}
	defer func() { // the store has copies
		for _, in := range f.Jobs {
			clear(in.Needs)
			clear(in.Dependents)
		}
	}()
	for i := range f.Jobs {
		f.Jobs[i].ID = newID()
		g.ids[f.Jobs[i].Node] = f.Jobs[i].ID
		s.kept[f.Jobs[i].ID] = true
	}
	receipt, err := store.EnqueueFlow(s.ctx, f)
	if err != nil || receipt.Existed || receipt.ID != f.ID || receipt.Durability == "" {
		s.Fatalf("EnqueueFlow: %+v, %v", receipt, err)
	}
	return g
}

// states fails the case unless the nodes are in these states, and checks the kept counts.
func (g *graph) states(want map[string]job.State) {
	g.Helper()
	got := map[string]job.State{}
	for name := range want {
		got[name] = g.record(g.ids[name]).State
	}
	noDiff(g, "J20: states", cmp.Diff(want, got))
	noDiff(g, "J20: status", g.miscounted())
}

// status returns the status of the flow, which must be in this state.
func (g *graph) status(want job.FlowState) job.FlowStatus {
	g.Helper()
	status, err := g.store.Flow(g.ctx, g.id)
	g.must(err, nil)
	if status.State() != want {
		g.Fatalf("J20: the flow is %s, want %s: %+v", status.State(), want, status)
	}
	return status
}

// miscounted compares the counts of the flow with its nodes.
func (g *graph) miscounted() string {
	g.Helper()
	status, err := g.store.Flow(g.ctx, g.id)
	g.must(err, nil)
	nodes, err := g.store.FlowNodes(g.ctx, job.NodeQuery{Flow: g.id, Limit: 100_000})
	g.must(err, nil)
	want := job.FlowStatus{FlowInfo: job.FlowInfo{ID: g.id, CreatedAt: status.CreatedAt, Layers: status.Layers, Cursor: status.Cursor}}
	slices.SortStableFunc(nodes, func(a, b job.FlowNode) int { return a.Layer - b.Layer })
	for _, n := range nodes {
		want.Add(n.Layer, n.State, 1)
		want.Count("", n.State)
	}
	return cmp.Diff(want, status)
}

// claim leases every ready job of the queue, by ID.
func (g *graph) claim() map[string]*job.Record {
	g.Helper()
	held := map[string]*job.Record{}
	for _, r := range g.lease(queue, 1000, long) {
		held[r.ID] = r
	}
	return held
}

// end claims the ready jobs, which must be exactly these nodes, and settles them all.
func (g *graph) end(kind job.Kind, names ...string) {
	g.Helper()
	held := g.claim()
	for _, name := range names {
		r := held[g.ids[name]]
		if r == nil {
			g.Fatalf("J20: %s was not claimed", name)
		}
		delete(held, r.ID)
		g.must(g.settle(r.Ref(), kind, fails("why", 0), func(x *job.Settlement) {
			if kind == job.KindComplete {
				x.Error, x.Reason, x.Output = "", policy.ReasonSuccess, []byte(name+"'s")
			}
		}), nil)
	}
	if len(held) > 0 {
		g.Fatalf("J20: claimed %d other jobs", len(held))
	}
}

// of selects the jobs of the flow.
func (g *graph) of(states ...job.State) job.Filter {
	return job.Filter{States: states, Terms: filter.Terms{{Field: job.FieldFlow, Values: filter.Exactly(g.id)}}}
}

// on selects nodes.
func (g *graph) on(names ...string) job.Filter {
	var f job.Filter
	for _, name := range names {
		f.IDs = append(f.IDs, g.ids[name])
	}
	return f
}

// needCases checks which jobs of flows run, and when.
func needCases() []jobsCase {
	return []jobsCase{
		{name: "J20/a job runs when its last need has completed", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c", "a", "b"), node("d", "c"))
			g.states(map[string]job.State{"a": job.Ready, "b": job.Ready, "c": job.Waiting, "d": job.Waiting})
			held := g.claim()
			for _, name := range []string{"a", "b"} {
				g.in(g.ids["c"], job.Waiting)
				g.must(g.settle(held[g.ids[name]].Ref(), job.KindComplete), nil)
			}
			g.states(map[string]job.State{"a": job.Completed, "b": job.Completed, "c": job.Ready, "d": job.Waiting})
			g.end(job.KindComplete, "c")
			g.end(job.KindComplete, "d")
			same(g, "layers", g.status(job.FlowCompleted).Layers, 3)
		}},
		{name: "J20/needs are stored before or after the jobs that need them", run: func(s *jobs) {
			g := s.flow(node("last", "first", "second"), node("second", "first"), node("first"))
			g.end(job.KindComplete, "first")
			g.end(job.KindComplete, "second")
			g.end(job.KindComplete, "last")
		}},
		{name: "J20/needs that complete in one call free their dependent once", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c"), node("all", "a", "b", "c"))
			g.end(job.KindComplete, "a", "b", "c")
			g.end(job.KindComplete, "all")
			same(g, "J20: attempts", g.record(g.ids["all"]).Attempts(), 1)
		}},
		{name: "J20/a repeated completion counts once", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c", "a", "b"))
			held := g.claim()[g.ids["a"]]
			for range 3 {
				g.must(g.settle(held.Ref(), job.KindComplete), nil)
			}
			g.in(g.ids["c"], job.Waiting)
		}},
		{name: "J20/a job whose run_at is later is scheduled when its needs have completed", run: func(s *jobs) {
			late := node("b", "a")
			late.RunAt = s.clock().Add(s.short)
			g := s.flow(node("a"), late)
			g.end(job.KindComplete, "a")
			g.states(map[string]job.State{"b": job.Scheduled})
			s.lapse(s.short)
			g.end(job.KindComplete, "b")
		}},
		{name: "J20/a job keeps its run_at of a later century while it waits", run: func(s *jobs) {
			late := node("b", "a")
			late.RunAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
			g := s.flow(node("a"), late)
			g.end(job.KindComplete, "a")
			if r := g.in(g.ids["b"], job.Scheduled); !r.RunAt.Equal(late.RunAt) {
				g.Fatalf("J20: run_at %v, want %v", r.RunAt, late.RunAt)
			}
		}},
		{name: "J1/the store returns copies of needs", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c", "b"))
			for range 2 {
				list, err := g.store.FlowNodes(g.ctx, job.NodeQuery{Flow: g.id, Node: "c"})
				g.must(err, nil)
				if len(list) != 1 || !slices.Equal(list[0].Needs, []int32{2}) {
					g.Fatalf("nodes: %+v", list)
				}
				list[0].Needs[0] = 1
			}
		}},
		{name: "J20/a job reads the outputs of its needs", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("other"), node("c", "b", "a"))
			g.end(job.KindComplete, "a", "b", "other")
			for name, want := range map[string][]string{"": {"a=a's", "b=b's"}, "b": {"b=b's"}, "other": nil} {
				list, err := g.store.FlowNodes(g.ctx, job.NodeQuery{NeededBy: g.ids["c"], Node: name, Outputs: true})
				g.must(err, nil)
				got := lists.Map(list, func(n job.FlowNode) string { return n.Node + "=" + string(n.Output) })
				noDiff(g, "J20: needs "+name, cmp.Diff(want, got, cmpopts.EquateEmpty()))
			}
			list, err := g.store.FlowNodes(g.ctx, job.NodeQuery{DependsOn: g.ids["a"]})
			if err != nil || len(list) != 1 || list[0].Node != "c" || list[0].Unmet != 0 || list[0].Type != "t" || !slices.Equal(list[0].Needs, []int32{1, 2}) {
				g.Fatalf("J20: dependents %+v, %v", list, err)
			}
		}},
		{name: "J20/concurrent completions of two needs free their dependent", real: true, run: func(s *jobs) {
			const pairs = 50
			var list []job.FlowJob
			for i := range pairs {
				a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
				list = append(list, node(a), node(b), node(fmt.Sprint("c", i), a, b))
			}
			g := s.flow(list...)
			held := g.claim()
			atOnce(2, func(side int) {
				for i := range pairs {
					ref := held[g.ids[fmt.Sprint([]string{"a", "b"}[side], i)]].Ref()
					errs := g.Settle(g.ctx, []job.Settlement{{Ref: ref, Kind: job.KindComplete, Reason: policy.ReasonSuccess}})
					g.report("Settle", errors.Join(errs...))
				}
			})
			same(g, "J20: dependents that are ready", len(g.claim()), pairs)
		}},
		{name: "J20/a flow with an ID that exists changes nothing", run: func(s *jobs) {
			g := s.flow(node("a"))
			again, err := (&job.Flow{ID: g.id, Jobs: []job.FlowJob{node("x"), node("y", "x")}}).Inserts()
			g.must(err, nil)
			receipt, err := g.store.EnqueueFlow(g.ctx, again)
			if err != nil || !receipt.Existed || receipt.ID != g.id {
				g.Fatalf("%+v, %v", receipt, err)
			}
			if list := g.list(g.of()); !slices.Equal(namesOf(list), []string{g.ids["a"]}) || list[0].Flow != g.id || list[0].Node != "a" {
				g.Fatalf("J20: the flow has %v", list)
			}
		}},
		{name: "J20/flows and nodes are listed in pages", run: func(s *jobs) {
			var want []string
			for range 5 {
				want = append(want, s.flow(node("a"), node("b", "a"), node("c", "a")).id)
			}
			slices.Reverse(want)
			store := s.Store.(job.FlowStore)
			flows := pages(s, func(last job.FlowInfo) ([]job.FlowInfo, error) {
				return store.Flows(s.ctx, job.FlowQuery{Below: last.Cursor, Limit: 2})
			})
			noDiff(s, "flows", cmp.Diff(want, lists.Map(flows, func(f job.FlowInfo) string { return f.ID })))
			nodes := pages(s, func(last job.FlowNode) ([]job.FlowNode, error) {
				return store.FlowNodes(s.ctx, job.NodeQuery{Flow: want[0], After: last.Position, Limit: 2})
			})
			noDiff(s, "nodes", cmp.Diff([]string{"a", "b", "c"}, lists.Map(nodes, func(n job.FlowNode) string { return n.Node })))
			far, err := store.Flows(s.ctx, job.FlowQuery{Below: math.MaxInt64, Limit: 5})
			s.must(err, nil)
			noDiff(s, "flows below a high cursor", cmp.Diff(want, lists.Map(far, func(f job.FlowInfo) string { return f.ID })))
			for _, q := range []job.NodeQuery{{Flow: want[0]}, {NeededBy: nodes[1].JobID}, {DependsOn: nodes[0].JobID}} {
				q.After = math.MaxInt
				if list, err := store.FlowNodes(s.ctx, q); err != nil || len(list) > 0 {
					s.Errorf("nodes after a high position: %v, %v", list, err)
				}
			}
			alone := s.add(job.Insert{})
			_, noFlow := store.Flow(s.ctx, "none")
			_, noNodes := store.FlowNodes(s.ctx, job.NodeQuery{Flow: "none"})
			_, noNeeds := store.FlowNodes(s.ctx, job.NodeQuery{NeededBy: alone})
			_, noDependents := store.FlowNodes(s.ctx, job.NodeQuery{DependsOn: alone})
			for _, c := range []struct {
				err  error
				what job.NotFoundError
			}{{noFlow, job.NotFoundError{What: "flow", ID: "none"}}, {noNodes, job.NotFoundError{What: "flow", ID: "none"}}, {noNeeds, job.NotFoundError{What: "flow of job", ID: alone}}, {noDependents, job.NotFoundError{What: "flow of job", ID: alone}}} {
				s.missing(c.err, c.what)
			}
		}},
	}
}

// failedNeedCases checks what a failed need means for those that need it.
func failedNeedCases() []jobsCase {
	failing := func(s *jobs) *graph { // "a" fails
		return s.flow(node("a"), node("cancel", "a"), node("below", "cancel"), or(job.FailureRun, node("after", "below")),
			or(job.FailureRun, node("run", "a")), or(job.FailureHold, node("hold", "a")), node("held", "hold"))
	}
	failed := map[string]job.State{
		"cancel": job.Cancelled, "below": job.Cancelled, "after": job.Ready, "run": job.Ready, "hold": job.Waiting, "held": job.Waiting,
	}
	with := func(a job.State) map[string]job.State {
		want := map[string]job.State{"a": a}
		maps.Copy(want, failed)
		return want
	}
	return []jobsCase{
		{name: "J20/a need that dies cancels, runs or holds its dependents", run: func(s *jobs) {
			g := failing(s)
			g.end(job.KindDead, "a")
			g.states(with(job.Dead))
			for _, name := range []string{"cancel", "below"} {
				if r := g.record(g.ids[name]); r.Reason != policy.ReasonNeedFailed || r.WaitsFor != "" {
					g.Fatalf("J20: %s: %+v", name, r)
				}
			}
		}},
		{name: "J20/a need that is buried, cancelled by its handler or loses its lease for good", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindBury, job.KindCancel} {
				g := failing(s)
				g.end(kind, "a")
				state := job.Dead
				if kind == job.KindCancel {
					state = job.Cancelled
				}
				g.states(with(state))
				g.change(job.ActionDelete, g.of(), 100)
			}
			once := node("a")
			once.MaxAttempts = 1
			g := s.flow(once, node("b", "a"), or(job.FailureRun, node("c", "a")))
			s.lease(queue, 1, s.short)
			s.maintainAfter(s.short)
			g.states(map[string]job.State{"a": job.Dead, "b": job.Cancelled, "c": job.Ready})
		}},
		{name: "J20/a need that an operator cancels", run: func(s *jobs) {
			g := failing(s)
			g.change(job.ActionCancel, g.on("a"), 10)
			g.states(with(job.Cancelled))
		}},
		{name: "J20/a running need that is cancelled or lost after a request", run: func(s *jobs) {
			g := failing(s)
			held := g.claim()[g.ids["a"]]
			g.change(job.ActionCancel, g.on("a"), 10)
			g.states(map[string]job.State{"a": job.Running, "cancel": job.Waiting, "run": job.Waiting})
			g.must(g.settle(held.Ref(), job.KindRetry), job.ErrCancelRequested)
			g.states(with(job.Cancelled))
		}},
		{name: "J20/a need that is deleted also cancels what it holds", run: func(s *jobs) {
			g := failing(s)
			g.end(job.KindDead, "a")
			g.change(job.ActionDelete, g.on("a"), 10)
			want := with("")
			delete(want, "a")
			want["hold"], want["held"] = job.Cancelled, job.Cancelled
			g.states(want)
			g = failing(s)
			g.change(job.ActionDelete, g.on("a"), 10)
			g.states(want)
		}},
		{name: "J20/a retry of a dead need resumes what holds and runs nothing twice", run: func(s *jobs) {
			g := failing(s)
			g.end(job.KindDead, "a")
			g.end(job.KindComplete, "run", "after")
			g.change(job.ActionRetry, g.on("a"), 10)
			g.states(map[string]job.State{"a": job.Ready, "hold": job.Waiting, "run": job.Completed, "cancel": job.Cancelled})
			g.end(job.KindDead, "a")
			g.change(job.ActionRetry, g.on("a"), 10)
			g.end(job.KindComplete, "a")
			g.end(job.KindComplete, "hold")
			g.end(job.KindComplete, "held")
			g.states(map[string]job.State{"run": job.Completed, "after": job.Completed, "cancel": job.Cancelled, "below": job.Cancelled})
		}},
		{name: "J20/a completed need that is retried is not counted twice", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c", "a", "b"))
			held := g.claim()
			g.must(g.settle(held[g.ids["a"]].Ref(), job.KindComplete), nil)
			g.change(job.ActionRetry, g.on("a"), 10)
			g.end(job.KindComplete, "a")
			g.in(g.ids["c"], job.Waiting)
			g.must(g.settle(held[g.ids["b"]].Ref(), job.KindComplete), nil)
			g.states(map[string]job.State{"c": job.Ready})
			g.change(job.ActionRetry, g.on("a"), 10)
			g.end(job.KindDead, "a", "c")
		}},
		{name: "J20/a retry of the flow runs what failed and lets its dependents wait again", run: func(s *jobs) {
			g := failing(s)
			g.end(job.KindDead, "a")
			g.end(job.KindComplete, "run", "after")
			changed := g.change(job.ActionRetry, g.of(job.Dead, job.Cancelled), 100)
			same(g, "J20: jobs retried", len(changed), 3)
			g.states(map[string]job.State{"a": job.Ready, "cancel": job.Waiting, "below": job.Waiting, "run": job.Completed, "after": job.Completed})
			same(g, "J20: what the job waits for", g.record(g.ids["below"]).WaitsFor, job.WaitsForNeeds)
			g.end(job.KindComplete, "a")
			g.end(job.KindComplete, "cancel", "hold")
			g.end(job.KindComplete, "below", "held")
			g.status(job.FlowCompleted)
		}},
		{name: "J20/a flow is cancelled", run: func(s *jobs) {
			g, other := s.flow(node("a"), node("b"), node("c", "a"), or(job.FailureRun, node("d", "c"))), s.flow(node("x"))
			held := g.lease(queue, 1, long)[0]
			g.change(job.ActionCancel, g.of(), 100)
			g.states(map[string]job.State{"a": job.Running, "b": job.Cancelled, "c": job.Cancelled, "d": job.Cancelled})
			whole := s.flow(node("a"), node("b", "a"), or(job.FailureRun, node("c", "a")))
			g.change(job.ActionCancel, whole.of(), 100)
			for _, r := range g.list(whole.of()) {
				if r.State != job.Cancelled || r.Reason != "" {
					g.Fatalf("J20: %s is %s by an operator, for the reason %q", r.Node, r.State, r.Reason)
				}
			}
			g.must(g.settle(held.Ref(), job.KindCancel), nil)
			other.states(map[string]job.State{"x": job.Ready})
			g.status(job.FlowCancelled)
		}},
		{name: "J20/a failure cancels a long chain at once", run: func(s *jobs) {
			var f job.Flow
			var chain []job.FlowJob
			n := sized(1000, 200) // more than MaxFlowBands
			for i := range n {
				chain = append(chain, node(strconv.Itoa(i)))
			}
			f.Chain(nil, chain...)
			g := s.flow(f.Jobs...)
			g.end(job.KindDead, "0")
			if status := g.status(job.FlowFailed); status.Cancelled != n-1 || len(status.Bands) != job.MaxFlowBands {
				g.Fatalf("status %+v", status)
			}
		}},
		{name: "J20/retention keeps the jobs of a flow until it has finished", run: func(s *jobs) {
			g := s.flow(node("a"), node("b", "a"))
			g.end(job.KindComplete, "a")
			keep := job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{job.Completed: 0, job.Dead: long}}
			s.maintainAfter(s.short)
			g.removes(0, keep)
			g.end(job.KindComplete, "b")
			g.maintain() // adds up
			s.lapse(s.short)
			g.removes(2, keep)
			delete(g.kept, g.ids["a"])
			delete(g.kept, g.ids["b"])
			g.maintain()
			g.maintainWith(keep)
			if list, err := g.store.Flows(g.ctx, job.FlowQuery{}); err != nil || len(list) != 0 {
				g.Fatalf("J20: left %v, %v", list, err)
			}
		}},
	}
}
