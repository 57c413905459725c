package job

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Defaults of workers.
const (
	DefaultConcurrency = 100 // slots cost a goroutine each while they are used; claims and settlements are made for all of them at once
	DefaultLease       = 30 * time.Second
	DefaultGrace       = 30 * time.Second
	DefaultPoll        = time.Second
)

// WorkerOption changes a worker.
type WorkerOption func(*Worker)

// WithName sets the worker's name, default host, process ID and a random part. Names of live workers must differ.
func WithName(name string) WorkerOption { return func(w *Worker) { w.name = name } }

// WithQueues sets the queues to work on and how many jobs of each run at once, default {"default": 100}. A concurrency below
// 1 takes the default.
func WithQueues(concurrency map[string]int) WorkerOption {
	return func(w *Worker) {
		if len(concurrency) > 0 {
			w.SetQueues(concurrency)
		}
	}
}

// WithLease sets how long a job is safe from other workers without a sign of life, default 30 s, 1 s to 24 h. Leases of
// running jobs are extended every third of it.
func WithLease(d time.Duration) WorkerOption { return func(w *Worker) { w.lease = d } }

// WithGrace sets how long running jobs may go on after the worker is told to stop, default 30 s.
func WithGrace(d time.Duration) WorkerOption { return func(w *Worker) { w.grace = d } }

// WithPoll sets how often the worker looks for work where the store does not tell of it, default 1 s.
func WithPoll(d time.Duration) WorkerOption { return func(w *Worker) { w.poll = d } }

// WithProvider takes policies from a document or any other provider, under the keys of policy.JobKey. See [WithRetryPolicy]
// for a worker that has both. A nil provider panics.
func WithProvider(p policy.Provider) WorkerOption {
	argument.Need(p != nil, "job: WithProvider: the provider")
	return func(w *Worker) { w.document = p }
}

// WithRetryPolicy sets the retry policy of jobs for which the provider has no entry. nil means no retries at all: the first
// failure is final, whatever the job asks for and whatever the provider says.
//
// With [WithProvider] too, the policy in code stands below the document's entries for a job's type and queue, and above the
// document's defaults for jobs: what an entry says of max_attempts replaces MaxAttempts, what it says of delays (backoff,
// backoff_cap, backoff_multiplier, jitter) replaces NextDelay. An entry that only repeats a value of the defaults counts as
// saying nothing. A provider without a document counts as having an entry for whatever it sets. The worker logs once, when
// it starts, that both are set.
//
// An [ExponentialBackoff] is applied as data: its delays are drawn from the job's ID and can be replayed from the audit log.
// Any other policy is asked, also a struct that embeds one.
func WithRetryPolicy(p RetryPolicy) WorkerOption {
	return func(w *Worker) { w.noRetries, w.code = p == nil, p }
}

// WithExecutorOptions sets what the worker's executor is made with: budgets, classifiers, classes, journal. The worker adds
// its provider and observer, and the classes of errors that its store exports through a Classes method, as the SQL stores do.
func WithExecutorOptions(o retry.ExecutorOptions) WorkerOption {
	return func(w *Worker) { w.executorOptions = o }
}

// WithObserver is told of everything that the worker's attempts do. nil is none.
func WithObserver(o observe.Observer) WorkerOption { return func(w *Worker) { w.observer = o } }

// WithMiddleware wraps every handler; the first one is the outermost. A nil one panics.
func WithMiddleware(m ...Middleware) WorkerOption {
	for _, one := range m {
		argument.Need(one != nil, "job: WithMiddleware: a middleware")
	}
	return func(w *Worker) { w.middleware = append(w.middleware, m...) }
}

// WithRetention removes finished jobs a set time after they ended. States that are not listed stay for ever, which is the
// default for all.
func WithRetention(keep map[State]time.Duration) WorkerOption {
	return func(w *Worker) { w.keep = keep }
}

// WithPeriodic enqueues jobs on schedules. All workers of a store may list the same ones: each tick is enqueued once.
func WithPeriodic(p ...Periodic) WorkerOption {
	return func(w *Worker) { w.periodic = append(w.periodic, p...) }
}

// WithLogger sets the logger, default slog.Default(). Payloads are never logged.
func WithLogger(l *slog.Logger) WorkerOption {
	return func(w *Worker) { w.log = cmp.Or(l, slog.Default()) }
}
