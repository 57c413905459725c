package pipeline

import (
	"context"
	"maps"
	"runtime/debug"
	"sync"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/retry"
)

// pool is a run's workers. A worker's goroutine starts when there is work for it, and waits for more until the run has none
// or the policy allows fewer workers. run.mu guards the pool.
type pool struct {
	idle     sync.Cond // workers without work wait here
	waiting  int       // how many wait
	workers  map[*worker]struct{}
	size     int // the maximum number of workers; the policy's concurrency
	inFlight int // transactions in flight
	left     int // transactions that earlier runs abandoned and whose tasks still run
}

// spare returns how many workers may still be started. It is negative after the policy's concurrency has become smaller.
func (p *pool) spare() int { return p.size - p.left - len(p.workers) }

// free returns how many transactions could start now: on waiting workers, and on workers that may still be started.
func (p *pool) free() int { return p.waiting + max(p.spare(), 0) }

// startWorker adds a worker and starts its goroutine.
func (r *run) startWorker() {
	w := newWorker(r)
	r.pool.workers[w] = struct{}{}
	go w.loop()
}

// wake wakes or starts a worker for each delivery in the buffer. The caller holds mu.
func (r *run) wake() {
	p, n := &r.pool, r.buffer.waiting()
	for range min(n-p.waiting, p.spare()) {
		r.startWorker()
	}
	if n >= p.waiting {
		p.idle.Broadcast()
		return
	}
	for range n {
		p.idle.Signal()
	}
}

// resize follows the policy's concurrency, and reports whether a fetch is wanted then. Surplus workers leave when their transaction
// has ended.
func (r *run) resize() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.pool
	p.size = r.policies.loop().concurrency
	if p.spare() < 0 {
		p.idle.Broadcast()
	} else {
		r.wake()
	}
	return r.wanted()
}

// next concludes w's transaction, if it has one, and waits for another. It returns false when w has nothing left to do.
func (r *run) next(w *worker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.busy {
		r.conclude(w)
	}
	p := &r.pool
	for !r.stopped && p.spare() >= 0 {
		if d, ok := r.buffer.take(); ok {
			w.take(d)
			p.inFlight++
			if len(r.buffer.ready) == 0 && p.free() > 0 {
				r.intake.wake.Signal() // other workers are still free
			}
			return true
		}
		if r.intake.ended && !r.intake.feeding { // a running fetch may still return deliveries
			break
		}
		p.waiting++
		r.intake.wake.Signal()
		p.idle.Wait()
		p.waiting--
	}
	// Deliveries left in the buffer need no signal: while there are more workers than the policy allows, no worker waits, and
	// each checks the buffer before it waits.
	delete(p.workers, w)
	r.checkDone()
	return false
}

// conclude counts w's transaction and queues its settlement. The caller holds mu.
func (r *run) conclude(w *worker) {
	w.busy, w.span = false, nil
	r.pool.inFlight--
	r.summary.count(w.end.outcome)
	r.summary.Retries += w.retries
	if w.processed {
		r.summary.Processed++
	}
	defer r.handBack(w) // also if the function of WithEnded ends the goroutine
	if r.ended != nil || r.observer != nil {
		r.tell(w)
	}
}

// handBack frees the ID of w's transaction and queues its settlement. The caller holds mu.
func (r *run) handBack(w *worker) {
	if r.buffer.release(w.delivery.Transaction.id) {
		r.pool.idle.Signal()
		r.intake.wake.Signal()
	} else if r.kind == producer {
		r.intake.wake.Signal() // the chunk may have ended
	}
	switch w.end.outcome {
	case Success, Exception:
		r.ack(w.delivery)
	default:
		r.nack(giveBack{w.delivery, w.end.delay, w.end.cause()})
	}
	r.settleLate()
}

// tell tells the observer and the function of [WithEnded] that w's transaction has ended. The caller holds mu, which tell gives up
// meanwhile.
func (r *run) tell(w *worker) {
	w.telling = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		w.telling = false
	}()
	r.flow(observe.Flow{InFlight: -1, Outcome: string(w.end.outcome), Processed: w.processed})
	r.callEnded(Ended{Delivery: w.delivery, Outcome: w.end.outcome, Err: w.end.err})
}

// callEnded calls the function of [WithEnded], if there is one. It cannot fail the work either.
func (r *run) callEnded(e Ended) {
	if r.ended == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.log.Error("pipeline: the function of WithEnded panicked", r.about(context.Background(), e.Delivery.Transaction,
				observe.LogError, &retry.PanicError{Part: "ended", Value: v, Stack: debug.Stack()})...)
		}
	}()
	r.ended(e)
}

// abandon gives up on workers that have not returned after cancellation, and gives their deliveries back. Their tasks count in
// the engine's later runs until they return.
func (r *run) abandon() {
	r.mu.Lock()
	var left []Delivery
	var spans []context.Context
	for w := range r.pool.workers {
		if w.busy {
			w.busy, w.abandoned = false, true
			left, spans = append(left, w.delivery), append(spans, w.context())
		}
	}
	clear(r.pool.workers)
	r.summary.Abandoned += len(left)
	r.pool.inFlight = 0
	fetching := r.intake.feeding
	r.leave(left)
	r.mu.Unlock()
	for i, d := range left {
		r.flow(observe.Flow{InFlight: -1})
		r.report(spans[i], d.Transaction, "the transaction ignores its context; it is abandoned and given back")
	}
	if fetching {
		r.log.Warn("pipeline: a fetch ignores its context and is abandoned", "pipeline", r.name)
	}
	r.services.Go(func() { r.giveBack(left) })
}

// leave notes the IDs of abandoned transactions. The caller holds mu.
func (r *run) leave(list []Delivery) {
	r.abandoned.mu.Lock()
	defer r.abandoned.mu.Unlock()
	for _, d := range list {
		r.abandoned.ids[d.Transaction.id] = struct{}{}
	}
	r.pool.left += len(list)
}

// follow makes r the engine's current run. It begins with the transactions that earlier runs abandoned.
func (e *engine) follow(r *run) {
	e.abandoned.mu.Lock()
	defer e.abandoned.mu.Unlock()
	if n := len(e.abandoned.ids); n > 0 {
		e.log.Warn("pipeline: tasks that an earlier run abandoned take slots until they return", "pipeline", e.name, "tasks", n)
	}
	r.buffer.running, r.pool.left = maps.Clone(e.abandoned.ids), len(e.abandoned.ids)
	e.current.Store(r)
}

// returned notes that the task of an abandoned transaction has returned.
func (e *engine) returned(id string) {
	e.abandoned.mu.Lock()
	delete(e.abandoned.ids, id)
	r := e.current.Load()
	e.abandoned.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pool.left--
	r.buffer.release(id)
	r.wake()
	r.intake.wake.Signal()
}
