package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

// orderCases checks which jobs a claim takes, and in which order.
func orderCases() []jobsCase {
	return []jobsCase{
		{name: "J10/jobs are claimed by priority, then run_at, then ID", run: func(s *jobs) {
			now := s.clock()
			var list []job.Insert
			for _, priority := range []int{9, 0, 5, 1, 0} {
				for _, ago := range []time.Duration{time.Minute, 3 * time.Minute, time.Minute, 2 * time.Minute} {
					list = append(list, job.Insert{Priority: priority, RunAt: now.Add(-ago)})
				}
			}
			s.enqueue(list...)
			want := s.list(job.Filter{Queue: queue})
			sortToClaim(want)
			var got []*job.Record
			for _, n := range []int{1, 1, 1, 5, 7, 100} {
				got = append(got, s.lease(queue, n, long)...)
			}
			s.these(got, namesOf(want)...)
		}},
		{name: "J10/jobs of one call are claimed in the order of their IDs", run: func(s *jobs) {
			want := idsOf(s.enqueue(make([]job.Insert, 50)...))
			s.claimed(want...)
		}},
		{name: "J10/a due retry is not starved by fresh work of its priority", run: func(s *jobs) {
			retried := s.attempt(job.Insert{Priority: 3}, job.KindRetry, fails("x", s.short))
			early := s.add(job.Insert{Priority: 3})
			s.lapse(s.short)
			late := s.add(job.Insert{Priority: 3})
			urgent := s.add(job.Insert{Priority: 2})
			s.maintain()
			s.claimed(urgent, early, retried.ID, late)
		}},
		{name: "J10/a released job goes behind what was ready before", run: func(s *jobs) {
			released := s.start(job.Insert{}, long)
			waiting := s.add(job.Insert{})
			s.lapse(time.Millisecond)
			s.must(s.settle(released.Ref(), job.KindRelease), nil)
			s.claimed(waiting, released.ID)
		}},
		{name: "J8/a claim takes no more than the free slots of each queue", run: func(s *jobs) {
			for range 5 {
				s.enqueue(job.Insert{Queue: "a"}, job.Insert{Queue: "b"}, job.Insert{Queue: "c"})
			}
			slots := []job.Slots{{Queue: "a", Free: 2}, {Queue: "b", Free: 0}, {Queue: "c", Free: 9}, {Queue: "none", Free: 3}}
			list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: slots, Lease: long})
			s.must(err, nil)
			got := map[string]int{}
			for _, r := range list {
				got[r.Queue]++
			}
			noDiff(s, "claimed by queue", cmp.Diff(map[string]int{"a": 2, "c": 5}, got))
		}},
		{name: "J8/a claim of nothing takes nothing", run: func(s *jobs) {
			s.add(job.Insert{})
			for _, slots := range [][]job.Slots{nil, {{Queue: queue, Free: 0}}, {{Queue: queue, Free: -1}}, {{Queue: "other", Free: 5}}} {
				list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: slots, Lease: long})
				if err != nil || len(list) != 0 {
					s.Errorf("claim of %v: %d jobs, %v", slots, len(list), err)
				}
			}
		}},
		{name: "J8/a claim takes only jobs of the types that it names", run: func(s *jobs) {
			left, right := s.add(job.Insert{Type: "a", Priority: 1}), s.add(job.Insert{Type: "c", Priority: 0})
			foreign := s.add(job.Insert{Type: "b", Priority: 0})
			s.unchanged(foreign, func() {
				s.these(s.leaseTypes(5, "none", "c", "a"), right, left)
				s.these(s.leaseTypes(5, "none", "c", "a"))
			})
			s.these(s.leaseTypes(5, "b"), foreign)
		}},
		{name: "J8/a job keeps its type on its way through the states", run: func(s *jobs) {
			id := s.add(job.Insert{Type: "a"})
			s.add(job.Insert{Type: "b"})
			takes := func() *job.Record {
				s.Helper()
				r := s.these(s.leaseTypes(5, "a"), id)[0]
				same(s, "the type claimed", r.Type, "a")
				return r
			}
			s.must(s.settle(takes().Ref(), job.KindRelease), nil)
			s.must(s.settle(takes().Ref(), job.KindRetry, fails("x", s.short)), nil)
			s.lapse(s.short)
			s.must(s.settle(takes().Ref(), job.KindComplete), nil)
			s.change(job.ActionRetry, job.Filter{IDs: []string{id}}, 1)
			lost := s.leaseTypes(5, "a")
			s.must(s.settle(lost[0].Ref(), job.KindDead, fails("x", 0)), nil)
			s.change(job.ActionRetry, job.Filter{IDs: []string{id}}, 1)
			r := takes()
			s.must(s.extend(r.Ref(), s.short), nil)
			s.maintainAfter(s.short)
			takes()
		}},
		{name: "J10/jobs of many types are claimed in one order", run: func(s *jobs) {
			now := s.clock()
			var list []job.Insert
			var types []string
			for i := range 230 {
				types = append(types, fmt.Sprint("type ", i))
				for n := range 2 {
					list = append(list, job.Insert{Type: types[i], Priority: i * 7 % 3, RunAt: now.Add(-time.Duration(i*31%97+n*50) * time.Second)})
				}
			}
			s.enqueue(list...)
			foreign := s.add(job.Insert{Type: "foreign"})
			want := slices.DeleteFunc(s.list(job.Filter{Queue: queue}), func(r *job.Record) bool { return r.ID == foreign })
			sortToClaim(want)
			slices.Reverse(types)
			var got []*job.Record
			for _, n := range []int{1, 9, 150, 1000} {
				got = append(got, s.leaseTypes(n, types...)...)
			}
			s.these(got, namesOf(want)...)
		}},
		{name: "J10/a due job is claimed before maintenance has made it ready", run: func(s *jobs) {
			scheduled := s.add(job.Insert{RunAt: s.clock().Add(s.short)})
			retried := s.attempt(job.Insert{Type: "u"}, job.KindRetry, fails("x", s.short))
			s.almostElapse(s.short)
			s.claimed()
			s.lapse(s.short)
			s.these(s.leaseTypes(5, "u"), retried.ID)
			s.claimed(scheduled)
		}},
		{name: "J10/in each queue a claim goes by priority", run: func(s *jobs) {
			low, high := s.add(job.Insert{Queue: "a", Priority: 9}), s.add(job.Insert{Queue: "b", Priority: 0})
			next := s.add(job.Insert{Queue: "a", Priority: 8})
			list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "a", Free: 2}, {Queue: "b", Free: 2}}, Lease: long})
			s.must(err, nil)
			byQueue := map[string][]string{}
			for _, r := range list {
				byQueue[r.Queue] = append(byQueue[r.Queue], r.ID)
			}
			noDiff(s, "claimed", cmp.Diff(map[string][]string{"a": {next, low}, "b": {high}}, byQueue))
		}},
		{name: "J13/a paused queue is not claimed until it is resumed", run: func(s *jobs) {
			id := s.add(job.Insert{})
			other := s.add(job.Insert{Queue: "other"})
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true, Reason: "it's \"broken\"\x00", Actor: "token:ops\x00"}), nil)
			list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}, {Queue: "other", Free: 1}}, Lease: long})
			if err != nil || !slices.Equal(namesOf(list), []string{other}) {
				s.Fatalf("claimed %v, %v", namesOf(list), err)
			}
			queues, err := s.Queues(s.ctx)
			if err != nil || len(queues) != 1 || !queues[0].Paused || queues[0].Queue != queue || queues[0].Reason != job.CleanText("it's \"broken\"\x00") || queues[0].Actor != job.CleanText("token:ops\x00") || !queues[0].Until.IsZero() {
				s.Fatalf("queues: %+v, %v", queues, err)
			}
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue}), nil)
			s.claimed(id)
			if queues, err = s.Queues(s.ctx); err != nil || len(queues) != 1 || queues[0].Paused || queues[0].Actor != "" {
				s.Fatalf("queues after the pause: %+v, %v", queues, err)
			}
		}},
		{name: "J13/a queue whose name no job can have is refused", run: func(s *jobs) {
			for _, name := range []string{"", "a\x00", "a\xff", strings.Repeat("q", 129)} {
				err := s.SetQueue(s.ctx, job.QueueState{Queue: name, Paused: true})
				if refused, ok := errors.AsType[*job.SettingError](err); !ok || refused.Field != "queue" {
					s.Errorf("%.10q: %v", name, err)
				}
			}
			if queues, err := s.Queues(s.ctx); err != nil || len(queues) > 0 {
				s.Errorf("queues: %+v, %v", queues, err)
			}
		}},
		{name: "J13/a pause until a year that JSON cannot hold is refused", run: func(s *jobs) {
			for _, until := range []time.Time{time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)} {
				err := s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true, Until: until})
				if refused, ok := errors.AsType[*job.SettingError](err); !ok || refused.Field != "until" {
					s.Errorf("%s: %v", until, err)
				}
			}
		}},
		{name: "J13/a pause with an end resumes by itself", run: func(s *jobs) {
			s.add(job.Insert{})
			until := s.clock().Add(s.short)
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true, Until: until}), nil)
			s.almostElapse(s.short)
			s.claimed()
			queues, err := s.Queues(s.ctx)
			if err != nil || len(queues) != 1 || !queues[0].Until.Equal(until) {
				s.Fatalf("queues: %+v, %v", queues, err)
			}
			s.lapse(s.short)
			s.take(long)
		}},
		{name: "J13/a running job of a paused queue continues", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true}), nil)
			s.must(s.extend(r.Ref(), long), nil)
			s.must(s.settle(r.Ref(), job.KindComplete), nil)
		}},
	}
}
