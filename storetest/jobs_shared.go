package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/job"
)

// sharedCases checks several workers, handles and processes on the same data. Cases about an optional interface that the store
// does not implement check nothing or are skipped.
func sharedCases() []jobsCase {
	return []jobsCase{
		{name: "J1/another handle sees the same jobs", run: func(s *jobs) {
			s.second(func(other *jobs) {
				id := s.add(job.Insert{UniqueKey: "k"})
				other.duplicate(id, job.Insert{UniqueKey: "k"})
				r := other.take(long)
				same(s, "the job claimed", r.ID, id)
				s.claimed()
				s.must(s.extend(r.Ref(), 2*long), nil)
				s.must(s.settle(r.Ref(), job.KindRetry, fails("x", 0)), nil)
				other.must(other.settle(r.Ref(), job.KindComplete), job.ErrNotRunning)
				other.must(other.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true}), nil)
				s.claimed()
				s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue}), nil)
				if r := other.take(long); r.Fence != 2 || r.Failures != 1 {
					s.Fatalf("claimed %+v", r)
				}
			})
		}},
		{name: "J1/enqueued jobs outlive a handle", run: func(s *jobs) {
			var id string
			s.second(func(other *jobs) { id = other.add(job.Insert{}) })
			if s.options.Second == nil {
				return
			}
			s.in(id, job.Ready)
			s.take(long)
		}},
		{name: "J11/new work is notified", run: func(s *jobs) {
			s.notified(s, func() { s.add(job.Insert{}) })
		}},
		{name: "J11/a retry that is due at once is notified", run: func(s *jobs) {
			id := s.add(job.Insert{RunAt: s.clock().Add(long)})
			s.notified(s, func() { s.change(job.ActionRetry, job.Filter{IDs: []string{id}}, 1) })
		}},
		{name: "J11/a resumed queue is notified", run: func(s *jobs) {
			s.add(job.Insert{})
			s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true}), nil)
			s.notified(s, func() { s.must(s.SetQueue(s.ctx, job.QueueState{Queue: queue}), nil) })
		}},
		{name: "J11/new work of another handle is notified", run: func(s *jobs) {
			s.second(func(other *jobs) { s.notified(other, func() { s.add(job.Insert{}) }) })
		}},
		{name: "J25/the request to cancel a running job is notified", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.cancelNotified(s, func() { s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1) })
		}},
		{name: "J25/a request of another handle to cancel a running job is notified", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.second(func(other *jobs) {
				s.cancelNotified(other, func() { s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1) })
			})
		}},
		{name: "J11/the notifications end with their context", run: func(s *jobs) {
			notifier := optional[job.Notifier](s, s.Store)
			ctx, cancel := context.WithCancel(s.ctx)
			signals, err := notifier.Notify(ctx)
			s.must(err, nil)
			cancel()
			for {
				select {
				case _, open := <-signals:
					if !open {
						s.add(job.Insert{}) // must not be sent to a closed channel
						return
					}
				case <-time.After(10 * time.Second):
					s.Fatal("the channel was not closed")
				}
			}
		}},
		{name: "J6/one worker leads at a time", run: func(s *jobs) {
			elector := optional[job.Elector](s, s.Store)
			leadFor := func(ttl time.Duration, worker string, want bool) {
				s.Helper()
				if got, err := elector.Lead(s.ctx, worker, ttl); err != nil || got != want {
					s.Fatalf("%s leads: %v, %v, want %v", worker, got, err, want)
				}
			}
			lead := func(worker string, want bool) {
				s.Helper()
				leadFor(s.short, worker, want)
			}
			lead("a", true)
			lead("b", false)
			s.lapse(s.short / 2)
			lead("a", true)
			s.almostElapse(s.short)
			lead("b", false)
			s.lapse(s.short)
			lead("b", true)
			lead("a", false)
			leadFor(time.Millisecond, "b", true) // shortens its lead, as a worker that stops does
			s.lapse(10 * time.Millisecond)
			lead("a", true)
			for _, d := range []time.Duration{0, -time.Second, job.MaxLease + 1} {
				var typed *job.DurationError
				if leads, err := elector.Lead(s.ctx, "b", d); leads || !errors.As(err, &typed) {
					s.Errorf("leads for %v: %v, %v", d, leads, err)
				}
			}
		}},
		{name: "J8/live workers are listed with what they take", run: func(s *jobs) {
			registry := optional[job.Registry](s, s.Store)
			listed := func(want ...job.WorkerInfo) {
				s.Helper()
				check := func(on *jobs) {
					s.Helper()
					got, err := on.Store.(job.Registry).Workers(s.ctx)
					s.must(err, nil)
					noDiff(s, "workers", cmp.Diff(want, got, cmpopts.EquateEmpty()))
				}
				check(s)
				s.second(check)
			}
			announce := func(w job.WorkerInfo, ttl time.Duration) {
				s.Helper()
				s.must(registry.Announce(s.ctx, w, ttl), nil)
			}
			a := job.WorkerInfo{Name: "a", Queues: []string{"q", "r\"s"}, Types: []string{"t", "u,v"}}
			b := job.WorkerInfo{Name: "b", Queues: []string{"q"}}
			listed()
			announce(b, long)
			announce(a, s.short)
			listed(a, b)
			a.Types = []string{"w"}
			announce(a, s.short) // in place of what was listed
			listed(a, b)
			s.lapse(s.short)
			listed(b)
			announce(a, long)
			listed(a, b)
			announce(b, 0)
			announce(b, 0)
			listed(a)
			var duration *job.DurationError
			if err := registry.Announce(s.ctx, b, job.MaxLease+time.Second); !errors.As(err, &duration) {
				s.Fatalf("more than a lease: %v", err)
			}
		}},
	}
}

// second runs f with another handle on the same data, if the store supports that.
func (s *jobs) second(f func(other *jobs)) {
	s.Helper()
	if s.options.Second == nil {
		return
	}
	other := *s
	other.Store = s.options.Second(s.T, s.Store)
	other.Admin = other.Store.(job.Admin)
	f(&other)
	s.must(other.Close(), nil)
}

// cancelNotified checks that a worker on a handle is notified of a request to cancel while workers also listen for new work.
func (s *jobs) cancelNotified(on *jobs, f func()) {
	s.Helper()
	notifier, ok := on.Store.(job.CancelNotifier)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	if work, ok := on.Store.(job.Notifier); ok {
		s.must(errorOf(work.Notify(ctx)), nil)
	}
	signals, err := notifier.NotifyCancel(ctx)
	s.must(err, nil)
	s.signalled(signals, f)
}

// notified checks that a worker on a handle is notified of the work that f makes.
func (s *jobs) notified(on *jobs, f func()) {
	s.Helper()
	notifier, ok := on.Store.(job.Notifier)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	signals, err := notifier.Notify(ctx)
	s.must(err, nil)
	s.signalled(signals, f)
}

// signalled checks that f causes a signal. It first drains earlier signals, since signals may be false.
func (s *jobs) signalled(signals <-chan struct{}, f func()) {
	s.Helper()
	drained := time.After(50 * time.Millisecond)
	for waiting := true; waiting; {
		select {
		case <-signals:
		case <-drained:
			waiting = false
		}
	}
	f()
	select {
	case <-signals:
	case <-time.After(10 * time.Second):
		s.Fatal("no signal within 10s")
	}
}
