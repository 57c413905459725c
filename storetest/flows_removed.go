package storetest

import (
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// removedFlowCases checks flows whose jobs are removed, one by one, many at once, and at the gate of limits.
func removedFlowCases() []jobsCase {
	return []jobsCase{
		{name: "J20/a retention does not begin again with each removal", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c"))
			g.end(job.KindComplete, "a", "b", "c")
			g.maintain() // adds up
			s.lapse(s.short)
			keep := job.Maintenance{Limit: 1, Keep: map[job.State]time.Duration{job.Completed: s.short}}
			for range 3 {
				g.removes(1, keep)
				g.maintain()
			}
			for _, id := range g.ids {
				delete(g.kept, id)
			}
		}},
		{name: "J20/a flow with limits is cancelled", run: func(s *jobs) {
			s.limit(perTenant(1))
			g := s.flow(node("a"), or(job.FailureRun, node("run", "a")), node("x"))
			s.settled()
			g.change(job.ActionCancel, g.of(), 100)
			s.settled()
			g.states(map[string]job.State{"a": job.Cancelled, "run": job.Cancelled, "x": job.Cancelled})
		}},
		{name: "J20/a flow with limits is deleted", run: func(s *jobs) {
			s.limit(perTenant(1))
			g := s.flow(node("a"), or(job.FailureRun, node("run", "a")))
			s.settled()
			g.change(job.ActionDelete, g.of(), 100)
			s.settled()
			same(g, "deleted jobs claimed", len(g.claim()), 0)
		}},
		{name: "J20/a flow with limits is cancelled at once", run: func(s *jobs) {
			s.limit(perTenant(1))
			g := s.flow(node("a"), node("b", "a"))
			g.change(job.ActionCancel, g.of(), 100)
			s.settled()
			g.states(map[string]job.State{"a": job.Cancelled, "b": job.Cancelled})
		}},
		{name: "J20/a flow with limits is deleted at once", run: func(s *jobs) {
			s.limit(perTenant(1))
			g := s.flow(node("a"), node("b", "a"))
			g.change(job.ActionDelete, g.of(), 100)
			s.settled()
		}},
		{name: "J20/a stored flow with limits notifies", run: func(s *jobs) {
			s.limit(perTenant(1))
			s.notified(s, func() { s.flow(node("a")) })
		}},
		{name: "J20/jobs of a chain are deleted around one that stays", run: func(s *jobs) {
			g := s.flow(node("a"), node("between", "a"), node("last", "between"))
			g.change(job.ActionDelete, g.on("a", "last"), 10)
			g.states(map[string]job.State{"between": job.Cancelled})
		}},
		{name: "J20/a job that is deleted with an earlier one takes no place", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			g := s.flow(node("a"), node("between", "a"), or(job.FailureRun, node("last", "between")))
			s.settled()
			g.change(job.ActionDelete, g.on("a", "last"), 10)
			s.settled()
			id := s.add(job.Insert{})
			s.settled()
			s.in(id, job.Ready)
			g.states(map[string]job.State{"between": job.Cancelled})
		}},
		{name: "J20/pages of needs are full although a need was deleted", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("c"), or(job.FailureRun, node("sole", "a")), or(job.FailureRun, node("all", "a", "b", "c")))
			g.change(job.ActionDelete, g.on("a"), 1)
			for _, q := range []job.NodeQuery{{NeededBy: g.ids["all"], Limit: 1}, {Flow: g.id, Limit: 1}} {
				if list, err := g.store.FlowNodes(g.ctx, q); err != nil || len(list) != 1 || list[0].Node != "b" {
					g.Errorf("J20: the first page of %+v is %v, %v, want b", q, list, err)
				}
			}
		}},
		{name: "J20/a flow whose jobs were all deleted is gone, and its ID is free", run: func(s *jobs) {
			g := s.flow(node("a"), node("b", "a"))
			g.change(job.ActionDelete, g.of(), 100)
			if status, err := g.store.Flow(g.ctx, g.id); err == nil {
				g.Fatalf("J20: there is %+v", status)
			}
			if page, err := g.store.Flows(g.ctx, job.FlowQuery{}); err != nil || len(page) != 0 {
				g.Fatalf("J20: %+v, %v", page, err)
			}
			again, err := (&job.Flow{ID: g.id, Jobs: []job.FlowJob{node("x")}}).Inserts()
			g.must(err, nil)
			again.Jobs[0].ID = newID()
			g.kept[again.Jobs[0].ID] = true
			if receipt, err := g.store.EnqueueFlow(g.ctx, again); err != nil || receipt.Existed {
				g.Fatalf("J20: %+v, %v", receipt, err)
			}
		}},
	}
}
