package pipeline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/observe"
)

// epoch is where monotonic readings count from: cheaper than time.Now.
var epoch = time.Now()

// run is one run of an engine.
//
//	          add             take             conclude               settled
//	feed ───────────► buffer ──────► a worker ──────────► unsettled ───────────► gone
//	                   │  ▲ ID runs      │ never more than size
//	                   ▼  │ ended        ▼ abandon: cancelled, does not return
//	                   held           left behind, given back
type run struct {
	*engine
	ctx     context.Context // of the work; it ends when that is to be cancelled
	cancel  context.CancelCauseFunc
	outside context.Context // for settlements and the start of spans: never ends
	fetches context.Context // of fetching; it ends earlier, with a drain
	unfetch context.CancelFunc
	span    span
	started time.Duration
	done    chan struct{} // closed when feeder and workers have ended
	closing chan struct{} // closed when nothing more is to be settled or extended

	fetching atomic.Int64 // since when a fetch attempt runs, since epoch; 0 for none
	patience atomic.Int64 // how long it may

	mu       sync.Mutex
	idle     sync.Cond // workers wait here for work
	hungry   sync.Cond // the feeder waits here until it is needed
	unsettle sync.Cond // the settler waits here

	buffer  []Delivery
	held    map[string][]Delivery // deliveries whose ID is running
	holding int                   // how many are held
	freed   []Delivery            // deliveries that were held
	ids     map[string]struct{}   // that are running
	workers map[*worker]struct{}
	size    int // of the pool
	waiting int // workers without work; they are made when there is work for them
	flying  int // transactions in flight
	feeding bool
	ended   bool // nothing more will be fetched
	stopped bool // nothing more is started
	closed  bool // nothing more is to be settled
	broken  error
	empty   int
	summary Summary

	acks     []Delivery
	nacks    []giveBack
	settling int // being told to the source
}

func newRun(e *engine, ctx context.Context) *run {
	r := &run{
		engine: e, done: make(chan struct{}), closing: make(chan struct{}), started: time.Since(epoch), feeding: true,
		held: map[string][]Delivery{}, ids: map[string]struct{}{}, workers: map[*worker]struct{}{},
	}
	r.idle.L, r.hungry.L, r.unsettle.L = &r.mu, &r.mu, &r.mu
	r.outside = context.WithoutCancel(ctx)
	r.span = e.begin(r.outside, observe.Work{Key: e.keys.run, ID: e.name, Operation: e.operation[stepRun], Category: e.policies.loop().category}, nil)
	r.ctx, r.cancel = context.WithCancelCause(r.span.ctx) // the caller's deadline is not the transactions'
	r.fetches, r.unfetch = context.WithCancel(r.span.ctx)
	r.resize()
	return r
}

// next ends what w has done and waits for more to do. It returns false when there is nothing left for w.
func (r *run) next(w *worker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.busy {
		r.conclude(w)
	}
	if w.abandoned {
		return false
	}
	for !r.stopped && len(r.workers) <= r.size {
		if d, ok := r.pop(); ok {
			w.take(d)
			r.flying++
			if len(r.buffer) == 0 && r.free() > 0 {
				r.hungry.Signal() // others are still free
			}
			return true
		}
		if r.ended && !r.feeding { // a fetch that is still running may bring something
			break
		}
		r.waiting++
		r.hungry.Signal()
		r.idle.Wait()
		r.waiting--
	}
	r.leave(w)
	return false
}

// pop takes the next delivery that may run.
func (r *run) pop() (Delivery, bool) {
	if len(r.freed) > 0 {
		d := r.freed[0]
		r.freed = r.freed[1:]
		r.ids[d.Transaction.id] = struct{}{}
		return d, true
	}
	for len(r.buffer) > 0 {
		d := r.buffer[0]
		r.buffer = r.buffer[1:]
		id := d.Transaction.id
		if _, runs := r.ids[id]; !runs {
			r.ids[id] = struct{}{}
			return d, true
		}
		r.held[id] = append(r.held[id], d)
		r.holding++
	}
	return Delivery{}, false
}

// conclude counts what w has done, and lets the source know.
func (r *run) conclude(w *worker) {
	w.busy = false
	r.flying--
	r.summary.count(w.end.outcome)
	r.summary.Retries += w.retries
	if w.processed {
		r.summary.Processed++
	}
	if r.options.ended != nil || r.observer != nil {
		r.mu.Unlock()
		r.flow(observe.Flow{InFlight: -1, Outcome: string(w.end.outcome), Processed: w.processed})
		r.tellEnded(Ended{Delivery: w.delivery, Outcome: w.end.outcome, Err: w.end.err})
		r.mu.Lock()
	}
	r.release(w.delivery.Transaction.id)
	switch w.end.outcome {
	case Success, Exception:
		r.ack(w.delivery)
	default:
		r.nack(giveBack{w.delivery, w.end.delay, w.end.cause()})
	}
}

func (r *run) tellEnded(e Ended) {
	if r.options.ended != nil {
		r.options.ended(e)
	}
}

// release lets the next delivery of an ID run.
func (r *run) release(id string) {
	delete(r.ids, id)
	if r.chunked {
		r.hungry.Signal()
	}
	if r.holding == 0 {
		return
	}
	list := r.held[id]
	if len(list) == 0 {
		return
	}
	r.freed = append(r.freed, list[0])
	if r.holding--; len(list) == 1 {
		delete(r.held, id)
	} else {
		r.held[id] = list[1:]
	}
	r.idle.Signal()
	r.hungry.Signal()
}

// leave takes a worker out of the pool.
func (r *run) leave(w *worker) {
	delete(r.workers, w)
	if len(r.freed) > 0 {
		r.idle.Signal() // what w has freed is another one's
	}
	r.over()
}

// over closes done when nothing works any more.
func (r *run) over() {
	if r.feeding || len(r.workers) > 0 {
		return
	}
	select {
	case <-r.done:
	default:
		close(r.done)
	}
}

// resize sets how many workers the policy allows. Those that are too many leave when they are free.
func (r *run) resize() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = r.policies.loop().concurrency
	if len(r.workers) > r.size {
		r.idle.Broadcast()
	}
}

func (r *run) spawn() {
	w := newWorker(r)
	r.workers[w] = struct{}{}
	go w.loop()
}

// free is how many transactions more could run: on workers that wait, and on those that there may yet be.
func (r *run) free() int { return r.waiting + max(r.size-len(r.workers), 0) }

// wake wakes as many workers as there is work for, and makes them where there are too few.
func (r *run) wake() {
	n := len(r.buffer) + len(r.freed)
	for range min(n-r.waiting, r.size-len(r.workers)) {
		r.spawn()
	}
	if n >= r.waiting {
		r.idle.Broadcast()
		return
	}
	for range n {
		r.idle.Signal()
	}
}

// drainAll ends fetching. What has been fetched goes on.
func (r *run) drainAll() {
	r.unfetch()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finishFeed()
}

// finishFeed says that nothing more comes.
func (r *run) finishFeed() {
	r.ended = true
	r.idle.Broadcast()
	r.hungry.Broadcast()
}

// stop cancels what runs and gives back what waits.
func (r *run) stop(cause error) {
	r.unfetch()
	if cause == nil {
		cause = ErrShutdown
	}
	r.mu.Lock()
	r.stopped = true
	r.finishFeed()
	waiting := slices.Concat(r.freed, r.buffer)
	for _, list := range r.held {
		waiting = append(waiting, list...)
	}
	r.buffer, r.freed, r.holding = nil, nil, 0
	clear(r.held)
	r.mu.Unlock()
	r.cancel(cause)
	r.giveBack(waiting)
}

// giveBack ends deliveries that were never started.
func (r *run) giveBack(list []Delivery) {
	for _, d := range list {
		r.flow(observe.Flow{Outcome: string(Redelivered)})
		r.tellEnded(Ended{Delivery: d, Outcome: Redelivered, Err: ErrShutdown})
	}
	r.mu.Lock()
	late := r.closed // a fetch that was left behind has returned after all
	for _, d := range list {
		r.summary.count(Redelivered)
		if !late {
			r.nack(giveBack{delivery: d})
		}
	}
	r.mu.Unlock()
	if !late || r.nacker == nil {
		return
	}
	p := patience{outside: r.outside}
	defer p.end()
	for _, d := range list {
		r.nackNow(p.context(), giveBack{delivery: d})
	}
}

// abandon leaves behind what did not return after it was cancelled.
func (r *run) abandon() {
	r.mu.Lock()
	var left []Delivery
	var spans []context.Context
	for w := range r.workers {
		w.abandoned = true
		if w.busy {
			w.busy = false
			left, spans = append(left, w.delivery), append(spans, w.context())
		}
	}
	clear(r.workers)
	r.summary.Abandoned += len(left)
	r.flying = 0
	hangs := r.feeding
	r.mu.Unlock()
	for i, d := range left {
		r.flow(observe.Flow{InFlight: -1})
		r.report(spans[i], d.Transaction, "the transaction ignores its context, is left behind and given back")
	}
	if hangs {
		r.log.Warn("pipeline: a fetch ignores its context and is left behind", "pipeline", r.name)
	}
	r.giveBack(left)
}

// fail notes why the run cannot go on.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
	}
}

func (r *run) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// close tells the services that nothing more comes for them.
func (r *run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	close(r.closing)
	r.unsettle.Broadcast()
}

// finish closes the books.
func (r *run) finish(err error) Summary {
	r.unfetch()
	r.span.end("", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Elapsed = time.Since(epoch) - r.started
	return r.summary
}

func (r *run) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(epoch)
	p := Progress{
		Summary: r.summary, Concurrency: r.size, InFlight: r.flying,
		Buffered: len(r.buffer) + len(r.freed) + r.holding, Unsettled: r.unsettled(), Empty: r.empty,
	}
	if p.Summary.Elapsed == 0 {
		p.Summary.Elapsed = now - r.started
	}
	for w := range r.workers {
		if w.busy {
			p.Oldest = max(p.Oldest, now-w.since)
		}
	}
	return p
}
