package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// FailureMode says what happens if something that a policy names, or the policy itself, is missing.
type FailureMode int

// The failure modes. [ExecutorOptions] says what each of them means for each part.
const (
	FailureFallback FailureMode = iota
	FailureAllow
	FailureDeny
)

// String returns fallback, allow or deny.
func (m FailureMode) String() string {
	switch m {
	case FailureAllow:
		return "allow"
	case FailureDeny:
		return "deny"
	}
	return "fallback"
}

// ExecutorOptions configure an [Executor]. The zero value is a working executor with built-in defaults.
type ExecutorOptions struct {
	// Provider finds policies. Default: the built-in default policy for every key.
	Provider policy.Provider
	// Shadow finds policies under trial. They are evaluated beside those in force, without effect: if the policy under trial
	// decides differently, Shadow of the [observe.Decision] says how. Both policies decide from the same facts in the same state; budgets,
	// breakers, limits, hedges, timeouts of attempts and classifiers are those of the policy in force. Without an Observer or
	// a Journal nothing is evaluated. A key for which Shadow fails is not compared. Shadow gets a context that has
	// ended, so that work does not wait for its answer: it must load policies in the background. Default none.
	Shadow policy.Provider
	// Observer receives every event. Default none. Combine several with observe.Multi.
	Observer observe.Observer
	// Journal receives decisions before they take effect and can refuse them. Default none.
	Journal observe.Journal
	// Budgets that policies may name. A budget here wins over a document's budget of the same name.
	Budgets *budget.Registry
	// Sharing connects the executor with the processes that share budgets, breakers and limits. The caller closes the hub after
	// the last call. Without one, what a policy shares counts for this process only, which is reported once per policy.
	Sharing *sharing.Hub
	// Classifiers that policies may name.
	Classifiers map[string]classify.Classifier
	// Triggers that policies may name in addition to fixed, p50, p90, p95 and p99.
	Triggers map[string]hedge.Trigger
	// Classes are families of error classes in addition to the built-in ones.
	Classes []classify.Family

	// MissingPolicyMode applies when the provider fails: fallback (default) uses the policy that came with the error, or
	// else policy.DefaultPolicyFor; allow runs a single attempt; deny fails with ErrNoPolicy.
	MissingPolicyMode FailureMode
	// MissingClassifierMode: fallback (default) and allow use the default classifier; deny fails with ErrNoClassifier.
	MissingClassifierMode FailureMode
	// MissingBudgetMode: fallback (default) and allow let every attempt through; deny refuses it.
	MissingBudgetMode FailureMode
	// MissingTriggerMode: fallback (default) and allow hedge after the fixed delay; deny does not hedge.
	MissingTriggerMode FailureMode

	// RecoverPanics turns panics of the provider, classifiers (matchers of classes and methods of errors included), budgets,
	// triggers, the journal and Wait into an abort with a *PanicError. Panics of the observer and of Clock are reported to the
	// observer, and the call goes on. By default these panics reach the caller. When a hedged attempt that lost ends after
	// the call has returned, a panic of the observer or of a budget's Release ends the process, because there is no caller to get
	// it. Panics of operations always reach the caller.
	RecoverPanics bool
	// Limits are applied to policies that no provider compiled. Default: the limits of the provider's document, or else
	// policy.CallLimits().
	Limits *policy.Limits
	// MaxKeys is the number of keys whose state is kept, default 1024. Beyond it, the least recently used key loses its
	// state, which is reported once: keys are meant to be of low cardinality.
	MaxKeys int
	// Clock returns the times of records. Default: the system clock, whose steps show in records within a second. Timeouts
	// and delays do not use it.
	Clock func() time.Time
	// Wait replaces the timer between attempts and the timer for a turn under a rate limit. It returns early, with the context's
	// error, when the context ends. It is meant for tests; see package tenettest.
	Wait func(ctx context.Context, d time.Duration) error
	// World replaces the clock, the timers and the goroutines of hedges by those of a simulation; see package simulate. Only
	// Tenet's own packages can set it. Calls in a world take contexts that do not end; their operations use
	// the context's Deadline and Err, not Done; there is no observer.
	World virtual.World
}

// Executor runs operations under policies. It is safe for concurrent use; create one with [NewExecutor] and share it.
type Executor struct {
	options    ExecutorOptions
	versioned  policy.Versioned // the provider, if it has versions
	starter    observe.Starter  // the observer, if it receives start events
	vocabulary atomic.Pointer[vocabulary]
	supplied   atomic.Uint64 // counts changes of the vocabulary and of the document's budgets

	keys keyTable

	mu              sync.Mutex // guards the fields below, and writes to keys
	documentBudgets *budget.Registry
	document        *policy.Set
	evicted         bool
	missing         map[string]bool // names already reported as missing

	losers       losers
	clockReading atomic.Pointer[time.Time] // the last reading of the system clock
}

const (
	defaultMaxKeys = 1024
	noVersion      = math.MaxUint64     // of a plan that is used for one call only
	unknownVersion = math.MaxUint64 - 1 // of a provider whose Version panicked; no plan has it
)

// NewExecutor makes an executor. It panics if a map or list in the options contains nil.
func NewExecutor(options ExecutorOptions) *Executor {
	if options.Provider == nil {
		options.Provider = policy.NewSet(policy.SetConfig{Source: policy.SourceDefault})
	}
	if options.MaxKeys <= 0 {
		options.MaxKeys = defaultMaxKeys
	}
	for name, c := range options.Classifiers {
		argument.Need(c != nil, fmt.Sprintf("retry: NewExecutor: the classifier %q", name))
	}
	for name, t := range options.Triggers {
		argument.Need(t != nil, fmt.Sprintf("retry: NewExecutor: the trigger %q", name))
	}
	for _, f := range options.Classes {
		argument.Need(f.Of != nil, fmt.Sprintf("retry: NewExecutor: the function of the class family %q", f.Names))
	}
	options.Classifiers = maps.Clone(options.Classifiers)
	if options.Classifiers == nil {
		options.Classifiers = map[string]classify.Classifier{}
	}
	options.Triggers = maps.Clone(options.Triggers)
	e := &Executor{
		options: options, documentBudgets: budget.NewSharedRegistry(options.Sharing),
		keys: newKeyTable(options.MaxKeys), missing: map[string]bool{},
	}
	if options.World != nil {
		e.documentBudgets = budget.NewRegistryIn(options.World)
	}
	e.vocabulary.Store(&vocabulary{
		classifiers: options.Classifiers, families: append(classify.Builtin(), options.Classes...), registered: map[string]bool{},
	})
	e.versioned, _ = options.Provider.(policy.Versioned)
	if e.versioned != nil && options.RecoverPanics {
		e.versioned = recoveringVersions{e.versioned}
	}
	e.starter, _ = options.Observer.(observe.Starter)
	if options.Sharing != nil {
		options.Sharing.Watch(e.reportStore)
	}
	return e
}

// New makes an executor that runs every key under r and needs no other setup. Zero fields of r take the built-in default,
// and values outside policy.CallLimits are clamped. New panics if r has an unknown value, such as an unknown jitter. For
// anything beyond retries, use [NewExecutor].
func New(r policy.Retry) *Executor {
	p, err := policy.Compile(policy.Policy{Retry: r}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		panic(fmt.Sprintf("retry: New: %v", err))
	}
	return NewExecutor(ExecutorOptions{Provider: policy.NewSet(policy.SetConfig{Source: policy.SourceStatic, Calls: p})})
}

// planFor returns the plan of a key. It is one lookup while the provider's version is unchanged.
func (e *Executor) planFor(ctx context.Context, key policy.Key) *plan {
	argument.Need(e != nil, "retry: the executor")
	argument.Need(ctx != nil, "retry: the context")
	state := e.keys.get(key)
	if state == nil || e.versioned == nil {
		return e.resolve(ctx, key, state)
	}
	p := state.plan.Load()
	if p.source.version != e.versioned.Version() || p.source.budgets != e.budgetsVersion() {
		return e.resolve(ctx, key, state)
	}
	return p
}

// resolve asks the provider and prepares a plan, unless the current plan was prepared from the same answer.
func (e *Executor) resolve(ctx context.Context, key policy.Key, state *keyState) *plan {
	answer := e.ask(ctx, key)
	if answer.fault != nil && ctx.Err() != nil {
		answer.version = noVersion // the error may be due to this caller's context: the next call asks again
	}
	if state != nil {
		p := state.plan.Load()
		if e.versioned == nil && p.source.found == answer.found && sameFault(p.source.fault, answer.fault) && p.source.budgets == e.budgetsVersion() {
			return p
		}
	}
	p, changed, evicted := e.install(key, answer)
	e.reportMissing(p)
	if changed.Changed() {
		e.reportCircuit(key, p.policy, changed)
	}
	if evicted {
		const detail = "the executor has evicted a key because more keys are in use than MaxKeys; keys must name operations, not requests, tenants or users"
		e.report(context.Background(), observe.Work{Key: key, Surface: key.Surface()}, &observe.Report{
			Reason: policy.ReasonKeyEvicted, Detail: detail,
		})
		if e.options.Observer == nil {
			slog.Warn("tenet: "+detail, "max_keys", e.options.MaxKeys)
		}
	}
	return p
}

// ask asks the provider for a policy.
func (e *Executor) ask(ctx context.Context, key policy.Key) (answer source) {
	if e.options.RecoverPanics {
		defer answer.catch()
	}
	if v, ok := e.options.Provider.(policy.Versioned); ok {
		answer.version = v.Version() // read before asking, so that the next call sees a change in between
	}
	answer.found, answer.fault = e.options.Provider.Policy(ctx, key)
	return answer
}

// recoveringVersions are a provider's versions under RecoverPanics.
type recoveringVersions struct{ policy.Versioned }

// Version returns a version that no plan has if the provider panics. The executor then asks the provider again.
func (v recoveringVersions) Version() (version uint64) {
	defer func() {
		if recover() != nil {
			version = unknownVersion
		}
	}()
	return v.Versioned.Version()
}

// sameFault reports whether two errors of a provider have the same text.
func sameFault(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// install prepares a plan and keeps it under its key. changed is the resulting change of the key's breaker; evicted is true
// the first time that another key is evicted.
func (e *Executor) install(key policy.Key, answer source) (p *plan, changed circuit.Transition, evicted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	current := e.keys.get(key)
	state := current // another goroutine may have added it meanwhile
	if state == nil {
		state = &keyState{key: key} // also for a key that was evicted meanwhile: what it had has left the shared limits
	}
	if e.versioned != nil && current != nil {
		if newer := current.plan.Load(); newer.source.version != answer.version && newer.source.version == e.versioned.Version() {
			return newer, circuit.Transition{}, false // a slow answer must not replace a newer one
		}
	}
	p = e.prepare(key, state, answer)
	state.plan.Store(p)
	if current == nil && e.keys.add(state) {
		evicted, e.evicted = !e.evicted, true
	}
	return p, p.changed, evicted
}

// report sends the observer a report that does not belong to a call's timeline.
func (e *Executor) report(ctx context.Context, w observe.Work, r *observe.Report) {
	if e.options.Observer == nil {
		return
	}
	event := &observe.Event{Type: observe.Reported, Time: e.now(), Work: w, Report: r}
	e.safely(func() { e.options.Observer.Observe(ctx, event) })
}

// notify sends an event to the observer. With RecoverPanics, a panic of the observer does not fail the call.
func (e *Executor) notify(ctx context.Context, event *observe.Event) {
	if e.options.RecoverPanics {
		defer e.recoverObserver(ctx, event.Work)
	}
	e.options.Observer.Observe(ctx, event)
}

// recoverObserver is deferred around the observer under RecoverPanics.
func (e *Executor) recoverObserver(ctx context.Context, w observe.Work) {
	if v := recover(); v != nil {
		e.report(ctx, w, &observe.Report{
			Reason: policy.ReasonPanicInObserver, Panic: v, Stack: debug.Stack(), Detail: "the observer panicked; the work goes on",
		})
	}
}

// safely runs user code outside of any call that its panic could abort.
func (e *Executor) safely(f func()) {
	if e.options.RecoverPanics {
		defer func() { _ = recover() }()
	}
	f()
}

// Policy returns the policy in force for a key: the one that the next call would use. It is shared and read-only.
func (e *Executor) Policy(ctx context.Context, key policy.Key) *policy.Policy {
	return e.planFor(ctx, key).policy
}

// now returns the time for records. It adds the monotonic time to a clock reading that is at most a second old, which is
// cheaper than a new reading each time.
func (e *Executor) now() time.Time {
	switch {
	case e.options.Clock != nil:
		return e.clock()
	case e.options.World != nil:
		return virtual.Epoch.Add(e.elapsed())
	}
	if reading := e.clockReading.Load(); reading != nil {
		if d := time.Since(*reading); d >= 0 && d < time.Second {
			return reading.Add(d)
		}
	}
	t := time.Now()
	e.clockReading.Store(&t)
	return t
}

// elapsed returns the monotonic time that the mechanisms take: since epoch, or since virtual.Epoch in a world.
func (e *Executor) elapsed() time.Duration {
	if e.options.World != nil {
		return e.options.World.Now()
	}
	return time.Since(epoch)
}

// until returns how long it takes until t.
func (e *Executor) until(t time.Time) time.Duration {
	if e.options.World != nil {
		return t.Sub(virtual.Epoch) - e.elapsed()
	}
	return time.Until(t)
}

// clock asks the options' clock. With RecoverPanics, the system's time stands in for a clock that panics.
func (e *Executor) clock() (t time.Time) {
	if e.options.RecoverPanics {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			t = time.Now()
			if e.options.Observer == nil {
				return
			}
			event := &observe.Event{Type: observe.Reported, Time: t, Report: &observe.Report{
				Reason: policy.ReasonPanicInClock, Panic: v, Stack: debug.Stack(), Detail: "the clock panicked; the record has the system's time",
			}}
			e.safely(func() { e.options.Observer.Observe(context.Background(), event) })
		}()
	}
	return e.options.Clock()
}

// Wait waits until every hedged attempt has returned, losers included, or until ctx is done. Call it after all calls have
// ended.
func (e *Executor) Wait(ctx context.Context) error {
	argument.Need(e != nil, "retry: the executor")
	argument.Need(ctx != nil, "retry: the context")
	return e.losers.wait(ctx)
}

// losers counts the running hedged attempts, losers included.
type losers struct {
	count atomic.Int64
	mu    sync.Mutex
	idle  chan struct{} // closed when count falls to 0; nil while there is no waiter
}

func (l *losers) add() { l.count.Add(1) }

func (l *losers) done() {
	if l.count.Add(-1) > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

func (l *losers) wait(ctx context.Context) error {
	l.mu.Lock()
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	if l.count.Load() == 0 { // read after idle was set, so that the last attempt to end finds it
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var global atomic.Pointer[Executor]

// DefaultExecutor returns the executor of the process. Unless [SetGlobal] was called before, the first use makes one with
// zero options.
func DefaultExecutor() *Executor {
	if e := global.Load(); e != nil {
		return e
	}
	global.CompareAndSwap(nil, NewExecutor(ExecutorOptions{}))
	return global.Load()
}

// SetGlobal makes e the default executor. It fails once the default executor has been used or set.
func SetGlobal(e *Executor) error {
	if e == nil {
		return errors.New("tenet: SetGlobal: the executor is nil")
	}
	if !global.CompareAndSwap(nil, e) {
		return errors.New("tenet: SetGlobal: the default executor is already in use; call it before the first Do")
	}
	return nil
}
