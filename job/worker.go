package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/retry"
)

// Worker claims jobs and runs their handlers. Register handlers before Run; a worker runs once.
//
// Its parts and the calls of the store that each makes; the loops claim, settler, leases, upkeep and listen have a goroutine
// each, and leader has two, one of them for redrives:
//
//	Claim          Settle        Extend         Maintain       Lead, Enqueue   Notify
//	  │              ▲              ▲               ▲                ▲            │
//	  ▼              │              │               │                │            ▼
//	claim         settler        leases          upkeep            leader       listen
//	  │ free ▲       ▲ add          ▲ add, drop     │ wake                        │ wake
//	  │      │       │              │               └───────► claim ◄─────────────┘
//	  │    slots     │              │
//	  │      ▲ take, give           │
//	  ▼      │       │              │
//	start: a goroutine for each job ─► runner.attempt ─► handler
//
// All loops report to health. slots, settler, leases, upkeep and health have one lock each. No part calls another while it
// holds its lock.
type Worker struct {
	settings settings
	store    Store
	runner   *runner     // runs attempts
	slots    *slots      // counts running jobs by queue
	leases   *leases     // extends the leases of running jobs
	settler  *settler    // writes settlements
	upkeep   *upkeep     // makes due jobs ready, reclaims lost leases
	reporter *reporter   // notifies the observer and the log
	health   *health     // tracks whether the store answers
	wake     wait.Signal // there may be new work
	freed    wait.Signal // a job has ended
	running  sync.WaitGroup
	ran      atomic.Bool
}

// NewWorker makes a worker of a store. A nil store panics.
func NewWorker(store Store, options ...WorkerOption) *Worker {
	argument.Need(store != nil, "job: NewWorker: the store")
	s := newSettings(options)
	s.executor.RecoverPanics = true // a panic in user code must not stop the worker's other jobs
	// Handlers often use the store's database.
	if exports, ok := store.(interface{ Classes() classify.Family }); ok {
		s.executor.Classes = append(slices.Clip(s.executor.Classes), exports.Classes())
	}
	s.observer = observe.Multi(s.executor.Observer, s.observer)
	s.executor.Provider, s.executor.Observer = s.policies.provider(), s.observer

	w := &Worker{settings: s, store: store, wake: wait.NewSignal(), freed: wait.NewSignal()}
	w.health = &health{log: s.log, answer: time.Now()}
	w.runner = &runner{
		policies: s.policies, executor: retry.NewExecutor(s.executor), middleware: s.middleware,
		handlers: map[string]RawHandler{}, batchers: map[string]gatherer{}, codec: s.codec, log: s.log,
	}
	w.runner.flows, _ = store.(FlowStore)
	w.reporter = &reporter{observer: s.observer, log: s.log, worker: s.name, runner: w.runner}
	w.slots = &slots{others: s.stored || !s.named}
	w.slots.set(s.queues)
	w.leases = &leases{
		store: store, length: s.lease, cancelled: wait.NewSignal(), late: wait.NewSignal(), health: w.health, log: s.log, running: map[string]running{},
	}
	w.upkeep = &upkeep{
		store: store, timeout: s.answerTime(), wake: w.wake, nearer: wait.NewSignal(), health: w.health, report: w.reporter,
		limits: &publisher{store: store, document: s.policies.document},
	}
	w.settler = newSettler(store, s.lease)
	w.settler.answered = w.settled
	w.settler.failing = func(err error) { w.health.report("settle", err) }
	return w
}

func newSettings(options []WorkerOption) settings {
	s := settings{
		lease: DefaultLease, grace: DefaultGrace, poll: DefaultPoll, queues: map[string]int{DefaultQueue: DefaultConcurrency},
	}
	WithLogger(nil)(&s)
	for _, o := range options {
		argument.Need(o != nil, "job: NewWorker: an option")
		o(&s)
	}
	if s.name == "" {
		host, _ := os.Hostname()
		s.name = fmt.Sprintf("%s/%d/%08x", host, os.Getpid(), rand.Uint32())
	}
	return s
}

// Name is the worker's name, as it appears in the history of jobs.
func (w *Worker) Name() string { return w.settings.name }

// HandleRaw registers a handler that decodes the payload itself. Registering a type twice panics, and so does a nil handler.
func (w *Worker) HandleRaw(jobType string, handler RawHandler) { w.runner.register(jobType, handler) }

// SetQueues changes the queues that the worker serves and how many jobs of each run at once, as [WithQueues] does, also while
// it runs: new queues are claimed from at once. What operators have set in the store takes precedence. Running jobs continue if
// their queue is gone or has become smaller. A name that is missing, longer than 128 bytes, not valid UTF-8 or contains NUL is logged and
// left out. It is safe for concurrent use.
func (w *Worker) SetQueues(concurrency map[string]int) {
	served := maps.Clone(concurrency)
	maps.DeleteFunc(served, func(name string, _ int) bool {
		problem := queueProblem(name)
		if problem != "" {
			w.settings.log.Error("job: SetQueues: a queue is left out", "queue", name, "problem", problem)
		}
		return problem != ""
	})
	w.slots.set(served)
	w.wake.Send()
}

// Queues returns the queues that the worker serves and how many jobs of each it runs at once, with what operators have set in
// the store. It is safe for concurrent use.
func (w *Worker) Queues() map[string]int { return w.slots.sizes() }

// override applies the concurrency of queues that operators have set.
func (w *Worker) override(list []Setting) {
	set := map[string]int{}
	for _, s := range list {
		if n, ok := s.Concurrency(); ok {
			set[s.Name] = n
		}
	}
	if w.slots.override(set) {
		w.settings.log.Info("job: the store has changed the queues", "queues", w.slots.sizes())
		w.wake.Send()
	}
}

// Healthy returns an error if the store has not answered for the time given.
func (w *Worker) Healthy(within time.Duration) error { return w.health.check(within) }

// Run works until ctx ends. It then claims no further jobs, gives running jobs the grace period to finish, cancels their
// contexts, and releases the jobs that are still running so that other workers take over at once. It returns nil after an
// orderly shutdown, even if jobs had to be released. A second Run is an error.
func (w *Worker) Run(ctx context.Context) error {
	if ctx == nil {
		return errors.New("job: Run: the context is nil")
	}
	if !w.ran.CompareAndSwap(false, true) {
		return errors.New("job: the worker has run already; make another one")
	}
	w.runner.start(w.slots.served())
	claim := Claim{Worker: w.settings.name, Queues: w.slots.free(), Types: w.runner.types, Lease: w.settings.lease}
	if err := cmp.Or(claim.Check(), checkPeriodic(w.settings.periodic)); err != nil {
		return err
	}
	w.settings.policies.warn(w.settings.log)
	if len(w.runner.types) == 0 {
		w.settings.log.Warn("job: the worker has no handlers and claims no jobs; register them before Run")
	}
	w.health.answered()
	w.publish(ctx)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var services sync.WaitGroup
	leader := w.leader()
	if store, ok := w.store.(SettingStore); ok {
		f := &follower{store: store, timeout: w.settings.answerTime(), health: w.health, version: -1, apply: func(list []Setting) {
			leader.follow(list)
			w.override(list)
		}}
		f.look(ctx, cancelGrace) // a store that does not answer is asked again
		services.Go(func() { f.run(background) })
	}
	for _, run := range []func(context.Context){w.settler.run, w.leases.run, w.upkeep.run, leader.run, leader.redrive} {
		services.Go(func() { run(background) })
	}
	if n, ok := w.store.(Notifier); ok {
		services.Go(func() { w.listen(background, listening{"new work", n.Notify, w.wake}) })
	}
	if n, ok := w.store.(CancelNotifier); ok {
		services.Go(func() { w.listen(background, listening{"cancellations", n.NotifyCancel, w.leases.cancelled}) })
	}

	if store, ok := w.store.(Relay); ok {
		events := &w.reporter.events
		r := &relay{store: store, timeout: w.settings.answerTime(), events: events, health: w.health, own: events.subscribe(relayRoom)}
		services.Go(func() { r.run(background) })
	}

	w.claim(ctx, background)
	w.shutdown()
	// A store that does not answer gets the length of a lease: after that it would refuse the settlements.
	if left := w.settler.close(w.settings.lease); left > 0 {
		w.settings.log.Error("job: settlements could not be written before the leases ended; the jobs will run again", "count", left)
	}
	stop()
	services.Wait()
	return nil
}

// publish tells the store of the document's limits before the worker claims its first jobs. If it fails, upkeep tries again.
func (w *Worker) publish(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, w.settings.answerTime())
	defer cancel()
	w.health.report("publish limits", w.upkeep.limits.publish(limited))
}

func (w *Worker) leader() *leader {
	return &leader{
		store: w.store, client: &Client{store: w.store, maxPayload: DefaultMaxPayload, codec: w.settings.codec},
		name: w.settings.name, timeout: w.settings.answerTime(), round: w.settings.lease, keep: w.settings.keep,
		periodic: w.settings.periodic, changed: wait.NewSignal(),
		takes: func() WorkerInfo {
			return WorkerInfo{Name: w.settings.name, Queues: w.slots.served(), Types: w.runner.types}
		},
		health: w.health, report: w.reporter, log: w.settings.log,
	}
}

// claim claims jobs as slots become free, until ctx ends. Jobs run under the background context.
func (w *Worker) claim(ctx, background context.Context) {
	poll := time.NewTimer(w.settings.poll)
	defer poll.Stop()
	backoff := wait.Backoff{Min: firstPause, Max: longestPause}
	for ctx.Err() == nil {
		more := true // all slots are taken, so there may be more work when one is free
		if free := w.slots.free(); len(free) > 0 && len(w.runner.types) > 0 {
			began := time.Now()
			records, err := Take(ctx, w.store, Claim{Worker: w.settings.name, Queues: free, Types: w.runner.types, Lease: w.settings.lease})
			if err != nil {
				w.health.reportUnder(ctx, "claim", err)
				_ = backoff.Wait(ctx)
				continue
			}
			backoff.Reset()
			w.health.report("claim", nil)
			w.health.answered()
			received := time.Now()
			if ctx.Err() != nil {
				w.putBack(records, false)
				return
			}
			w.runner.expect(records)
			for _, r := range records {
				w.start(background, r, received)
			}
			w.leases.claimed(began)
			more = filled(free, records)
		}
		poll.Reset(w.settings.poll)
		var freed wait.Signal
		if more {
			freed = w.freed
		}
		select {
		case <-ctx.Done():
		case <-freed:
		case <-w.wake:
		case <-poll.C:
		}
	}
}

// Take claims jobs. It does not pass ctx on: a claim that ctx interrupts could still succeed in the store, and its jobs would lose an
// attempt when their leases end. Take gives up on a store that hangs after the length of a lease, and 2 s after the end of ctx, so
// it may return jobs after ctx has ended.
func Take(ctx context.Context, store Store, c Claim) ([]*Record, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Lease)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if wait.For(limited, cancelGrace) == nil {
			cancel()
		}
	})()
	return store.Claim(limited, c)
}

// putBack releases jobs at the worker's shutdown, before or after their handlers were called.
func (w *Worker) putBack(list []*Record, ran bool) {
	limited, cancel := context.WithTimeout(context.Background(), cancelGrace)
	defer cancel()
	for _, r := range list {
		w.settler.add(limited, r, interrupted(r, ran))
	}
}

// filled reports whether a queue gave as many jobs as it was asked for, and so may have more.
func filled(free []Slots, records []*Record) bool {
	got := map[string]int{}
	for _, r := range records {
		got[r.Queue]++
	}
	return slices.ContainsFunc(free, func(s Slots) bool { return got[s.Queue] >= s.Free })
}

// start runs a claimed job on its own goroutine.
func (w *Worker) start(background context.Context, r *Record, received time.Time) {
	w.running.Go(w.turn(background, r, received))
}

// turn takes a slot for a claimed job and returns what its goroutine does. received is zero if no time passes until it begins.
func (w *Worker) turn(background context.Context, r *Record, received time.Time) func() {
	ctx, cancel := context.WithCancelCause(background)
	w.slots.take(r.Queue)
	w.leases.add(r, cancel)
	w.reporter.started(r, received)
	return func() {
		growStack(0)
		s := Settlement{Ref: r.Ref(), NotRun: true}
		if !received.IsZero() {
			s.Started = time.Since(received)
		}
		settle, returned := false, false
		defer func() {
			if !returned && !errors.Is(context.Cause(ctx), errLeaseLost) { // the handler has ended this goroutine
				settle = true
				w.leases.returned(r.Ref())
				w.settler.add(background, r, w.runner.exited(ctx, s, r))
			}
			cancel(nil)
			if !settle {
				w.leases.drop(r.Ref())
			}
			w.slots.give(r.Queue)
			w.freed.Send()
		}()
		s, settle = w.runner.attempt(ctx, r, s)
		if returned = true; settle {
			w.leases.returned(r.Ref())
			w.settler.add(background, r, s) // may wait for room, with the slot taken
		}
	}
}

// growStack makes a new goroutine's stack deep enough for the calls to a handler that decodes JSON. Without it the stack grows twice on
// the way and is copied each time, which takes a fifth of the processor time of a job in memory.
//
//go:noinline
func growStack(i int) byte {
	var room [8 << 10]byte
	return room[i]
}

// settled notes the store's final answer to a settlement.
func (w *Worker) settled(x settling, err error, at time.Time) {
	if err == nil {
		w.upkeep.scheduled(&x.Settlement)
		w.reporter.moved(&x, at)
		w.reporter.logDead(x.record, &x.Settlement)
	} else {
		w.settings.log.Warn("job: a late result was refused", "job", x.ID, "kind", x.Kind, "error", err)
	}
	w.leases.drop(x.Ref)
}

// cancelGrace is how long handlers have to return after their context was cancelled.
const cancelGrace = 2 * time.Second

// shutdown waits for running jobs, then cancels them, then releases the jobs whose handlers ignore that.
func (w *Worker) shutdown() {
	done := make(chan struct{})
	go func() {
		w.running.Wait()
		close(done)
	}()
	if wait.Closed(done, w.settings.grace) {
		return
	}
	for _, run := range w.leases.held() {
		run.cancel(errShutdown)
	}
	if wait.Closed(done, cancelGrace) {
		return
	}
	var left []*Record
	for _, run := range w.leases.held() {
		if !run.returned {
			w.settings.log.Warn("job: a handler ignores its context and is left behind", "job", run.record.ID, "type", run.record.Type)
			left = append(left, run.record)
		}
	}
	w.putBack(left, true)
}

// listening is a subscription to one kind of a store's signals.
type listening struct {
	of     string // for the log
	notify func(context.Context) (<-chan struct{}, error)
	to     wait.Signal
}

// listen forwards the store's signals of one kind, and subscribes again when the subscription ends.
func (w *Worker) listen(ctx context.Context, l listening) {
	for backoff := (wait.Backoff{Min: firstPause, Max: longestPause}); ctx.Err() == nil; {
		signals, err := l.notify(ctx)
		if err != nil {
			if backoff.Failures() == 0 && ctx.Err() == nil {
				w.settings.log.Info("job: the store cannot notify now; polling instead", "of", l.of, "error", err)
			}
			_ = backoff.Wait(ctx)
			continue
		}
		if backoff.Failures() > 0 {
			w.settings.log.Info("job: the store notifies again", "of", l.of)
		}
		backoff.Reset()
		l.to.Send() // for events before the subscription
		for range signals {
			l.to.Send()
		}
	}
}
