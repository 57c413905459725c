package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/retry"
)

// keepFinished is how long finished jobs stay in the store; nothing looks at them.
const keepFinished = time.Second

// fleet is a store of jobs and the workers that run them.
type fleet struct {
	*group
	store   *memory.Jobs
	handler job.RawHandler
	workers []*running
	open    map[string]time.Duration // when the unfinished jobs were enqueued, by ID
	made    uint64
	turn    int // the worker that was woken last
}

// running is one worker, and after a crash the one that takes its place.
type running struct {
	*job.Worker
	number int
	kill   context.CancelFunc // nil while it is dead
}

func newFleet(g *group) *fleet {
	f := &fleet{group: g, store: memory.OpenJobsIn(g.world), open: map[string]time.Duration{}}
	call := caller{group: g}
	f.handler = func(ctx context.Context, _ job.Job[[]byte]) error { return call.attempt(ctx) }
	for i := range g.spec.Job.Workers {
		f.workers = append(f.workers, &running{number: i})
	}
	return f
}

// start starts the workers, and schedules their crashes.
func (f *fleet) start() {
	for _, w := range f.workers {
		f.launch(w)
	}
	f.world.atEnd = append(f.world.atEnd, func() { f.crash(len(f.workers)) })
	for _, fault := range f.faults {
		if fault.Down {
			n := int(math.Ceil(fault.Share * float64(len(f.workers))))
			f.world.at(fault.At, action(func() { f.crash(n) }))
			f.world.at(fault.At+fault.For, action(func() { f.recover(n) }))
		}
	}
}

// launch starts a worker.
func (f *fleet) launch(w *running) {
	spec := &f.spec.Job
	options := []job.WorkerOption{
		job.WithName(fmt.Sprintf("worker-%d", w.number)), job.WithLease(spec.Lease), job.WithLogger(slog.New(slog.DiscardHandler)),
		job.WithQueues(map[string]int{spec.Queue: spec.Concurrency}), job.WithProvider(f.policies),
		job.WithExecutorOptions(retry.ExecutorOptions{World: f.world}),
		job.WithRetention(map[job.State]time.Duration{job.Completed: keepFinished, job.Dead: keepFinished}),
	}
	w.Worker = job.NewWorker(f.store, options...)
	w.HandleRaw(spec.Type, f.handler)
	ctx, kill := context.WithCancel(context.Background())
	w.kill = kill
	f.world.Go(func() { w.RunIn(ctx, f.world, f.moved) })
}

// crash kills the first n workers. Their jobs stay in the store until their leases end; the service still serves their requests.
func (f *fleet) crash(n int) {
	for _, w := range f.workers[:n] {
		if w.kill != nil {
			w.kill()
			w.kill = nil
			f.world.Wake(w.Worker)
		}
	}
}

// recover starts the first n workers again.
func (f *fleet) recover(n int) {
	for _, w := range f.workers[:n] {
		if w.kill == nil && !f.world.ended {
			f.launch(w)
		}
	}
}

// enqueue enqueues a job. Its ID sets the jitter of its delays.
func (f *fleet) enqueue() {
	now := f.world.now
	f.made++
	id := fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", uint32(f.made>>16), uint16(f.made), f.random.next()>>52, f.random.next()>>52, f.random.next()>>16)
	if _, err := f.store.Enqueue(context.Background(), []job.Insert{{ID: id, Type: f.spec.Job.Type, Queue: f.spec.Job.Queue}}); err != nil {
		panic(err) // the store is in memory and never closed
	}
	f.open[id] = now
	f.world.held += requestSize
	if f.warm(now) {
		f.total.PeakBacklog = max(f.total.PeakBacklog, len(f.open))
	}
	f.count(now, func(t *ClientCounts) { t.Calls++ })
	for range f.workers { // the first that has a free slot
		f.turn = (f.turn + 1) % len(f.workers)
		if w := f.workers[f.turn]; w.kill != nil && f.world.Wake(w.Worker) > 0 {
			break
		}
	}
}

// moved counts a transition of a job.
func (f *fleet) moved(e job.Event) {
	began := f.open[e.ID]
	if e.From == job.Running && e.Reason == "lease_expired" && f.warm(began) {
		f.total.LostLeases++
	}
	if !e.To.Finished() {
		return
	}
	delete(f.open, e.ID)
	f.world.held -= requestSize
	if e.To == job.Completed {
		f.succeeded(began)
	} else {
		f.failed(began, string(e.Reason))
	}
}
