package job

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/lists"
)

// Limits of batches.
const (
	DefaultBatchSize = 100
	MaxBatchSize     = 10_000
	MaxBatchWait     = time.Minute
)

// batchGather bounds how long a batch waits for jobs of the worker that middleware or a policy's limit hold back on their way
// to the handler.
const batchGather = 100 * time.Millisecond

// BatchOptions bounds the batches of a type. The zero value takes up to 100 of the jobs that are claimed and does not wait for
// more.
type BatchOptions struct {
	// Size is the largest number of jobs in a call, default 100, at most 10,000. A batch is never larger than the free slots
	// of the worker: give the queue a concurrency of at least Size.
	Size int
	// Wait is how long a batch that is not full waits for more jobs, counted from its first job, at most 1 minute. By default
	// it does not wait. The wait counts against the jobs' timeouts, and the jobs hold their slots meanwhile.
	Wait time.Duration
}

func (o BatchOptions) check(jobType string) BatchOptions {
	o.Size = cmp.Or(o.Size, DefaultBatchSize)
	if o.Size < 1 || o.Size > MaxBatchSize {
		panic(fmt.Sprintf("job: HandleBatch: type %q: Size: %d is not between 1 and %d", jobType, o.Size, MaxBatchSize))
	}
	if o.Wait < 0 || o.Wait > MaxBatchWait {
		panic(fmt.Sprintf("job: HandleBatch: type %q: Wait: %v is not between 0 and %v", jobType, o.Wait, MaxBatchWait))
	}
	return o
}

// BatchHandler handles jobs of one type together, in the order of their IDs. It returns one result for each job in the order in
// which it got them: nil, or an error as a handler of single jobs returns it. The context ends when the contexts of all jobs of the batch have ended, and has no values;
// [Job.Context] is a job's own.
type BatchHandler[T any] func(ctx context.Context, jobs []Job[T]) []error

// HandleBatch registers a handler that is called with up to o.Size jobs at once. Payloads are decoded as [Handle] does. A batch
// takes jobs of all queues that the worker serves, and several batches run at once if there are slots for them.
//
// Each job is an attempt of its own: the middleware, its policy, budget, breaker, timeout and idempotency key apply to it as to
// a single job, and it is settled on its own. A refused job or one that cannot be decoded is missing from the batch. A panic of
// the handler fails every job of the batch. So does a list of results that is longer than the batch; in one that is shorter,
// the jobs without a result fail.
//
// A batch starts when it is full, or when all jobs that were claimed together have arrived and o.Wait is over. It starts at the
// latest o.Wait + 100 ms after the first job has reached it; jobs that middleware or a limit hold back for longer are in a later
// batch.
//
// Registering a type twice panics, and so do a nil handler and options that are out of range.
func HandleBatch[T any](w *Worker, jobType string, o BatchOptions, handler BatchHandler[T]) {
	argument.Need(w != nil, "job: HandleBatch: the worker")
	argument.Need(handler != nil, fmt.Sprintf("job: HandleBatch: type %q: the handler", jobType))
	b := &batcher[T]{options: o.check(jobType), handler: handler, coming: map[Ref]struct{}{}}
	Handle(w, jobType, b.handle)
	w.runner.batchers[jobType] = b
}

// HandleBatch registers the handler of batches of the type with a worker, as the function [HandleBatch] does.
func (d Definition[T]) HandleBatch(w *Worker, o BatchOptions, handler BatchHandler[T]) {
	HandleBatch(w, d.name, o, handler)
}

// gatherer knows which jobs of a type are on their way to its handler.
type gatherer interface {
	expect(r Ref) // before the job's attempt starts
	left(r Ref)   // after the attempt has ended, whether or not the job reached the handler
}

// batcher gathers the jobs of a type into batches. Each job's own goroutine waits in handle until its batch has run.
type batcher[T any] struct {
	options BatchOptions
	handler BatchHandler[T]

	mu     sync.Mutex
	coming map[Ref]struct{} // claimed, but neither in handle nor ended
	open   *batch[T]        // gathers jobs; nil if none does
}

// batch is a call of the handler. Once it has started, only its goroutine changes it until done is closed.
type batch[T any] struct {
	members []*member[T]
	waited  bool // Wait is over
	timer   *time.Timer
	done    chan struct{}
	end     func() // panics or exits the goroutine as the handler did; nil if the handler returned
}

// member is a job of a batch.
type member[T any] struct {
	job Job[T]
	err error // its result
}

func (b *batcher[T]) expect(r Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming[r] = struct{}{}
}

func (b *batcher[T]) left(r Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.coming, r)
	b.startComplete()
}

// handle adds a job to the open batch and returns the job's result. It panics or exits as the batch's handler did, so that
// middleware sees the same as with a single job.
func (b *batcher[T]) handle(ctx context.Context, j Job[T]) error {
	m := &member[T]{job: j}
	in := b.join(m)
	select {
	case <-in.done:
	case <-ctx.Done():
		if b.withdraw(in, m) {
			return context.Cause(ctx)
		}
		<-in.done // the handler has the job
	}
	if in.end != nil {
		in.end()
	}
	return m.err
}

func (b *batcher[T]) join(m *member[T]) *batch[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.coming, m.job.Lease().Ref())
	in := b.open
	if in == nil {
		in = &batch[T]{waited: b.options.Wait == 0, done: make(chan struct{})}
		first := b.options.Wait
		if in.waited {
			first = batchGather
		}
		in.timer = time.AfterFunc(first, func() { b.late(in) })
		b.open = in
	}
	in.members = append(in.members, m)
	b.startComplete()
	return in
}

// late ends the wait of a batch: first the one for more jobs, then the one for jobs that are on their way.
func (b *batcher[T]) late(in *batch[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.open != in:
	case in.waited:
		b.start()
	default:
		in.waited = true
		in.timer.Reset(batchGather)
		b.startComplete()
	}
}

// withdraw takes a job out of a batch, and reports whether the batch had not started.
func (b *batcher[T]) withdraw(in *batch[T], m *member[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != in {
		return false
	}
	if in.members = slices.DeleteFunc(in.members, func(o *member[T]) bool { return o == m }); len(in.members) == 0 {
		in.timer.Stop()
		b.open = nil
	}
	return true
}

// startComplete starts the open batch if no job will be added to it. The caller holds mu.
func (b *batcher[T]) startComplete() {
	if in := b.open; in != nil && (len(in.members) >= b.options.Size || in.waited && len(b.coming) == 0) {
		b.start()
	}
}

// start starts the open batch. Its members wait for its goroutine. The caller holds mu.
func (b *batcher[T]) start() {
	in := b.open
	in.timer.Stop()
	b.open = nil
	go in.run(b.handler)
}

func (in *batch[T]) run(handler BatchHandler[T]) {
	slices.SortFunc(in.members, func(a, b *member[T]) int { return strings.Compare(a.job.ID, b.job.ID) })
	jobs := lists.Map(in.members, func(m *member[T]) Job[T] { return m.job })
	ctx, cancel := contextOf(jobs)
	defer cancel()
	in.end = runtime.Goexit
	defer func() {
		if v := recover(); v != nil {
			failure := &panicError{value: v, stack: string(debug.Stack())}
			in.end = func() { panic(failure) }
		}
		close(in.done)
	}()
	errs := handler(ctx, jobs)
	in.end = nil
	for i, m := range in.members {
		if i < len(errs) && len(errs) <= len(jobs) {
			m.err = errs[i]
		} else {
			m.err = fmt.Errorf("job: the batch handler returned %d results for %d jobs, so this job has none", len(errs), len(jobs))
		}
	}
}

// contextOf returns a context that ends when the contexts of all jobs have ended, with the cause of the last one.
func contextOf[T any](jobs []Job[T]) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var left atomic.Int64
	left.Store(int64(len(jobs)))
	stops := make([]func() bool, len(jobs))
	for i, j := range jobs {
		stops[i] = context.AfterFunc(j.Context(), func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(j.Context()))
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}
