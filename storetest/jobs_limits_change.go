package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func limitChangeCases() []jobsCase {
	one := job.LimitName{Queue: queue, Name: "one"}
	return []jobsCase{
		{name: "J19/a job that waits for one limit takes a place of a new one too", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			s.enqueue(job.Insert{Type: "u", Priority: 1}) // ready
			s.enqueue(job.Insert{Type: "u"})              // waits, and comes first when places are given anew
			s.enqueue(job.Insert{Queue: "free"})          // a store that goes through its jobs by ID has passed the one that waits
			s.set(job.LimitName{Type: "u", Name: "typed"}, policy.JobLimit{Concurrency: 1})
			s.enqueue(job.Insert{Queue: "other", Type: "u"}) // knows only the new one
			s.settled()
			same(s, "ready jobs of a type whose limit is 1", len(s.list(job.Filter{Type: "u", States: []job.State{job.Ready}})), 1)
		}},
		{name: "J19/a job that waits for one limit and gets another leaves its line", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			// The first gives its place up for a moment when it needs one of the new limit too. The second is next, then the third.
			s.enqueue(job.Insert{Type: "u", Priority: 1})
			s.enqueue(job.Insert{Type: "u"}, job.Insert{Priority: 2})
			s.set(job.LimitName{Type: "u", Name: "typed"}, policy.JobLimit{Concurrency: 5})
			s.settled()
			same(s, "ready jobs", len(s.list(job.Filter{Queue: queue, States: []job.State{job.Ready}})), 1)
			s.used("one", 1, 2)
			for range 3 {
				done := s.claims(queue, 1)
				s.must(s.settle(done[0].Ref(), job.KindComplete), nil)
			}
		}},
		{name: "J19/jobs that ran when a strict limit came have its one place between them", run: func(s *jobs) {
			both := []*job.Record{s.start(job.Insert{}, long), s.start(job.Insert{}, long)}
			s.limit(policy.JobLimit{Name: "strict", Concurrency: 1, Order: policy.OrderStrict})
			s.must(s.settle(both[0].Ref(), job.KindRetry, fails("e", 0)), nil)
			s.claimed()
			s.must(s.settle(both[1].Ref(), job.KindComplete), nil)
			s.claimed(both[0].ID)
			s.used("strict", 1, 0)
		}},
		{name: "J19/two strict limits that come while jobs run do not block each other", run: func(s *jobs) {
			strict := func(name string) policy.JobLimit {
				return policy.JobLimit{Name: name, Concurrency: 1, Order: policy.OrderStrict}
			}
			x, y := s.start(job.Insert{}, long), s.start(job.Insert{}, long)
			s.limit(strict("one"))
			s.must(s.settle(y.Ref(), job.KindRetry, fails("y", s.short)), nil) // keeps its place in one
			s.limit(strict("two"))
			s.must(s.settle(x.Ref(), job.KindRetry, fails("x", 0)), nil) // would keep its place in two
			s.lapse(s.short)
			s.settled()
			for range 2 {
				list := s.lease(queue, 10, long)
				if len(list) != 1 {
					s.Fatalf("claimed %d jobs, want 1; %q, %q", len(list), s.record(x.ID).WaitsFor, s.record(y.ID).WaitsFor)
				}
				s.must(s.settle(list[0].Ref(), job.KindComplete), nil)
			}
		}},
		{name: "J19/a rate that becomes higher holds at once", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 1, Per: time.Hour, Burst: 5}})
			s.enqueue(make([]job.Insert, 30)...)
			for _, r := range s.lease(queue, 100, long) {
				s.must(s.settle(r.Ref(), job.KindComplete), nil)
			}
			s.settled()
			s.limit(policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 1000, Per: time.Second, Burst: 5}})
			n := 0
			for range 3 {
				s.lapse(s.short)
				s.settled()
				n += len(s.lease(queue, 100, long))
			}
			if n < 10 {
				s.Fatalf("%d jobs started after the change, want 10 at least", n)
			}
		}},
		{name: "J19/numbers change at once, in both directions", run: func(s *jobs) {
			s.limit(perTenant(1))
			s.enqueue(of("a"), of("a"), of("a"), of("a"), of("b"), of("b"))
			s.claims(queue, 2)
			s.limit(perTenant(3))
			more := s.claims(queue, 3)
			s.limit(perTenant(1))
			for _, r := range more[:2] {
				s.must(s.settle(r.Ref(), job.KindComplete), nil)
				if r.Meta["tenant"] == "a" {
					s.claimed()
				}
			}
		}},
		{name: "J19/a lower number bounds the jobs that are ready", run: func(s *jobs) {
			hourly := func(n int) policy.Rate { return policy.Rate{Count: n, Per: time.Hour, Burst: n} }
			for i, l := range [][2]policy.JobLimit{
				{{Concurrency: 5}, {Concurrency: 2}}, {{Rate: hourly(5)}, {Rate: hourly(2)}}, {{Rate: hourly(5)}, {Rate: hourly(5), Concurrency: 2}},
			} {
				name := job.LimitName{Queue: fmt.Sprint("lower ", i), Name: "one"}
				for _, l := range l {
					s.set(name, l)
					s.settled()
					s.enqueue(job.Insert{Queue: name.Queue}, job.Insert{Queue: name.Queue}, job.Insert{Queue: name.Queue})
				}
				s.claims(name.Queue, 2)
			}
		}},
		{name: "J19/a new limit bounds the jobs that are there", run: func(s *jobs) {
			s.enqueue(make([]job.Insert, 6)...)
			running := s.lease(queue, 3, long)
			s.limit(policy.JobLimit{Name: "one", Concurrency: 2})
			s.used("one", 3, 3)
			s.claimed()
			s.must(s.settle(running[0].Ref(), job.KindComplete), nil)
			s.claimed()
			s.must(s.settle(running[1].Ref(), job.KindComplete), nil)
			s.claims(queue, 1)
		}},
		{name: "J19/jobs that end while their limit changes give their places back", run: func(s *jobs) {
			for round := range 10 {
				s.limit(policy.JobLimit{Name: "one", Concurrency: 10})
				s.enqueue(make([]job.Insert, 10)...)
				running := s.lease(queue, 100, long)
				atOnce(len(running)+5, func(i int) {
					var err error
					if i < len(running) {
						err = errors.Join(s.Settle(s.ctx, []job.Settlement{{Ref: running[i].Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess}})...)
					} else { // at once with the settlements, also in one transaction where a store commits groups
						l := policy.JobLimit{Name: "one", Concurrency: i - len(running) + 1}
						err = s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: one, Limit: &l})
					}
					s.report("at once", err)
				})
				if use := s.use("one"); use.Held != 0 {
					s.Fatalf("round %d: nothing runs, but %d places are held", round, use.Held)
				}
			}
		}},
		{name: "J19/without its limit a job goes on", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			s.enqueue(make([]job.Insert, 6)...)
			running := s.take(long)
			s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: one, Off: true}), nil)
			s.settled()
			s.claims(queue, 5)
			s.must(s.settle(running.Ref(), job.KindComplete), nil)
			s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: one}), nil)
			if list, err := s.limiter().Limits(s.ctx); err != nil || len(list) != 0 {
				s.Fatalf("limits: %+v, %v", list, err)
			}
		}},
		{name: "J19/a changed key gives every job its new bucket", run: func(s *jobs) {
			s.limit(perTenant(2))
			both := func(tenant, user string) job.Insert {
				return job.Insert{Meta: map[string]string{"tenant": tenant, "user": user}}
			}
			list := idsOf(s.enqueue(both("a", "1"), both("a", "1"), both("a", "2"), both("b", "1"), both("b", "3")))
			running := s.lease(queue, 1, long) // a, 1
			changed := perTenant(1)
			changed.Key = []string{"meta.user"}
			s.limit(changed)
			s.claimed(list[2], list[4])
			s.must(s.settle(running[0].Ref(), job.KindComplete), nil)
			s.claimed(list[1])
			same(s, "buckets", s.used("per-tenant", 3, 1).Buckets, 3)
		}},
		{name: "J22/an operator's setting stands above the document, and each says where it comes from", run: func(s *jobs) {
			document := []policy.LimitScope{{Queue: queue, Limits: []policy.JobLimit{{Name: "one", Concurrency: 1}, {Name: "two", Concurrency: 2}}}, {Type: "u"}}
			s.must(s.limiter().PublishLimits(s.ctx, document), nil)
			states := func() string {
				s.Helper()
				list, err := s.limiter().Limits(s.ctx)
				s.must(err, nil)
				slices.SortFunc(list, func(a, b job.LimitState) int { return cmp.Compare(a.Name, b.Name) })
				var texts []string
				for _, l := range list {
					text := fmt.Sprint(l.Name, " ", l.Source(), " ")
					if in := l.InForce(); in != nil {
						text += strconv.Itoa(in.Concurrency)
					} else {
						text += "off"
					}
					texts = append(texts, text)
				}
				return strings.Join(texts, ", ")
			}
			check := func(want string) {
				s.Helper()
				same(s, "the states of the limits", states(), want)
			}
			check("one document 1, two document 2")
			s.limit(policy.JobLimit{Name: "one", Concurrency: 7})
			check("one setting 7, two document 2")
			s.must(s.limiter().PublishLimits(s.ctx, document), nil)
			check("one setting 7, two document 2")
			document[0].Limits = document[0].Limits[:1]
			document[0].Limits[0].Concurrency = 3
			s.must(s.limiter().PublishLimits(s.ctx, document), nil)
			check("one setting 7")
			s.must(s.limiter().PublishLimits(s.ctx, []policy.LimitScope{{Queue: "other"}, {Type: queue}}), nil)
			check("one setting 7")
			s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: one, Off: true}), nil)
			check("one setting off")
			s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: one}), nil)
			check("one document 3")
			s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: one}), job.ErrNotFound)
			s.must(s.limiter().PublishLimits(s.ctx, []policy.LimitScope{{Queue: queue}}), nil)
			check("")
		}},
		{name: "J1/the store keeps and returns copies of limits", run: func(s *jobs) {
			limit := perTenant(1)
			s.must(s.limiter().PublishLimits(s.ctx, []policy.LimitScope{{Queue: queue, Limits: []policy.JobLimit{limit}}}), nil)
			s.limit(limit)
			limit.Key[0] = "meta.changed"
			for range 2 {
				list, err := s.limiter().Limits(s.ctx)
				s.must(err, nil)
				for _, l := range []*policy.JobLimit{list[0].Document, list[0].Setting} {
					if l.Concurrency != 1 || l.Key[0] != "meta.tenant" {
						s.Fatalf("limits: %+v", list)
					}
					l.Concurrency, l.Key[0] = 7, "meta.changed"
				}
			}
		}},
		{name: "J19/a limit that another handle sets holds here", run: func(s *jobs) {
			s.enqueue(make([]job.Insert, 2)...)
			s.second(func(other *jobs) { other.limit(policy.JobLimit{Name: "one", Concurrency: 1}) })
			if s.options.Second == nil {
				return
			}
			s.enqueue(make([]job.Insert, 2)...)
			s.claims(queue, 1)
		}},
		{name: "J19/a redrive passes the gate, and can be undone there", run: func(s *jobs) {
			redriver := optional[job.RedriveStepper](s, s.Store)
			dead := idsOf(s.enqueue(make([]job.Insert, 3)...))
			for range dead {
				s.must(s.settle(s.take(long).Ref(), job.KindDead, fails("x", 0)), nil)
			}
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			r, err := redriver.CreateRedrive(s.ctx, job.NewRedrive{ID: newID(), Filter: job.Filter{Queue: queue}})
			s.must(err, nil)
			_, _, err = redriver.StepRedrive(s.ctx, r.ID, 0)
			s.must(err, nil)
			for _, id := range dead {
				s.retried[id] = true
			}
			s.used("one", 1, 2)
			s.must(errorOf(redriver.UpdateRedrive(s.ctx, r.ID, job.RedriveChange{Action: job.RedriveUndo})), nil)
			for range 3 {
				_, _, err = redriver.StepRedrive(s.ctx, r.ID, 0)
				if err != nil && !errors.Is(err, job.ErrConflict) {
					s.Fatal(err)
				}
			}
			for _, id := range dead {
				s.in(id, job.Dead)
			}
			s.used("one", 0, 0)
		}},
	}
}
