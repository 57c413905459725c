package storetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

// watch returns the events after a position.
func (s *jobs) watch(r job.Relay, after int64, limit int) (list []job.Event, last int64) {
	s.Helper()
	list, last, err := r.Watch(s.ctx, after, limit)
	s.need("Watch", err)
	return list, last
}

func eventCases() []jobsCase {
	event := func(n int) job.Event {
		return job.Event{
			Time: time.Date(2026, 3, 2, 8, 0, 0, n*1000, time.UTC), ID: newID(), Type: "t", Queue: "q\x00ü", From: job.Running, To: job.Dead, Reason: "error",
			Attempts: n, Error: "down\x00", Worker: "w", Meta: map[string]string{"tenant": "a\x00b"}, Lost: int64(n),
		}
	}
	return []jobsCase{
		{name: "J24/events are read in order under positions without gaps, as they were published", run: func(s *jobs) {
			r := optional[job.Relay](s, s.Store)
			var want []job.Event
			for _, n := range []int{1, 2, 0, 3} { // events at a time
				var list []job.Event
				for i := range n {
					list = append(list, event(i))
				}
				s.must(r.Publish(s.ctx, list), nil)
				want = append(want, list...)
			}
			for i := range want {
				want[i].Position = int64(i + 1)
			}
			all, last := s.watch(r, 0, 100)
			if diff := cmp.Diff(want, all); diff != "" || last != 6 {
				s.Errorf("the last is %d; events:\n%s", last, diff)
			}
			some, _ := s.watch(r, 2, 3)
			noDiff(s, "a page of events", cmp.Diff(want[2:5], some))
			if list, last := s.watch(r, -1, 100); len(list) != 0 || last != 6 {
				s.Errorf("from the end: %d events, the last is %d", len(list), last)
			}
			if list, last := s.watch(r, 7, 100); len(list) != 0 || last != 6 {
				s.Errorf("beyond the end: %d events, the last is %d", len(list), last)
			}
		}},
		{name: "J1/the store keeps and returns copies of events", run: func(s *jobs) {
			r := optional[job.Relay](s, s.Store)
			e := event(1)
			s.must(r.Publish(s.ctx, []job.Event{e}), nil)
			for range 2 {
				e.Meta["tenant"] = "changed"
				list, _ := s.watch(r, 0, 1)
				if len(list) != 1 || list[0].Meta["tenant"] != "a\x00b" {
					s.Fatalf("events: %+v", list)
				}
				e = list[0]
			}
		}},
		{name: "J24/a store is watched for a minute after a look", run: func(s *jobs) {
			r := optional[job.Relay](s, s.Store)
			watched := func(want bool) {
				s.Helper()
				if got, err := r.Watched(s.ctx); err != nil || got != want {
					s.Errorf("watched: %v, want %v (%v)", got, want, err)
				}
			}
			watched(false)
			s.watch(r, -1, 1)
			watched(true)
			if !s.virtual {
				return // the clock of the test is a real one
			}
			time.Sleep(job.WatchFor - time.Second)
			watched(true)
			s.watch(r, 0, 1)
			time.Sleep(job.WatchFor - time.Second)
			watched(true)
			time.Sleep(time.Second)
			watched(false)
		}},
		{name: "J24/concurrent publishers of two handles leave no gap for a reader", real: true, run: func(s *jobs) {
			s.second(func(other *jobs) {
				handles := []job.Relay{optional[job.Relay](s, s.Store), optional[job.Relay](s, other.Store)}
				const publishers, lists, size = 4, 10, 5
				var all sync.WaitGroup
				ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
				defer cancel()
				for i := range publishers {
					all.Go(func() {
						for n := range lists {
							list := make([]job.Event, size)
							for k := range list {
								list[k] = job.Event{ID: strconv.Itoa(i), Attempts: n*size + k}
							}
							s.report("Publish", handles[i%2].Publish(ctx, list))
						}
					})
				}
				seen, done := map[string]int{}, 0
				err := job.Watch(ctx, handles[1], job.WatchOptions{}, func(e job.Event) error {
					if e.Lost != 0 || e.Attempts != seen[e.ID] {
						s.Errorf("event %d of publisher %s, %d lost; want event %d", e.Attempts, e.ID, e.Lost, seen[e.ID])
					}
					seen[e.ID]++
					if done++; done == publishers*lists*size {
						cancel()
					}
					return nil
				})
				all.Wait()
				if done != publishers*lists*size {
					s.Errorf("read %d events: %v", done, err)
				}
			})
		}},
		{name: "J24/the oldest events go, and a reader that is behind counts them as lost", real: true, run: func(s *jobs) {
			r := optional[job.Relay](s, s.Store)
			list := make([]job.Event, job.EventsKept/4+1)
			for i := range list {
				list[i].ID = "x"
			}
			for range 4 {
				s.must(r.Publish(s.ctx, list), nil)
			}
			kept, last := s.watch(r, 0, 1)
			if want := int64(4*len(list) - job.EventsKept + 1); len(kept) != 1 || kept[0].Position != want || last != int64(4*len(list)) {
				s.Errorf("the first is %+v, want position %d; the last is %d", kept, want, last)
			}
			stop := errors.New("stop")
			_ = job.Watch(s.ctx, r, job.WatchOptions{After: 1}, func(e job.Event) error {
				same(s, "events lost", e.Lost, kept[0].Position-2)
				return stop
			})
		}},
	}
}
