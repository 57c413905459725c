package job

import (
	"context"
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

// RunIn works like [Worker.Run], but in a simulated world; see package simulate. It does in turn what the loops of Run do
// concurrently, because nothing but a handler takes time in a world. report gets every transition that the worker makes; its
// time is not that of the world. RunIn has no orderly shutdown: once ctx has ended, the worker claims, extends and settles
// nothing more, as if it had been killed. Whoever enqueues a job or ends ctx calls Wake with the worker as the key.
func (w *Worker) RunIn(ctx context.Context, world virtual.World, report func(Event)) {
	s := &simulated{w, world, w.reporter.events.subscribe(math.MaxInt), report}
	background, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(errLeaseLost)
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
		s.claim(ctx, background)
		s.tell()
		pause := min(maintainEvery, extend-world.Now())
		if !done.NextDue.IsZero() {
			pause = min(pause, max(done.NextDue.Sub(done.Now), maintainPause))
		}
		world.Await(pause, w, func() bool { return ctx.Err() != nil || len(w.slots.free()) > 0 })
	}
}

// claim claims and starts jobs while there are some and slots are free.
func (s *simulated) claim(ctx, background context.Context) {
	for free := s.slots.free(); len(free) > 0; free = s.slots.free() {
		records, err := s.store.Claim(ctx, Claim{Worker: s.settings.name, Queues: free, Types: s.runner.types, Lease: s.settings.lease})
		if err != nil || len(records) == 0 {
			return
		}
		s.runner.expect(records)
		for _, r := range records {
			turn := s.turn(background, r, time.Time{})
			s.world.Go(func() {
				turn()
				if ctx.Err() == nil {
					s.settle(ctx)
					s.world.Wake(s.Worker)
				}
			})
		}
	}
}

// settle writes the settlements that are pending.
func (s *simulated) settle(ctx context.Context) {
	if group, _ := s.settler.take(); len(group) > 0 {
		s.settler.write(ctx, group)
	}
	s.tell()
}

// tell reports the transitions since the last call.
func (s *simulated) tell() {
	for _, e := range s.events.take() {
		s.report(e)
	}
}
