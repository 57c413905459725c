package job

import (
	"cmp"
	"log/slog"
	"maps"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Defaults of workers.
const (
	DefaultConcurrency = 100 // a used slot costs one goroutine; claims and settlements serve all slots at once
	DefaultLease       = 30 * time.Second
	DefaultGrace       = 30 * time.Second
	DefaultPoll        = time.Second
)

// answerTime is how long the store may take for one call beside those for running jobs: the length of a lease, at most that of the
// default one.
func (s *settings) answerTime() time.Duration { return min(s.lease, DefaultLease) }

// settings are the values that options set. A running worker only reads them.
type settings struct {
	name       string
	lease      time.Duration
	grace      time.Duration
	poll       time.Duration
	queues     map[string]int
	named      bool // by WithQueues
	stored     bool // by WithStoredQueues
	policies   policies
	executor   retry.ExecutorOptions
	middleware []Middleware
	observer   observe.Observer
	keep       map[State]time.Duration
	periodic   []Periodic
	codec      Codec // nil for none
	log        *slog.Logger
}

// WorkerOption changes a worker.
type WorkerOption func(*settings)

// WithName sets the worker's name, default host, process ID and a random part. Names of live workers must differ. Run
// refuses a name with NUL or invalid UTF-8.
func WithName(name string) WorkerOption { return func(s *settings) { s.name = name } }

// WithQueues sets the queues to work on and how many jobs of each run at once, default {"default": 100}. A concurrency below
// 1 takes the default. A concurrency that an operator has set in the store ([ConcurrencySetting]) takes precedence; the
// worker follows it within a second.
func WithQueues(concurrency map[string]int) WorkerOption {
	return func(s *settings) {
		if len(concurrency) > 0 {
			s.queues, s.named = maps.Clone(concurrency), true
		}
	}
}

// WithStoredQueues makes a worker serve also the queues that its options do not name and whose concurrency an operator sets in the
// store, from then on. It is the default for a worker without [WithQueues].
func WithStoredQueues() WorkerOption { return func(s *settings) { s.stored = true } }

// WithLease sets the length of a lease, default 30 s, 1 ms to 24 h: how long other workers cannot claim a job after its
// worker last extended the lease. The worker extends the leases of running jobs every third of their length.
func WithLease(d time.Duration) WorkerOption { return func(s *settings) { s.lease = d } }

// WithGrace sets how long running jobs may go on after the worker is told to stop, default 30 s.
func WithGrace(d time.Duration) WorkerOption { return func(s *settings) { s.grace = d } }

// WithPoll sets how often the worker looks for work that the store does not announce, default 1 s.
func WithPoll(d time.Duration) WorkerOption { return func(s *settings) { s.poll = d } }

// WithProvider takes policies from a document or any other provider, under the keys of policy.JobKey. See [WithRetryPolicy]
// for a worker that has both. A nil provider panics.
func WithProvider(p policy.Provider) WorkerOption {
	argument.Need(p != nil, "job: WithProvider: the provider")
	return func(s *settings) { s.policies.document = p }
}

// WithRetryPolicy sets the retry policy of jobs for which the provider has no entry. nil means that jobs are never retried:
// the first failure is final, regardless of the job and the provider.
//
// With [WithProvider] too, the policy in code ranks below the document's entries for a job's type and queue, and above the
// document's defaults for jobs: an entry's max_attempts replaces MaxAttempts, and its delays (backoff, backoff_cap,
// backoff_multiplier, jitter) replace NextDelay. An entry that only repeats a value of the defaults counts as absent. A
// provider without a document counts as having an entry for every field that it sets. The worker logs once, when it starts, that
// both are set.
//
// The worker applies an [ExponentialBackoff] as data: its delays are derived from the job's ID and can be replayed from the
// audit log. It calls the methods of any other policy, including a struct that embeds an ExponentialBackoff.
func WithRetryPolicy(p RetryPolicy) WorkerOption {
	return func(s *settings) { s.policies.noRetries, s.policies.code = p == nil, p }
}

// WithExecutorOptions sets the options of the worker's executor: budgets, classifiers, classes, journal. The worker adds its
// provider and observer, and the classes of errors that its store exports through a Classes method, as the SQL stores do.
func WithExecutorOptions(o retry.ExecutorOptions) WorkerOption {
	return func(s *settings) { s.executor = o }
}

// WithObserver sets an observer of the worker's attempts and of its jobs' state changes. nil means no observer.
func WithObserver(o observe.Observer) WorkerOption { return func(s *settings) { s.observer = o } }

// WithMiddleware wraps every handler; the first middleware is the outermost. A nil middleware panics.
func WithMiddleware(m ...Middleware) WorkerOption {
	for _, one := range m {
		argument.Need(one != nil, "job: WithMiddleware: a middleware")
	}
	return func(s *settings) { s.middleware = append(s.middleware, m...) }
}

// WithRetention removes finished jobs a set time after they ended. Jobs in states that are not listed stay for ever, which
// is the default for all states.
func WithRetention(keep map[State]time.Duration) WorkerOption {
	return func(s *settings) { s.keep = keep }
}

// WithPeriodic enqueues jobs on schedules. All workers of a store may list the same ones: each tick is enqueued once.
func WithPeriodic(p ...Periodic) WorkerOption {
	return func(s *settings) { s.periodic = append(s.periodic, p...) }
}

// WithLogger sets the logger, default slog.Default(). Payloads are never logged.
func WithLogger(l *slog.Logger) WorkerOption {
	return func(s *settings) { s.log = cmp.Or(l, slog.Default()) }
}
