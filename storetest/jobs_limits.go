package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// limitCases checks limits of queues and types. They are skipped in a store without them.
func limitCases() []jobsCase {
	return slices.Concat(placeCases(), strictCases(), rateCases(), limitKeyCases(), limitChangeCases(), limitRandomCases())
}

// perTenant is a limit of "q" by tenant.
func perTenant(concurrency int) policy.JobLimit {
	return policy.JobLimit{Name: "per-tenant", Key: []string{"meta.tenant"}, Concurrency: concurrency}
}

func of(tenant string) job.Insert { return job.Insert{Meta: map[string]string{"tenant": tenant}} }

func (s *jobs) limiter() job.Limiter {
	s.Helper()
	return optional[job.Limiter](s, s.Store)
}

// set sets a limit.
func (s *jobs) set(name job.LimitName, l policy.JobLimit) {
	s.Helper()
	s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: name, Limit: &l}), nil)
}

// limit sets limits of "q".
func (s *jobs) limit(limits ...policy.JobLimit) {
	s.Helper()
	for _, l := range limits {
		s.set(job.LimitName{Queue: queue, Name: l.Name}, l)
	}
	s.settled()
}

// settled does what maintenance has left to do.
func (s *jobs) settled() {
	s.Helper()
	for range 100 {
		if done := s.maintain(); !done.More {
			return
		}
	}
	s.Fatal("maintenance does not end")
}

// used fails the case unless a limit of "q" has so many places in use and so many jobs waiting.
func (s *jobs) used(name string, held, waiting int) job.LimitUse {
	s.Helper()
	use := s.use(name)
	if use.Held != held || use.Waiting != waiting {
		s.Fatalf("use of %s: %+v, want %d held, %d waiting", name, use, held, waiting)
	}
	return use
}

// use returns the use of a limit of "q".
func (s *jobs) use(name string) job.LimitUse {
	s.Helper()
	use, err := s.limiter().LimitUse(s.ctx, job.LimitName{Queue: queue, Name: name}, 10)
	s.must(err, nil)
	return use
}

func placeCases() []jobsCase {
	return []jobsCase{
		{name: "J19/no more jobs of a key than its concurrency hold leases", run: func(s *jobs) {
			s.limit(perTenant(2))
			a := idsOf(s.enqueue(of("acme"), of("acme"), of("acme")))
			b := idsOf(s.enqueue(of("beta"), of("beta"), of("beta")))
			first := s.claimed(a[0], a[1], b[0], b[1])
			waits := s.in(a[2], job.Waiting)
			same(s, "what the job waits for", waits.WaitsFor, "limit per-tenant of queue q, meta.tenant:acme")
			s.claimed()
			s.must(s.settle(first[2].Ref(), job.KindComplete), nil)
			s.claimed(b[2])
			s.in(a[2], job.Waiting)
			s.must(s.settle(first[0].Ref(), job.KindComplete), nil)
			same(s, "what a ready job waits for", s.in(a[2], job.Ready).WaitsFor, "")
			s.claimed(a[2])
		}},
		{name: "J19/jobs of other queues and types pass", run: func(s *jobs) {
			s.limit(perTenant(1))
			s.set(job.LimitName{Type: "u", Name: "one"}, policy.JobLimit{Concurrency: 1})
			s.enqueue(of("acme"), of("acme"))
			for range 3 {
				s.add(job.Insert{Queue: "other"})
				s.add(job.Insert{Queue: "more", Type: "u"})
			}
			s.claims("other", 3)
			s.claims("more", 1)
		}},
		{name: "J19/whatever ends or delays an attempt frees its place", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			for _, kind := range kinds() {
				held := s.start(job.Insert{}, long)
				next := s.add(job.Insert{})
				s.claimed()
				s.lapse(time.Millisecond)
				s.must(s.settle(held.Ref(), kind, func(x *job.Settlement) { x.Delay = long }), nil)
				if kind == job.KindRelease { // due again at once, behind the other
					s.in(held.ID, job.Waiting)
				}
				r := s.claimed(next)[0]
				s.must(s.settle(r.Ref(), job.KindComplete), nil)
				if kind == job.KindRelease {
					s.must(s.settle(s.claimed(held.ID)[0].Ref(), job.KindComplete), nil)
				}
			}
			s.used("one", 0, 0)
		}},
		{name: "J19/a lost lease frees its place when it is taken back, not before", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			lost := s.start(job.Insert{MaxAttempts: 1}, s.short)
			next := s.add(job.Insert{})
			s.lapse(s.short)
			s.claimed()
			same(s, "jobs reclaimed", s.maintain().Reclaimed, 1)
			s.in(lost.ID, job.Dead)
			s.claimed(next)
		}},
		{name: "J19/others pass a job that waits for its retry, which then waits for a place", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			retried := s.attempt(job.Insert{}, job.KindRetry, fails("x", s.short))
			other := s.start(job.Insert{}, long)
			s.maintainAfter(s.short)
			s.in(retried.ID, job.Waiting)
			s.must(s.settle(other.Ref(), job.KindComplete), nil)
			same(s, "failures", s.claimed(retried.ID)[0].Failures, 1)
		}},
		{name: "J19/waiting jobs go on by priority, then run_at, then ID", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			now := s.clock()
			held := s.start(job.Insert{}, long)
			low := s.add(job.Insert{Priority: 5})
			late := s.add(job.Insert{Priority: 1})
			early := s.add(job.Insert{Priority: 1, RunAt: now.Add(-time.Minute)})
			for _, want := range []string{early, late, low} {
				s.must(s.settle(held.Ref(), job.KindComplete), nil)
				held = s.claimed(want)[0]
			}
		}},
		{name: "J19/operators' actions free places and leave lines", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			list := idsOf(s.enqueue(make([]job.Insert, 7)...))
			s.in(list[0], job.Ready)
			s.change(job.ActionCancel, job.Filter{IDs: list[:1]}, 1) // ready
			s.in(list[1], job.Ready)
			s.change(job.ActionDelete, job.Filter{IDs: list[1:2]}, 1)
			s.in(list[2], job.Ready)
			s.change(job.ActionCancel, job.Filter{IDs: list[3:4]}, 1) // waiting
			s.change(job.ActionDelete, job.Filter{IDs: list[4:5]}, 1)
			s.used("one", 1, 2)
			s.change(job.ActionRetry, job.Filter{IDs: list[:1]}, 1)
			s.in(list[0], job.Waiting)
			s.change(job.ActionRetry, job.Filter{IDs: list[2:3]}, 1) // ready already
			for range 4 {
				got := s.claims(queue, 1)
				s.change(job.ActionCancel, job.Filter{IDs: namesOf(got)}, 1)
				s.must(s.settle(got[0].Ref(), job.KindCancel), nil)
			}
			same(s, "buckets in use", len(s.used("one", 0, 0).Fullest), 0)
		}},
		{name: "J19/a job of two limits takes a place in both or in none", run: func(s *jobs) {
			s.limit(perTenant(1), policy.JobLimit{Name: "all", Concurrency: 2})
			s.set(job.LimitName{Type: "u", Name: "one"}, policy.JobLimit{Concurrency: 1})
			a := s.add(of("acme"))
			b := idsOf(s.enqueue(of("acme"), of("acme")))
			u := s.add(job.Insert{Type: "u", Meta: map[string]string{"tenant": "beta"}})
			v := s.add(job.Insert{Type: "u", Meta: map[string]string{"tenant": "gamma"}})
			c := s.add(of("delta"))
			got := s.claimed(a, u) // 2 of 2: the rest has no place, although beta, gamma and delta have one each
			for _, id := range []string{b[0], b[1], v, c} {
				s.in(id, job.Waiting)
			}
			s.must(s.settle(got[0].Ref(), job.KindComplete), nil)
			got = append(got, s.claimed(b[0])...)
			s.must(s.settle(got[2].Ref(), job.KindComplete), nil)
			next := s.claimed(b[1])[0]
			s.must(s.settle(next.Ref(), job.KindComplete), nil)
			s.claimed(c) // v waits for the type
			s.must(s.settle(got[1].Ref(), job.KindComplete), nil)
			s.claimed(v)
			s.used("all", 2, 0)
		}},
		{name: "J19/a paused queue keeps the places of its ready jobs", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "one", Concurrency: 1})
			first := s.add(job.Insert{})
			second := s.add(job.Insert{})
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true}), nil)
			s.claimed()
			s.in(first, job.Ready)
			s.in(second, job.Waiting)
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue}), nil)
			s.claimed(first)
		}},
	}
}

func strictCases() []jobsCase {
	strict := policy.JobLimit{Name: "in-order", Key: []string{"meta.tenant"}, Concurrency: 1, Order: policy.OrderStrict}
	return []jobsCase{
		{name: "J19/a strict order holds beside another limit", run: func(s *jobs) {
			s.limit(strict)
			s.set(job.LimitName{Type: "u", Name: "other"}, policy.JobLimit{Concurrency: 1})
			s.settled()
			holder := s.add(job.Insert{Type: "u", Queue: "elsewhere"})
			first := of("acme")
			first.Type = "u"
			ids := []string{s.add(first), s.add(of("acme"))}
			s.claimed()
			held := s.these(s.lease("elsewhere", 1, long), holder)[0]
			s.must(s.settle(held.Ref(), job.KindComplete), nil)
			for _, id := range ids {
				s.must(s.settle(s.claimed(id)[0].Ref(), job.KindComplete), nil)
			}
			s.used(strict.Name, 0, 0)
		}},
		{name: "J19/a job that is cancelled gives up the strict place that it held while it waited for another", run: func(s *jobs) {
			s.limit(strict)
			s.set(job.LimitName{Type: "u", Name: "other"}, policy.JobLimit{Concurrency: 1})
			s.settled()
			s.add(job.Insert{Type: "u", Queue: "elsewhere"})
			for _, action := range []job.Action{job.ActionCancel, job.ActionDelete} {
				first := of("acme")
				first.Type = "u"
				id, next := s.add(first), s.add(of("acme"))
				s.in(id, job.Waiting)
				s.change(action, job.Filter{IDs: []string{id}}, 1)
				s.must(s.settle(s.claimed(next)[0].Ref(), job.KindComplete), nil)
			}
			s.used(strict.Name, 0, 0)
		}},
		{name: "J19/a strict order holds through retries, snoozes, refusals, releases and lost leases", run: func(s *jobs) {
			s.limit(strict)
			first, second := s.add(of("acme")), s.add(of("acme"))
			other := s.add(of("beta"))
			r := s.claimed(first, other)[0]
			for _, kind := range []job.Kind{job.KindRetry, job.KindSnooze, job.KindRefuse} {
				s.must(s.settle(r.Ref(), kind, func(x *job.Settlement) { x.Delay, x.Error = s.short, "x" }), nil)
				s.claimed()
				s.in(second, job.Waiting)
				s.in(first, job.Scheduled)
				s.maintainAfter(s.short)
				r = s.claimed(first)[0]
			}
			s.must(s.settle(r.Ref(), job.KindRelease), nil)
			s.in(first, job.Ready)
			s.must(s.extend(s.claimed(first)[0].Ref(), s.short), nil)
			s.maintainAfter(s.short)
			r = s.claimed(first)[0]
			s.must(s.settle(r.Ref(), job.KindComplete), nil)
			s.claimed(second)
		}},
		{name: "J19/a strict order is that of enqueueing, whatever the priority", run: func(s *jobs) {
			s.limit(strict)
			var want []string
			for priority := range 5 {
				in := of("acme")
				in.Priority = 9 - priority
				want = append(want, s.add(in))
				s.lapse(time.Millisecond)
			}
			for _, id := range want {
				s.must(s.settle(s.claimed(id)[0].Ref(), job.KindComplete), nil)
			}
		}},
		{name: "J19/a job that has kept its place gives it up when it is cancelled or deleted", run: func(s *jobs) {
			s.limit(strict)
			list := idsOf(s.enqueue(of("acme"), of("acme"), of("acme"), of("acme")))
			for i, action := range []job.Action{job.ActionCancel, job.ActionDelete} {
				s.must(s.settle(s.claimed(list[i])[0].Ref(), job.KindRetry, fails("x", long)), nil)
				s.in(list[i+1], job.Waiting)
				s.change(action, job.Filter{IDs: list[i : i+1]}, 1)
			}
			s.must(s.settle(s.claimed(list[2])[0].Ref(), job.KindDead, fails("x", 0)), nil)
			s.claimed(list[3])
		}},
		{name: "J19/strict order with another concurrency is refused", run: func(s *jobs) {
			l := policy.JobLimit{Name: "x", Concurrency: 2, Order: policy.OrderStrict}
			err := s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: job.LimitName{Queue: queue, Name: "x"}, Limit: &l})
			if err == nil || !strings.Contains(err.Error(), "strict needs concurrency 1, not 2") {
				s.Fatal(err)
			}
		}},
	}
}

func rateCases() []jobsCase {
	return []jobsCase{
		{name: "J19/no period has more starts than count and burst", run: func(s *jobs) {
			per := 4 * s.short
			rate := policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 4, Per: per, Burst: 2}}
			s.limit(rate)
			s.enqueue(make([]job.Insert, 20)...)
			var starts []time.Time
			take := func() {
				for _, r := range s.lease(queue, 100, long) {
					starts = append(starts, r.ClaimedAt)
					s.must(s.settle(r.Ref(), job.KindComplete), nil)
				}
			}
			take()
			same(s, "starts at once, in a burst of 2", len(starts), 2)
			take()
			if done := s.maintain(); len(starts) != 2 || done.NextDue.IsZero() || done.NextDue.Sub(done.Now) > s.short {
				s.Fatalf("%d starts, next due %v after %v, want in %v", len(starts), done.NextDue, done.Now, s.short)
			}
			for range 8 {
				s.maintainAfter(s.short)
				take()
			}
			s.lapse(2 * per) // the burst again, and no more
			before := len(starts)
			s.maintain()
			take()
			same(s, "starts after a pause", len(starts)-before, 2)
			s.checkRate(starts, rate.Rate)
			if len(starts) < 10 {
				s.Fatalf("%d starts, want one in each step", len(starts))
			}
		}},
		{name: "J19/places that were not used while a queue was paused do not add up", run: func(s *jobs) {
			per := 4 * s.short
			s.limit(policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 4, Per: per, Burst: 2}})
			s.enqueue(make([]job.Insert, 20)...)
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true}), nil)
			for range 6 {
				s.maintainAfter(s.short)
			}
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue}), nil)
			same(s, "starts after a pause", len(s.lease(queue, 100, long))+len(s.lease(queue, 100, long)), 2)
		}},
		{name: "J19/a place that was not used for a start does not count as one", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 1, Per: time.Hour, Burst: 1}})
			list := idsOf(s.enqueue(make([]job.Insert, 3)...))
			s.change(job.ActionCancel, job.Filter{IDs: list[:1]}, 1)
			s.change(job.ActionDelete, job.Filter{IDs: list[1:2]}, 1)
			s.must(s.settle(s.claimed(list[2])[0].Ref(), job.KindComplete), nil)
			s.add(job.Insert{})
			s.claimed()
		}},
		{name: "J19/retries count as starts", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "rate", Rate: policy.Rate{Count: 1, Per: time.Hour, Burst: 2}})
			r := s.attempt(job.Insert{}, job.KindRetry, fails("x", 0))
			s.must(s.settle(s.claimed(r.ID)[0].Ref(), job.KindRetry, fails("x", 0)), nil)
			s.claimed()
			s.in(r.ID, job.Waiting)
		}},
		{name: "J19/a rate and a strict order hold together", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "both", Concurrency: 1, Order: policy.OrderStrict, Rate: policy.Rate{Count: 1, Per: s.short, Burst: 1}})
			first, second := s.add(job.Insert{}), s.add(job.Insert{})
			s.must(s.settle(s.claimed(first)[0].Ref(), job.KindRetry, fails("x", 0)), nil)
			s.claimed()
			s.maintainAfter(s.short)
			s.must(s.settle(s.claimed(first)[0].Ref(), job.KindComplete), nil)
			s.claimed()
			s.maintainAfter(s.short)
			s.claimed(second)
		}},
	}
}

// checkRate checks that no period holds more starts than count and burst.
func (s *jobs) checkRate(starts []time.Time, rate policy.Rate) {
	s.Helper()
	slices.SortFunc(starts, time.Time.Compare)
	for i := range starts {
		n := 0
		for _, at := range starts[i:] {
			if at.Sub(starts[i]) < rate.Per {
				n++
			}
		}
		if n > rate.Count+rate.Burst {
			s.Errorf("J19: %d starts within %v from %v, the limit is %d and a burst of %d", n, rate.Per, starts[i], rate.Count, rate.Burst)
		}
	}
}

func limitKeyCases() []jobsCase {
	return []jobsCase{
		{name: "J19/keys are made of queue, type, metadata and payload", run: func(s *jobs) {
			s.limit(policy.JobLimit{Name: "x", Key: []string{"queue", "type", "meta.a.b", "payload.user.id", "payload.flag"}, Concurrency: 1})
			body := func(text string) job.Insert { return job.Insert{Payload: []byte(text)} }
			same := [][]job.Insert{
				{body(`{"user":{"id":1},"flag":true}`), body(`{"flag":true,"x":2,"user":{"id": 1}}`)},
				{body(`{"user":{"id":"1"},"flag":false}`), body(`{"user":{"id":1},"flag":false}`)}, // texts and numbers are compared as filters do
				{body(`{"user":{"id":2},"flag":true}`)},
				{body(``), body(`not JSON`), body(`{"user":{"id":[1]}}`), body(`{"user":{"id":null}}`), body(`{"user":{"id":""}}`), {}}, // absent
				{{Type: "u"}, {Type: "u"}},
				{{Meta: map[string]string{"a.b": "1"}}, {Meta: map[string]string{"a.b": "1", "c": "2"}}},
				{{Meta: map[string]string{"a.b": `1" x`}}},
				{{Meta: map[string]string{"a.b": strings.Repeat("long", 300)}}, {Meta: map[string]string{"a.b": strings.Repeat("long", 300)}}},
				{{Meta: map[string]string{"a.b": strings.Repeat("long", 299) + "lont"}}},
				{body(`{"user":{"id":"a\u0000b"}}`), body(`{"user":{"id":"a\u0000b"}}`)},
				{body("{\"user\":{\"id\":\"\xff\"}}"), body("{\"user\":{\"id\":\"\xff\"}}")}, // not UTF-8: no value
			}
			s.enqueue(slices.Concat(same...)...)
			use := s.use("x")
			if want := len(same) - 1; use.Buckets != want || use.Held != want {
				s.Fatalf("%d buckets with %d places, want %d: %+v", use.Buckets, use.Held, want, use.Fullest)
			}
			s.claims(queue, len(same)-1)
		}},
		{name: "J19/limits are checked", run: func(s *jobs) {
			for _, bad := range []job.LimitSetting{
				{LimitName: job.LimitName{Name: "x"}, Off: true},
				{LimitName: job.LimitName{Queue: "q", Type: "t", Name: "x"}, Off: true},
				{LimitName: job.LimitName{Queue: "q", Name: "a b"}, Off: true},
				{LimitName: job.LimitName{Queue: "q", Name: ""}, Off: true},
				{LimitName: job.LimitName{Queue: "q\x00", Name: "x"}, Off: true},
				{LimitName: job.LimitName{Queue: "q", Name: "x"}, Limit: &policy.JobLimit{}},
				{LimitName: job.LimitName{Queue: "q", Name: "x"}, Limit: &policy.JobLimit{Concurrency: 1, Key: []string{"meta"}}},
				{LimitName: job.LimitName{Queue: "q", Name: "x"}, Limit: &policy.JobLimit{Concurrency: 1}, Off: true},
			} {
				if err := s.limiter().SetLimit(s.ctx, bad); err == nil {
					s.Errorf("%+v was stored", bad)
				}
			}
			s.must(s.limiter().SetLimit(s.ctx, job.LimitSetting{LimitName: job.LimitName{Queue: "q", Name: "x"}}), job.ErrNotFound)
			s.must(errorOf(s.limiter().LimitUse(s.ctx, job.LimitName{Queue: "q", Name: "x"}, 1)), job.ErrNotFound)
		}},
		{name: "J19/the fullest buckets are listed first", run: func(s *jobs) {
			s.limit(perTenant(1))
			for n, tenant := range []string{"a", "b", "c"} {
				for range n + 1 {
					s.add(of(tenant))
				}
			}
			use, err := s.limiter().LimitUse(s.ctx, job.LimitName{Queue: queue, Name: "per-tenant"}, 2)
			s.must(err, nil)
			want := []job.BucketUse{{Key: "meta.tenant:c", Held: 1, Waiting: 2}, {Key: "meta.tenant:b", Held: 1, Waiting: 1}}
			if !slices.Equal(use.Fullest, want) || use.Buckets != 3 || use.Held != 3 || use.Waiting != 3 || use.Blocked != 2 {
				s.Fatalf("use: %+v", use)
			}
		}},
	}
}
