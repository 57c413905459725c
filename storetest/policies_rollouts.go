package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

// counters are those of one call.
func counters(took time.Duration, failed bool) rollout.Counters {
	var c rollout.Counters
	c.Observe(took, 1, failed)
	var sum rollout.Counters
	sum.AddClient(c)
	return sum
}

func rolloutCases() []policiesCase {
	return []policiesCase{
		{"S2 evidence adds up by rollout, step and revision", func(s *policies) {
			var want rollout.Counters
			for i := range 3 {
				c := counters(time.Duration(i+1)*time.Millisecond, i == 1)
				want.Add(c)
				s.ok(s.AddEvidence(s.ctx, []policystore.Evidence{
					{Rollout: "r1", Step: 1, Revision: 8, Counters: c}, {Rollout: "r1", Step: 0, Revision: 8, Counters: c}, {Rollout: "r2", Revision: 8, Counters: c},
				}))
			}
			s.ok(s.second.AddEvidence(s.ctx, []policystore.Evidence{{Rollout: "r1", Step: 1, Revision: 7, Counters: counters(time.Second, false)}}))
			got, err := s.second.Evidence(s.ctx, "r1")
			s.ok(err)
			s.same([]policystore.Evidence{
				{Rollout: "r1", Step: 0, Revision: 8, Counters: want},
				{Rollout: "r1", Step: 1, Revision: 7, Counters: counters(time.Second, false)},
				{Rollout: "r1", Step: 1, Revision: 8, Counters: want},
			}, got, "evidence")
			none, err := s.Evidence(s.ctx, "nope")
			s.ok(err)
			if len(none) > 0 {
				s.Errorf("evidence of an unknown rollout: %+v", none)
			}
		}},
		{"S2 a batch of evidence counts once", func(s *policies) {
			add := func(source string, batch int64, revisions ...int64) {
				var list []policystore.Evidence
				for _, n := range revisions {
					list = append(list, policystore.Evidence{Rollout: "r1", Revision: n, Source: source, Batch: batch, Counters: rollout.Counters{Calls: 1}})
				}
				s.ok(s.AddEvidence(s.ctx, list))
				s.ok(s.second.AddEvidence(s.ctx, list)) // the answer was lost
			}
			add("server-1", 1, 7, 8)
			add("server-2", 1, 7)
			add("server-1", 2, 8)
			add("server-1", 3, 7)
			add("server-1", 2, 7) // overtaken
			add("", 0, 8)
			got, err := s.Evidence(s.ctx, "r1")
			s.ok(err)
			s.same([]policystore.Evidence{
				{Rollout: "r1", Revision: 7, Counters: rollout.Counters{Calls: 3}}, {Rollout: "r1", Revision: 8, Counters: rollout.Counters{Calls: 4}},
			}, got, "evidence")
		}},
		{"S2 no evidence is lost between servers", func(s *policies) {
			atOnce(8, func(i int) {
				for range 10 {
					list := []policystore.Evidence{{Rollout: "r1", Revision: 7, Counters: rollout.Counters{Calls: 1}}, {Rollout: "r1", Revision: 8, Counters: rollout.Counters{Calls: 1}}}
					if i%3 == 0 {
						slices.Reverse(list)
					}
					s.report("AddEvidence", s.handle(i).AddEvidence(s.ctx, list))
				}
			})
			got, err := s.Evidence(s.ctx, "r1")
			s.ok(err)
			for _, e := range got {
				if e.Counters.Calls != 80 {
					s.Errorf("revision %d: %d calls, want 80", e.Revision, e.Counters.Calls)
				}
			}
		}},
		{"S9 one server at a time leads a task", func(s *policies) {
			var leaders atomic.Int64
			atOnce(10, func(i int) {
				ok, err := s.second.Lead(s.ctx, "rollouts", fmt.Sprintf("server-%d", i), time.Hour)
				s.report("Lead", err)
				if ok {
					leaders.Add(1)
				}
			})
			same(s, "leaders", leaders.Load(), 1)
		}},
		{"S9 a leader stays until its time ends, and another follows", func(s *policies) {
			lead := func(server, task string, ttl time.Duration) bool {
				ok, err := s.Lead(s.ctx, task, server, ttl)
				s.ok(err)
				return ok
			}
			for range 2 {
				if !lead("a", "rollouts", time.Hour) || lead("b", "rollouts", time.Hour) {
					s.Error("the leader does not stay alone")
				}
			}
			if !lead("b", "redrives", time.Hour) {
				s.Error("tasks are not led by themselves")
			}
			if !lead("a", "rollouts", time.Microsecond) {
				s.Error("the leader cannot shorten its time")
			}
			for end := time.Now().Add(30 * time.Second); !lead("b", "rollouts", time.Hour); { // the store's clock may be coarse
				if time.Now().After(end) {
					s.Fatal("nobody follows a leader whose time has ended")
				}
			}
		}},
	}
}
