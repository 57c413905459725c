package storetest

import (
	"time"

	"github.com/tenetdev/tenet/job"
)

// combinedFlowCases checks flows together with redrives, limits, cancellation and retention.
func combinedFlowCases() []jobsCase {
	return []jobsCase{
		{name: "J20/a redrive of a dead need resumes what holds", run: func(s *jobs) {
			g, r := s.redrivenFlow()
			g.end(job.KindDead, "a")
			g.end(job.KindComplete, "run")
			made := r.create(job.RedrivePlan{})
			r.step(made.ID)
			g.states(map[string]job.State{"a": job.Ready, "hold": job.Waiting, "both": job.Waiting, "run": job.Completed, "cancel": job.Cancelled})
			g.end(job.KindComplete, "a")
			g.states(map[string]job.State{"hold": job.Ready, "both": job.Waiting, "run": job.Completed, "cancel": job.Cancelled})
			g.end(job.KindComplete, "hold")
			g.end(job.KindComplete, "both")
		}},
		{name: "J20/a redrive of a need that is undone frees and cancels nothing again", run: func(s *jobs) {
			g, r := s.redrivenFlow()
			g.end(job.KindDead, "a")
			g.end(job.KindComplete, "run")
			want := map[string]job.State{"a": job.Dead, "hold": job.Waiting, "both": job.Waiting, "run": job.Completed, "cancel": job.Cancelled}
			made := r.create(job.RedrivePlan{})
			r.step(made.ID)
			r.update(made.ID, job.RedriveChange{Action: job.RedriveUndo, Actor: "me"})
			r.step(made.ID)
			g.states(want)
			g.change(job.ActionRetry, g.on("a"), 1)
			g.end(job.KindComplete, "a")
			g.end(job.KindComplete, "hold")
			g.end(job.KindComplete, "both")
		}},
		{name: "J20/jobs of a flow take places of limits", run: func(s *jobs) {
			s.limit(perTenant(1))
			acme := func(j job.FlowJob) job.FlowJob {
				j.Meta = map[string]string{"tenant": "acme"}
				return j
			}
			g := s.flow(node("first"), acme(node("a", "first")), acme(node("b", "first")), acme(node("c", "first")), acme(node("all", "a", "b", "c")))
			g.end(job.KindComplete, "first")
			s.settled()
			for _, name := range []string{"a", "b", "c", "all"} { // in their order, one at a time
				held := g.claim()
				if len(held) != 1 || held[g.ids[name]] == nil {
					g.Fatalf("J20, J19: claimed %d jobs, want only %s", len(held), name)
				}
				if name != "all" {
					if r := g.record(g.ids["all"]); r.WaitsFor != job.WaitsForNeeds {
						g.Fatalf("J20, J19: before %s the last job is %s and waits for %q", name, r.State, r.WaitsFor)
					}
				}
				g.must(g.settle(held[g.ids[name]].Ref(), job.KindComplete), nil)
				s.settled()
			}
			g.states(map[string]job.State{"first": job.Completed, "a": job.Completed, "b": job.Completed, "c": job.Completed, "all": job.Completed})
		}},
		{name: "J20/a need that completes after its flow was cancelled frees nothing", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("after", "a"), or(job.FailureRun, node("run", "a")), node("both", "a", "b"))
			held := g.claim()
			g.change(job.ActionCancel, g.of(), 100)
			g.states(map[string]job.State{"a": job.Running, "b": job.Running, "after": job.Cancelled, "run": job.Cancelled, "both": job.Cancelled})
			g.must(g.settle(held[g.ids["a"]].Ref(), job.KindComplete), nil)
			g.must(g.settle(held[g.ids["b"]].Ref(), job.KindCancel), nil)
			g.states(map[string]job.State{"a": job.Completed, "b": job.Cancelled, "after": job.Cancelled, "run": job.Cancelled, "both": job.Cancelled})
			g.change(job.ActionRetry, g.of(job.Cancelled), 100) // the need that was met meanwhile counts
			g.states(map[string]job.State{"b": job.Ready, "after": job.Ready, "run": job.Ready, "both": job.Waiting})
			g.end(job.KindComplete, "b", "after", "run")
			g.end(job.KindComplete, "both")
		}},
		{name: "J20/a job is retried after retention has removed its needs", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("one", "a"), node("two", "a", "b"), node("below", "two"))
			g.end(job.KindComplete, "a", "b")
			g.change(job.ActionCancel, g.on("one"), 1)
			g.end(job.KindDead, "two")
			g.states(map[string]job.State{"one": job.Cancelled, "two": job.Dead, "below": job.Cancelled})
			s.lapse(s.short)
			g.maintain() // adds up
			s.lapse(s.short)
			g.removes(2, job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{job.Completed: 0, job.Dead: long, job.Cancelled: long}})
			delete(g.kept, g.ids["a"])
			delete(g.kept, g.ids["b"])
			g.change(job.ActionRetry, g.of(job.Dead, job.Cancelled), 100)
			g.states(map[string]job.State{"one": job.Ready, "two": job.Ready, "below": job.Waiting})
			g.end(job.KindComplete, "one", "two")
			g.end(job.KindComplete, "below")
		}},
		{name: "J20/a job is not freed by the removal of a dead need", run: func(s *jobs) {
			g := s.flow(node("a"), node("b"), node("one", "a"), or(job.FailureRun, node("run", "a")), node("two", "a", "b"))
			g.end(job.KindDead, "a", "b")
			g.change(job.ActionCancel, g.on("run"), 1)
			s.lapse(s.short)
			g.maintain() // adds up
			s.lapse(s.short)
			g.removes(2, job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{job.Dead: 0, job.Cancelled: long}})
			delete(g.kept, g.ids["a"])
			delete(g.kept, g.ids["b"])
			g.change(job.ActionRetry, g.of(job.Cancelled), 100)
			g.states(map[string]job.State{"one": job.Waiting, "run": job.Ready, "two": job.Waiting})
		}},
		{name: "J20/retention keeps a flow that was retried", run: func(s *jobs) {
			g := s.flow(node("a"), node("b", "a"), node("c", "b"))
			g.end(job.KindComplete, "a")
			g.end(job.KindDead, "b")
			s.maintainAfter(s.short)
			g.change(job.ActionRetry, g.of(job.Dead, job.Cancelled), 100)
			s.lapse(s.short)
			all := job.Maintenance{Limit: 100, Keep: map[job.State]time.Duration{job.Completed: 0, job.Dead: 0, job.Cancelled: 0}}
			g.removes(0, all)
			g.end(job.KindComplete, "b")
			g.end(job.KindComplete, "c")
			g.states(map[string]job.State{"a": job.Completed, "b": job.Completed, "c": job.Completed})
		}},
	}
}

// redrivenFlow is a flow whose first job is to die and to be redriven. It skips the case for a store without redrives.
func (s *jobs) redrivenFlow() (*graph, *redrives) {
	s.Helper()
	store := optional[job.RedriveStepper](s, s.Store)
	g := s.flow(node("a"), node("cancel", "a"), or(job.FailureRun, node("run", "a")), or(job.FailureHold, node("hold", "a")),
		or(job.FailureHold, node("both", "a", "hold")))
	return g, &redrives{jobs: s, store: store}
}
