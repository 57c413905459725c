package pipeline

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Defaults of engines.
const (
	DefaultName  = "default"
	DefaultGrace = 30 * time.Second
)

// Option changes an engine.
type Option func(*options)

type options struct {
	name       string
	provider   policy.Provider
	executor   retry.ExecutorOptions
	observer   observe.Observer
	deadLetter Sink
	guard      *idempotency.Guard
	grace      time.Duration
	log        *slog.Logger
	ended      func(Ended)
}

func collect(list []Option) options {
	o := options{name: DefaultName, grace: DefaultGrace, log: slog.Default()}
	for _, option := range list {
		argument.Need(option != nil, "pipeline: an option")
		option(&o)
	}
	return o
}

// WithName sets the engine's name, default "default". It is part of the keys of its steps (policy.ConsumerKey,
// policy.ProducerKey), and names its policy in a provider's document.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithProvider takes policies from a provider, which the engine asks again before every batch, and every 10 s while no worker is
// free. The engine asks for its steps by the keys of policy.ConsumerKey and policy.ProducerKey, and finds its loop in the
// provider's document (policy.SetProvider) by its name. While the document does not name the engine, the policy given to its constructor stays
// in force. If the provider has no usable policy for a step, the step's last policy stays in force, unless the executor's
// MissingPolicyMode says otherwise. If it panics, all policies stay in force, and the panic is logged. loop.timeout is read once,
// when the run starts. A nil provider panics.
func WithProvider(p policy.Provider) Option {
	argument.Need(p != nil, "pipeline: WithProvider: the provider")
	return func(o *options) { o.provider = p }
}

// WithExecutorOptions sets the options of the engine's executor: budgets, classifiers, classes, journal. The engine adds its
// provider and observer. A classifier judges the errors of its step; a step that returns nil has succeeded.
func WithExecutorOptions(e retry.ExecutorOptions) Option { return func(o *options) { o.executor = e } }

// WithObserver sets an observer. It receives the events of the engine's steps, the start and end of each transaction and of
// the run under the keys of the steps "transaction" and "run", and the deliveries that are fetched, in flight and ended
// (observe.Flowed). For a transaction, an observe.Starter receives the run's context and the transaction's own trace
// (observe.Trace). nil means no observer.
func WithObserver(observer observe.Observer) Option {
	return func(o *options) { o.observer = observer }
}

// WithDeadLetter sends every transaction that takes the exception step to a sink, after the task's exception handler, if
// there is one, has returned nil. Dispatching is part of that step and retried under its policy; a handler that has
// succeeded is not called again. If dispatching fails for good, the transaction ends as failed. A dead letter's metadata
// describes the failure ([MetaError] and others), and its Attempts counts the attempts made. A nil sink panics.
func WithDeadLetter(s Sink) Option {
	argument.Need(s != nil, "pipeline: WithDeadLetter: the sink")
	return func(o *options) { o.deadLetter = s }
}

// WithGuard runs each transaction ID once: a transaction that has ended in success or exception before is acknowledged and
// not run again. The scope of the records is the tenant in the metadata and the engine's name; the fingerprint is that of
// the payload.
//
// A transaction that runs elsewhere, or whose record store is down, is given back. A panic leaves the outcome unknown unless
// the guard is ReplaySafe: no further attempt is made, and the transaction takes the exception step, like every transaction
// with an unknown outcome. Without an exception step, a failure that is final, by its mark, the step's policy or the guard's
// classifier, is recorded: the transaction fails again when it is redelivered, and the task does not run. A nil guard panics.
func WithGuard(g *idempotency.Guard) Option {
	argument.Need(g != nil, "pipeline: WithGuard: the guard")
	return func(o *options) { o.guard = g }
}

// WithGrace sets how long running work may go on after [Consumer.Drain], and how long the engine waits for cancelled work,
// default 30 s.
func WithGrace(d time.Duration) Option { return func(o *options) { o.grace = d } }

// WithLogger sets the logger, default slog.Default(). Payloads are never logged.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.log = cmp.Or(l, slog.Default()) }
}

// WithEnded calls f for every delivery that has ended, on the worker's goroutine, before it is acknowledged. A panic of f is
// logged and changes nothing. A nil function panics.
func WithEnded(f func(Ended)) Option {
	argument.Need(f != nil, "pipeline: WithEnded: the function")
	return func(o *options) { o.ended = f }
}
