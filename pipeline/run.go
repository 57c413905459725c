package pipeline

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenetdev/tenet/observe"
)

// epoch is the zero of monotonic readings; time.Since(epoch) costs less than time.Now.
var epoch = time.Now()

// run is one run of an engine. One lock, mu, guards all its parts, because each transition moves a delivery from one part to
// the next:
//
//	  intake             buffer               pool                settler
//	┌────────┐  put   ┌──────────┐  take  ┌──────────┐  ack   ┌───────────┐
//	│ feeder ├───────►│  ready   ├───────►│ workers  ├───────►│ acks      ├──► Source.Ack
//	│        │◄───────┤  held    │◄───────┤          │  nack  │ nacks     ├──► Source.Nack
//	└────────┘  wake  └────┬─────┘ release└────┬─────┘        └───────────┘
//	                       │ stop              │ abandon            ▲
//	                       └───────────────────┴──── giveBack ──────┘
//
// The feeder, each worker, the settler and the extender are goroutines. None of them holds mu while it calls a source, a task,
// a sink or an observer.
type run struct {
	*engine
	scopes
	span    span
	started time.Duration
	done    chan struct{} // closed when the feeder and all workers have ended
	fetch   fetchWatch
	// services are the settler, the extender and others that may outlast the work.
	services sync.WaitGroup

	mu      sync.Mutex
	intake  intake
	buffer  buffer
	pool    pool
	settler settler
	stopped bool // no further transactions start
	broken  error
	summary Summary
}

// scopes are the contexts of a run.
type scopes struct {
	ctx           context.Context // of the work; ends when the work is to be cancelled
	cancel        context.CancelCauseFunc
	endless       context.Context // of settlements and the start of spans; never ends
	fetches       context.Context // of fetches; ended by a drain, earlier than ctx
	cancelFetches context.CancelFunc
}

func newRun(e *engine, ctx context.Context) *run {
	r := &run{
		engine: e, done: make(chan struct{}), started: time.Since(epoch),
		buffer: newBuffer(), pool: pool{workers: map[*worker]struct{}{}},
		intake: intake{feeding: true},
	}
	r.pool.idle.L, r.intake.wake.L, r.settler.wake.L = &r.mu, &r.mu, &r.mu
	r.endless = context.WithoutCancel(ctx)
	settling, end := context.WithCancel(r.endless)
	r.settler.done, r.settler.end = settling.Done(), end
	r.span = e.begin(r.endless, observe.Work{Key: e.steps.keys.run, ID: e.name, Operation: e.steps.operation[stepRun], Category: e.policies.loop().category}, nil)
	r.ctx, r.cancel = context.WithCancelCause(r.span.ctx) // the caller's deadline does not apply to the transactions
	r.flow(observe.Flow{Begun: true, Source: e.ends.source, Sink: e.ends.sink})
	r.fetches, r.cancelFetches = context.WithCancel(r.span.ctx)
	r.resize()
	return r
}

// supervise waits until the work has ended, and ends it when a drain, the loop timeout or the caller's context says so.
//
//	running ──drain──► draining ──grace──┐
//	   │                  │              ▼
//	   └──timeout, ctx────┴────────► cancelled ──grace──► abandoned
func (r *run) supervise(ctx context.Context) error {
	var abandon, grace, timeout <-chan time.Time
	if limit := r.policies.loop().timeout; limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		timeout = t.C
	}
	done, drained := ctx.Done(), r.drained
	var ended error
	stop := func(err error, wait time.Duration) {
		done, drained, grace, timeout = nil, nil, nil, nil
		ended, abandon = err, time.After(wait)
		r.stop(err)
	}
	for {
		select {
		case <-r.done:
			return r.result(ended)
		case <-drained:
			drained, grace = nil, time.After(r.grace)
			r.endFetching()
		case <-grace:
			stop(nil, cancelGrace)
		case <-timeout:
			stop(r.timedOut(), r.grace)
		case <-done:
			stop(r.endedBy(ctx), r.grace)
		case <-abandon:
			r.abandon()
			return r.result(ended)
		}
	}
}

// result joins the error that ended the run with the error recorded by fail.
func (r *run) result(ended error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.broken == nil:
		return ended
	case ended == nil:
		return r.broken
	}
	return errors.Join(ended, r.broken)
}

// fail records why the run cannot go on. Only the first error is kept.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = cmp.Or(r.broken, err)
}

func (r *run) timedOut() error {
	limit := r.policies.loop().timeout
	if r.kind == producer {
		return &ProducerLoopTimeoutError{Producer: r.name, Timeout: limit}
	}
	return &ConsumerLoopTimeoutError{Consumer: r.name, Timeout: limit}
}

// checkDone closes done when the feeder and all workers have ended and the buffer is empty. The caller holds mu.
func (r *run) checkDone() {
	if r.intake.feeding || len(r.pool.workers) > 0 || r.buffer.waiting()+r.buffer.holding > 0 {
		return
	}
	select {
	case <-r.done: // not reached in tests: a worker that was idle when it was abandoned leaves later
	default:
		close(r.done)
	}
}

// stop cancels running work and gives buffered deliveries back.
func (r *run) stop(cause error) {
	r.cancelFetches()
	cause = cmp.Or(cause, ErrShutdown)
	r.mu.Lock()
	r.stopped = true
	r.endIntake()
	waiting := r.buffer.all()
	r.buffer.clear()
	r.checkDone()
	r.mu.Unlock()
	r.cancel(cause)
	r.services.Go(func() { r.giveBack(waiting) }) // the function of WithEnded must not hold up the grace period
}

// finish returns the summary of a run that has ended.
func (r *run) finish(err error) Summary {
	r.settler.end()
	r.cancelFetches()
	r.span.end("", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Elapsed = time.Since(epoch) - r.started
	summary := r.summary
	summary.Unsettled += r.settler.pending() // abandoned
	return summary
}

func (r *run) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(epoch)
	p := Progress{
		Summary: r.summary, Concurrency: r.pool.size, InFlight: r.pool.inFlight,
		Buffered: r.buffer.waiting() + r.buffer.holding, Unsettled: r.settler.pending(), Empty: r.intake.empty,
	}
	p.Summary.Elapsed = cmp.Or(p.Summary.Elapsed, now-r.started)
	for w := range r.pool.workers {
		if w.busy {
			p.Oldest = max(p.Oldest, now-w.since)
		}
	}
	return p
}
