package job

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tenetdev/tenet/internal/virtual"
)

// simulated is a worker in a simulated world.
type simulated struct {
	*Worker
	world  virtual.World
	events *subscription
	report func(Event)
}

// RunIn works like [Worker.Run], but in a simulated world; see package simulate. What the goroutines of Run do beside each other, it
// does in turn, because nothing but a handler takes time in a world. report gets every transition that the worker makes; its
// time is not that of the world. RunIn does not shut down in order: once ctx has ended, the worker claims, extends and settles
// nothing more, as if it had been killed. Whoever enqueues a job or ends ctx calls Wake with the worker as the key.
func (w *Worker) RunIn(ctx context.Context, world virtual.World, report func(Event)) {
	s := &simulated{w, world, w.reporter.events.subscribe(math.MaxInt), report}
	w.runner.start(w.slots.served())
	w.publish(ctx)
	third := w.settings.lease / 3
	extend := world.Now() + third
	for ctx.Err() == nil {
		if world.Now() >= extend {
			_ = w.leases.extend(ctx) // a simulated store does not fail
			extend = world.Now() + third
		}
		done, _ := w.store.Maintain(ctx, Maintenance{Limit: maintainLimit, Keep: w.settings.keep})
		w.reporter.lost(done.Lost)
		s.claim(ctx)
		s.tell()
		pause := min(maintainEvery, extend-world.Now())
		if !done.NextDue.IsZero() {
			pause = min(pause, max(done.NextDue.Sub(done.Now), maintainPause))
		}
		world.Await(pause, w, func() bool { return ctx.Err() != nil || len(w.slots.free()) > 0 })
	}
}

// claim claims and starts jobs while there are some and slots are free.
func (s *simulated) claim(ctx context.Context) {
	for free := s.slots.free(); len(free) > 0; free = s.slots.free() {
		records, err := s.store.Claim(ctx, Claim{Worker: s.settings.name, Queues: free, Types: s.runner.types, Lease: s.settings.lease})
		if err != nil || len(records) == 0 {
			return
		}
		s.runner.expect(records)
		for _, r := range records {
			s.start(ctx, r)
		}
	}
}

// start runs a claimed job as a task of its own.
func (s *simulated) start(ctx context.Context, r *Record) {
	attempt, cancel := context.WithCancelCause(ctx)
	claimed := s.world.Now()
	s.slots.take(r.Queue)
	s.leases.add(r, cancel)
	s.reporter.started(r, time.Time{})
	s.world.Go(func() {
		x, settle := s.runner.attempt(attempt, r, Settlement{Ref: r.Ref(), Started: s.world.Now() - claimed, NotRun: true})
		cancel(nil)
		s.leases.drop(r.Ref())
		s.slots.give(r.Queue)
		if settle && ctx.Err() == nil && errors.Join(s.store.Settle(ctx, []Settlement{x})...) == nil {
			s.reporter.moved(r, &x, time.Time{})
			s.tell()
		}
		s.world.Wake(s.Worker)
	})
}

// tell reports the transitions since the last call.
func (s *simulated) tell() {
	for _, e := range s.events.take() {
		s.report(e)
	}
}
