package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Worker claims jobs and runs their handlers. Register handlers before Run; a worker runs once.
type Worker struct {
	store           Store
	name            string
	lease           time.Duration
	grace           time.Duration
	poll            time.Duration
	document        policy.Provider // as given; nil where there is none
	provider        policy.Provider // the document with the policy in code, if that is data
	code            RetryPolicy     // nil where there is none
	noRetries       bool
	executorOptions retry.ExecutorOptions
	observer        observe.Observer
	middleware      []Middleware
	keep            map[State]time.Duration
	periodic        []Periodic
	log             *slog.Logger
	handlers        map[string]RawHandler
	types           []string            // that have handlers; made by Run
	keys            map[kind]policy.Key // of the policies of all that this worker can run; made by Run
	executor        *retry.Executor
	settler         *settler
	outage          *outage
	wake            chan struct{} // there may be new work
	slot            chan struct{} // a handler has ended
	due             chan struct{} // nextDue has come nearer
	cancels         chan struct{} // running jobs may be to be cancelled
	ran             atomic.Bool
	lastAnswer      atomic.Int64 // time of the last answer of the store, in Unix nanoseconds

	mu      sync.Mutex
	queues  map[string]*queue
	running map[string]*running // by job ID
	nextDue time.Time           // of a job that this worker has scheduled
	group   sync.WaitGroup      // handlers
}

// queue is what a worker has going on in one queue. Its size is 0 once the worker no longer serves it.
type queue struct{ size, busy int }

// kind is what jobs have in common that run under the same policy.
type kind struct{ queue, jobType string }

// running is a job between its claim and its settlement.
type running struct {
	record *Record
	cancel context.CancelCauseFunc
}

// Why a worker cancels the context of a job.
var (
	errShutdown  = errors.New("job: the worker is shutting down")
	errCancelled = errors.New("job: cancelled by an operator")
)

// NewWorker makes a worker of a store. A nil store panics.
func NewWorker(store Store, options ...WorkerOption) *Worker {
	argument.Need(store != nil, "job: NewWorker: the store")
	w := &Worker{
		store: store, lease: DefaultLease, grace: DefaultGrace, poll: DefaultPoll, log: slog.Default(),
		handlers: map[string]RawHandler{}, queues: map[string]*queue{DefaultQueue: {size: DefaultConcurrency}}, running: map[string]*running{},
		wake: make(chan struct{}, 1), slot: make(chan struct{}, 1), due: make(chan struct{}, 1),
		cancels: make(chan struct{}, 1),
	}
	for _, o := range options {
		argument.Need(o != nil, "job: NewWorker: an option")
		o(w)
	}
	if w.name == "" {
		host, _ := os.Hostname()
		w.name = fmt.Sprintf("%s/%d/%08x", host, os.Getpid(), rand.Uint32())
	}
	data, isData := w.code.(ExponentialBackoff)
	switch w.provider = w.document; {
	case w.document == nil:
		jobs, err := policy.Compile(policy.Policy{Retry: data.Retry()}, policy.JobLimits(), policy.SourceStatic)
		if err != nil { // an enum out of range; constructors normalise
			panic(err)
		}
		w.provider = policy.NewSet(policy.SetConfig{Source: policy.SourceDefault, Jobs: jobs})
	case isData:
		w.provider = back(w.document, data)
	}
	o := w.executorOptions
	o.RecoverPanics = true // a panic in user code must not take the worker's other jobs with it
	// Handlers often use the store's database.
	if s, ok := store.(interface{ Classes() classify.Family }); ok {
		o.Classes = append(slices.Clip(o.Classes), s.Classes())
	}
	w.observer = observe.Multi(o.Observer, w.observer)
	o.Provider, o.Observer = w.provider, w.observer
	w.executor = retry.NewExecutor(o)
	w.settler, w.outage = newSettler(w), &outage{log: w.log}
	w.lastAnswer.Store(time.Now().UnixNano())
	return w
}

// Name is the worker's name, as it appears in the history of jobs.
func (w *Worker) Name() string { return w.name }

// HandleRaw registers a handler that decodes the payload itself. Registering a type twice panics, and so does a nil handler.
func (w *Worker) HandleRaw(jobType string, handler RawHandler) {
	argument.Need(handler != nil, fmt.Sprintf("job: type %q: the handler", jobType))
	if _, taken := w.handlers[jobType]; taken {
		panic(fmt.Sprintf("job: type %q has a handler already", jobType))
	}
	for _, m := range slices.Backward(w.middleware) {
		handler = m(handler)
		argument.Need(handler != nil, "job: the handler that a middleware returned")
	}
	w.handlers[jobType] = handler
}

// SetQueues changes the queues that the worker serves and how many jobs of each run at once, as [WithQueues] does, also while
// it runs: new queues are claimed from at once. Running jobs go on where their queue is gone or has become smaller. It is
// safe for concurrent use.
func (w *Worker) SetQueues(concurrency map[string]int) {
	w.mu.Lock()
	for _, q := range w.queues {
		q.size = 0
	}
	for name, size := range concurrency {
		if size < 1 {
			size = DefaultConcurrency
		}
		w.queue(name).size = size
	}
	maps.DeleteFunc(w.queues, func(_ string, q *queue) bool { return q.size == 0 && q.busy == 0 })
	w.mu.Unlock()
	signal(w.wake)
}

// queue finds or adds a queue. The caller holds mu.
func (w *Worker) queue(name string) *queue {
	q := w.queues[name]
	if q == nil {
		q = &queue{}
		w.queues[name] = q
	}
	return q
}

// key is the policy key of a job. Those of queues that came later are not kept.
func (w *Worker) key(queueName, jobType string) policy.Key {
	if key, ok := w.keys[kind{queueName, jobType}]; ok {
		return key
	}
	return policy.JobKey(queueName, jobType)
}

// Healthy returns an error if the store has not answered for the time given.
func (w *Worker) Healthy(within time.Duration) error {
	last := time.Unix(0, w.lastAnswer.Load())
	if age := time.Since(last); age > within {
		return fmt.Errorf("job: the store has not answered for %v", age.Round(time.Second))
	}
	return nil
}

// Run works until ctx ends. It then claims nothing more, gives running jobs the grace period to finish, cancels their
// contexts, and releases what is still running so that other workers take over at once. It returns nil after an orderly
// shutdown, also when jobs had to be released. A second Run is an error.
func (w *Worker) Run(ctx context.Context) error {
	if ctx == nil {
		return errors.New("job: Run: the context is nil")
	}
	if !w.ran.CompareAndSwap(false, true) {
		return errors.New("job: the worker has run already; make another one")
	}
	if err := CheckLease(w.lease); err != nil {
		return err
	}
	if err := w.checkPeriodic(); err != nil {
		return err
	}
	w.types = slices.Sorted(maps.Keys(w.handlers))
	w.keys = map[kind]policy.Key{}
	w.mu.Lock()
	for queue := range w.queues {
		for jobType := range w.handlers {
			w.keys[kind{queue, jobType}] = policy.JobKey(queue, jobType)
		}
	}
	w.mu.Unlock()
	switch {
	case w.document != nil && w.noRetries:
		w.log.Info("job: WithRetryPolicy(nil) is set beside a provider: no job is retried, whatever its policies say")
	case w.document != nil && w.code != nil:
		w.log.Info("job: a retry policy in code is set beside a provider: it governs where the provider has no entry for a job's queue or type")
	}
	w.lastAnswer.Store(time.Now().UnixNano())
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var services sync.WaitGroup
	services.Go(func() { w.settler.run(background) })
	services.Go(func() { w.extend(background) })
	services.Go(func() { w.maintain(background) })
	services.Go(func() { w.lead(background) })
	if n, ok := w.store.(Notifier); ok {
		services.Go(func() { w.listen(background, "new work", n.Notify, w.wake) })
	}
	if n, ok := w.store.(CancelNotifier); ok {
		services.Go(func() { w.listen(background, "cancellations", n.NotifyCancel, w.cancels) })
	}

	w.claim(ctx, background)
	w.shutdown()
	w.settler.close()
	stop()
	services.Wait()
	return nil
}

// claim takes jobs as slots become free, until ctx ends. Jobs run under the background context.
func (w *Worker) claim(ctx, background context.Context) {
	poll := time.NewTimer(w.poll)
	defer poll.Stop()
	failures := 0
	for ctx.Err() == nil {
		more := true // all slots are taken: there may be more work when one is free
		if slots := w.free(); len(slots) > 0 {
			// Not under ctx: a claim that is cut off may have been made, and would hold its jobs until their leases end.
			records, err := w.take(ctx, background, slots)
			if err != nil {
				failures++
				if ctx.Err() == nil {
					w.outage.failed("claim", err)
				}
				pause(ctx, failures)
				continue
			}
			failures = 0
			w.outage.works("claim")
			received := time.Now()
			w.lastAnswer.Store(received.UnixNano())
			for _, r := range records {
				if ctx.Err() != nil {
					w.settler.add(r, interrupted(r, false))
				} else {
					w.start(background, r, received)
				}
			}
			more = filled(slots, records)
		}
		poll.Reset(w.poll)
		var slot <-chan struct{}
		if more {
			slot = w.slot
		}
		select {
		case <-ctx.Done():
		case <-slot:
		case <-w.wake:
		case <-poll.C:
		}
	}
}

// take claims jobs. It does not wait for a store that hangs until the leases would be over, nor much beyond a shutdown.
func (w *Worker) take(ctx, background context.Context, slots []Slots) ([]*Record, error) {
	patience, cancel := context.WithTimeout(background, w.lease)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		t := time.NewTimer(obedience)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-patience.Done():
		}
	})()
	return w.store.Claim(patience, Claim{Worker: w.name, Queues: slots, Types: w.types, Lease: w.lease})
}

// filled reports whether a queue gave as much as it was asked for, and so may have more.
func filled(slots []Slots, records []*Record) bool {
	got := map[string]int{}
	for _, r := range records {
		got[r.Queue]++
	}
	return slices.ContainsFunc(slots, func(s Slots) bool { return got[s.Queue] >= s.Free })
}

// pause waits after the n-th failure in a row: 50 ms doubling to 5 s, with full jitter.
func pause(ctx context.Context, n int) {
	d := min(50*time.Millisecond<<min(n, 10), 5*time.Second)
	t := time.NewTimer(rand.N(d) + time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// free lists the queues with free slots; none where the worker has no handlers.
func (w *Worker) free() []Slots {
	if len(w.types) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var slots []Slots
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		if q := w.queues[name]; q.busy < q.size {
			slots = append(slots, Slots{Queue: name, Free: q.size - q.busy})
		}
	}
	return slots
}

// signal fills a channel of one element.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// start runs a claimed job on a goroutine of its own.
func (w *Worker) start(background context.Context, r *Record, received time.Time) {
	ctx, cancel := context.WithCancelCause(background)
	w.mu.Lock()
	q := w.queue(r.Queue) // new where SetQueues has removed it during the claim
	q.busy++
	if old, ok := w.running[r.ID]; ok { // its lease was lost while the store was out of reach
		old.cancel(errLeaseLost)
	}
	w.running[r.ID] = &running{record: r, cancel: cancel}
	w.mu.Unlock()
	w.group.Go(func() {
		s := Settlement{Ref: r.Ref(), Started: time.Since(received), NotRun: true}
		settle, returned := false, false
		defer func() {
			if !returned && !errors.Is(context.Cause(ctx), errLeaseLost) { // the handler has ended this goroutine
				settle = true
				w.settler.add(r, w.exited(ctx, s, r))
			}
			cancel(nil)
			if !settle {
				w.forget(r.Ref())
			}
			w.mu.Lock()
			if q.busy--; q.busy == 0 && q.size == 0 {
				delete(w.queues, r.Queue)
			}
			w.mu.Unlock()
			signal(w.slot)
		}()
		s, settle = w.attempt(ctx, r, s)
		if returned = true; settle {
			w.settler.add(r, s) // may wait for room; the slot stays taken as long
		}
	})
}

// forget ends the care for a job: its lease is not extended any more.
func (w *Worker) forget(lease Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run, ok := w.running[lease.ID]; ok && run.record.Fence == lease.Fence {
		delete(w.running, lease.ID)
	}
}

// shutdown waits for running jobs, then cancels them, then leaves those behind that do not obey.
func (w *Worker) shutdown() {
	done := make(chan struct{})
	go func() {
		w.group.Wait()
		close(done)
	}()
	if await(done, w.grace) {
		return
	}
	w.mu.Lock()
	for _, run := range w.running {
		run.cancel(errShutdown)
	}
	w.mu.Unlock()
	if await(done, obedience) {
		return
	}
	w.mu.Lock()
	left := slices.Collect(maps.Values(w.running))
	w.mu.Unlock()
	for _, run := range left {
		w.log.Warn("job: a handler ignores its context and is left behind", "job", run.record.ID, "type", run.record.Type)
		w.settler.add(run.record, interrupted(run.record, true))
	}
}

// obedience is how long handlers have to return after their context was cancelled.
const obedience = 2 * time.Second

func await(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
