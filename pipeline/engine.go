package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
	starter  observe.Starter

	workStep  string // process or produce
	work      func(ctx context.Context, t *Transaction) (any, error)
	success   SuccessHandler
	exception ExceptionHandler
	acker     Acker
	nacker    Nacker
	extender  Extender
	checked   []any // what Check asks
	keys      keys
	operation map[string]string // as records name the steps; made once
	chunked   bool              // the next batch waits for the last one to have ended

	drained chan struct{}
	drain   sync.Once
	busy    atomic.Bool
	current atomic.Pointer[run]
}

// keys of the engine's steps, made once.
type keys struct{ fetch, work, success, exception, transaction, run policy.Key }

func newEngine(k kind, o options, steps map[string]policy.Step, l loop) *engine {
	e := &engine{options: o, kind: k, drained: make(chan struct{})}
	e.workStep = stepProcess
	if k == producer {
		e.workStep = stepProduce
	}
	key := func(step string) policy.Key { return k.key(o.name, step) }
	e.keys = keys{key(stepFetch), key(e.workStep), key(stepSuccess), key(stepException), key(stepTransaction), key(stepRun)}
	e.operation = map[string]string{}
	for _, step := range []string{stepFetch, e.workStep, stepSuccess, stepException, stepTransaction, stepRun} {
		e.operation[step] = o.name + "." + step
	}
	e.policies, e.fault = fixed(k, o.name, steps, l)
	if e.fault != nil {
		return e
	}
	e.policies.live, e.policies.log = o.provider, o.log
	x := o.executor
	x.RecoverPanics = true // a panic in user code must not take the engine's other transactions with it
	e.observer = observe.Multi(x.Observer, o.observer)
	e.starter, _ = e.observer.(observe.Starter)
	x.Provider, x.Observer = e.policies, e.observer
	e.executor = retry.NewExecutor(x)
	return e
}

// feeder gets the next transactions, at most max of them. end says that there will never be more. What came with an error is
// not lost.
type feeder func(ctx context.Context, r *run, max int) (got []Delivery, end bool, err error)

// obedience is how long work has to return that is cancelled because a drain took too long.
const obedience = 2 * time.Second

// start runs the engine until its work is done or has to end. after is called when the feeder has ended.
func (e *engine) start(ctx context.Context, feed feeder, after func()) (Summary, error) {
	if e.fault != nil {
		after()
		return Summary{}, e.fault
	}
	if ctx == nil {
		after()
		return Summary{}, fmt.Errorf("pipeline: %s %s: Run: the context is nil", e.kind, e.name)
	}
	if !e.busy.CompareAndSwap(false, true) {
		after()
		return Summary{}, fmt.Errorf("pipeline: %s %s runs already; make another engine to run twice", e.kind, e.name)
	}
	defer e.busy.Store(false)
	if ctx.Err() != nil {
		after()
		return Summary{}, e.endedBy(ctx)
	}
	e.policies.refresh(ctx)
	r := newRun(e, ctx)
	e.current.Store(r)
	select {
	case <-e.drained:
		r.drainAll() // before the feeder can begin
	default:
	}
	var services sync.WaitGroup
	services.Go(r.settle)
	services.Go(r.extend)
	go func() {
		defer after()
		r.feed(feed)
	}()
	err := r.supervise(ctx)
	r.close()
	if !wait(&services, max(e.grace, obedience)) {
		e.log.Warn("pipeline: the source does not answer; acknowledgements are left behind", "pipeline", e.name)
	}
	r.cancel(nil)
	summary := r.finish(err)
	return summary, err
}

// supervise waits for the end of the work, or brings it about.
func (r *run) supervise(ctx context.Context) error {
	var patience, grace, timeout <-chan time.Time
	if limit := r.policies.loop().timeout; limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		timeout = t.C
	}
	done, drained := ctx.Done(), r.drained
	var ended error
	stop := func(err error, wait time.Duration) {
		done, drained, grace, timeout = nil, nil, nil, nil
		ended, patience = err, time.After(wait)
		r.stop(err)
	}
	for {
		select {
		case <-r.done:
			return r.why(ended)
		case <-drained:
			drained, grace = nil, time.After(r.grace)
			r.drainAll()
		case <-grace:
			stop(nil, obedience)
		case <-timeout:
			stop(r.timedOut(), r.grace)
		case <-done:
			stop(r.endedBy(ctx), r.grace)
		case <-patience:
			r.abandon()
			return r.why(ended)
		}
	}
}

// why joins what ended the run with what broke it.
func (r *run) why(ended error) error {
	broken := r.fault()
	switch {
	case broken == nil:
		return ended
	case ended == nil:
		return broken
	}
	return errors.Join(ended, broken)
}

func (e *engine) endedBy(ctx context.Context) error {
	return fmt.Errorf("pipeline: %s %s: %w", e.kind, e.name, context.Cause(ctx))
}

func (r *run) timedOut() error {
	limit := r.policies.loop().timeout
	if r.kind == producer {
		return &ProducerLoopTimeoutError{Producer: r.name, Timeout: limit}
	}
	return &ConsumerLoopTimeoutError{Consumer: r.name, Timeout: limit}
}

// wait waits for a group, but not longer than d.
func wait(group *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// Drain ends the run in good order: nothing more is fetched, and what has been fetched is finished. What is not finished
// after the grace period is cancelled and given back. It returns at once, may be called from anywhere and before Run, and
// cannot be taken back: a drained engine fetches nothing in later runs either.
func (e *engine) Drain() { e.drain.Do(func() { close(e.drained) }) }

// Progress is where the present run stands, or stood when it ended. It is zero before the first.
func (e *engine) Progress() Progress {
	if r := e.current.Load(); r != nil {
		return r.progress()
	}
	return Progress{}
}

// Healthy returns an error while the source hangs: a fetch has been running for longer than its timeout (a
// minute where it has none) and a margin of 10 s. An empty source is healthy, and so is an engine that does not run. It says nothing about the input of a producer.
func (e *engine) Healthy() error {
	if r := e.current.Load(); r != nil {
		return r.healthy()
	}
	return nil
}

// Check asks source, sinks and task whether they are usable, those that can tell ([Checker]).
func (e *engine) Check(ctx context.Context) error {
	var faults []error
	for _, part := range e.checked {
		if c, ok := part.(Checker); ok {
			faults = append(faults, c.Check(ctx))
		}
	}
	return errors.Join(faults...)
}
