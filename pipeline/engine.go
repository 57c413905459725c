package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// engine is what consumers and producers have in common.
type engine struct {
	options
	kind     kind
	fault    error // why it cannot run
	policies *policies
	executor *retry.Executor
	observer observe.Observer
	starter  observe.Starter // the observer, if it begins spans
	steps    steps
	capabilities
	ends ends

	drained chan struct{}
	drain   sync.Once
	busy    atomic.Bool
	current atomic.Pointer[run]

	abandoned abandoned
}

// ends are what an engine reads and writes.
type ends struct {
	parts        []any  // source, sinks and task, for Check
	source, sink string // their kinds, for observers
}

// abandoned are the transactions that a run gave up while their tasks still ran.
type abandoned struct {
	mu  sync.Mutex // taken after a run's mu
	ids map[string]struct{}
}

// steps are the operations that an engine runs on a transaction, and their names. They are made once.
type steps struct {
	work      string // the name of the first step, process or produce
	do        func(ctx context.Context, t *Transaction) (any, error)
	success   func(ctx context.Context, t *Transaction, result any) error // nil for none, as exception
	exception func(ctx context.Context, t *Transaction, cause error) error
	keys      keys
	operation map[string]string // the names of the steps in records
}

type keys struct{ fetch, work, success, exception, transaction, run policy.Key }

// capabilities are the optional interfaces of a consumer's source; nil for each that it does not implement.
type capabilities struct {
	acker    Acker
	nacker   Nacker
	extender Extender
	lagger   Lagger
}

func capabilitiesOf(source Source) (c capabilities) {
	c.acker, _ = source.(Acker)
	c.nacker, _ = source.(Nacker)
	c.extender, _ = source.(Extender)
	c.lagger, _ = source.(Lagger)
	return c
}

func stepsOf(k kind, name string) steps {
	s := steps{work: stepProcess, operation: map[string]string{}}
	if k == producer {
		s.work = stepProduce
	}
	for _, step := range []string{stepFetch, s.work, stepSuccess, stepException, stepTransaction, stepRun} {
		s.operation[step] = name + "." + step
	}
	key := func(step string) policy.Key { return k.key(name, step) }
	s.keys = keys{key(stepFetch), key(s.work), key(stepSuccess), key(stepException), key(stepTransaction), key(stepRun)}
	return s
}

// newEngine makes an engine that lacks its task, source and sink.
func newEngine(k kind, o options, p enginePolicy) *engine {
	e := &engine{options: o, kind: k, steps: stepsOf(k, o.name), drained: make(chan struct{}), abandoned: abandoned{ids: map[string]struct{}{}}}
	policies, err := newPolicies(k, o.name, p)
	if err := errors.Join(p.fault, err); err != nil {
		e.fault = fmt.Errorf("pipeline: %s %s: policy: %w", k, o.name, err)
		return e
	}
	e.policies = policies
	e.policies.live, e.policies.log = o.provider, o.log
	x := o.executor
	x.RecoverPanics = true // a panic in user code must not stop the engine's other transactions
	e.observer = observe.Multi(x.Observer, o.observer)
	e.starter, _ = e.observer.(observe.Starter)
	x.Provider, x.Observer = e.policies, e.observer
	e.executor = retry.NewExecutor(x)
	return e
}

// cancelGrace is how long work may take to return after it is cancelled because a drain took too long.
const cancelGrace = 2 * time.Second

// start runs the engine until its work is done or must stop. It calls after when the feeder has ended.
func (e *engine) start(ctx context.Context, feed feeder, after func()) (Summary, error) {
	if err := e.acquire(ctx); err != nil {
		after()
		return Summary{}, err
	}
	defer e.busy.Store(false)
	e.policies.refresh(ctx)
	r := newRun(e, ctx)
	e.follow(r)
	select {
	case <-e.drained:
		r.endFetching() // before the feeder can start
	default:
	}
	r.services.Go(func() {
		defer r.settler.end()
		r.settle()
	})
	r.services.Go(r.extend)
	r.services.Go(r.watchLag)
	go func() {
		defer after()
		r.feed(feed)
	}()
	err := r.supervise(ctx)
	r.closeSettler()
	if !waitFor(&r.services, max(e.grace, cancelGrace)) {
		e.log.Warn("pipeline: the source does not answer, or the function of WithEnded does not return; pending acknowledgements are abandoned", "pipeline", e.name)
	}
	r.cancel(nil)
	return r.finish(err), err
}

// acquire marks the engine as busy, or returns an error if it cannot run.
func (e *engine) acquire(ctx context.Context) error {
	switch {
	case e.fault != nil:
		return e.fault
	case ctx == nil:
		return fmt.Errorf("pipeline: %s %s: Run: the context is nil", e.kind, e.name)
	case ctx.Err() != nil:
		return e.endedBy(ctx)
	case !e.busy.CompareAndSwap(false, true):
		return fmt.Errorf("pipeline: %s %s is already running; make another engine to run twice", e.kind, e.name)
	}
	return nil
}

func (e *engine) endedBy(ctx context.Context) error {
	return fmt.Errorf("pipeline: %s %s: %w", e.kind, e.name, context.Cause(ctx))
}

// waitFor waits for a group, for at most d, and reports whether the group is done.
func waitFor(group *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return wait.Closed(done, d)
}

// Drain ends the run in an orderly way: the engine fetches nothing more and finishes the fetched transactions. Those that
// are not finished after the grace period are cancelled and given back. Drain returns at once, may be called from any
// goroutine and before Run, and is final: a drained engine fetches nothing in later runs either.
func (e *engine) Drain() { e.drain.Do(func() { close(e.drained) }) }

// Progress returns the state of the current run, or the final state of the last one. It is zero before the first run.
func (e *engine) Progress() Progress {
	if r := e.current.Load(); r != nil {
		return r.progress()
	}
	return Progress{}
}

// Healthy returns an error while the source hangs: a fetch has been running for longer than its timeout (a minute if it has
// none) plus a margin of 10 s. An empty source is healthy, and so is an engine that is not running. Healthy does not check
// the input of a producer.
func (e *engine) Healthy() error {
	if r := e.current.Load(); r != nil {
		return r.healthy()
	}
	return nil
}

// Check checks the source, the sinks and the task, as far as they implement [Checker].
func (e *engine) Check(ctx context.Context) error {
	var faults []error
	for _, part := range e.ends.parts {
		if c, ok := part.(Checker); ok {
			faults = append(faults, c.Check(ctx))
		}
	}
	return errors.Join(faults...)
}
