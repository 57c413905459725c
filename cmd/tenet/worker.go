package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/job/execjob"
	"github.com/tenetdev/tenet/job/httpjob"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenethttp"
)

type workerFlags struct {
	store, policy, periodic, listen string
	audit                           string
	once                            onceFlags
	queues                          []string
	concurrency                     int
	lease, grace                    time.Duration
	keepCompleted, keepDead         time.Duration
	keepCancelled                   time.Duration
	migrate, exec, private, verbose bool
	untilIdle, stdin, dryRun        bool
}

func (a *app) workerCommand() *cobra.Command {
	f := &workerFlags{lease: job.DefaultLease, grace: job.DefaultGrace}
	cmd := &cobra.Command{
		Use: "worker", Short: "Run stored jobs", Args: cobra.NoArgs,
		Long: `Run stored jobs of the types http and, where it is allowed, exec; types of your own need a program that uses
package job. Any number of workers may share a store. A missing SQLite store is made.

Jobs follow the policies of --policy, whose changes take effect while the worker runs. Without a document a job
has 25 attempts. The queues are those of --queue or else "default" and those that the document names; each runs
N jobs at once: from --queue name=N, else the document's concurrency, else --concurrency.

SIGTERM and Ctrl-C stop the worker: it claims nothing more, lets running jobs finish for --grace, cancels what is
left and gives it back to other workers. A second signal ends it at once; other workers then take over when the
leases have run out (--lease).

--audit records every decision before it takes effect; while it cannot, nothing further is started. With
--idempotency-store a job's effect happens once per --idempotency-key, also where its worker was killed after the
effect: a job whose outcome nobody knows is then dead, with reason outcome_unknown, until the record is resolved
(tenet idempotency resolve) and the job requeued.

--listen serves /livez (the process runs), /readyz (the store answers and the worker is not stopping) and
/metrics (Prometheus).

Exit codes: 0 idle (--until-idle); 130 and 143 stopped by SIGINT or SIGTERM.`,
		Example: `  tenet worker --store sqlite:jobs.db
  tenet worker --policy policies.yaml --queue mail=20 --queue reports=2 --listen :9090
  tenet worker --store postgres://localhost/app --migrate --keep-completed 24h --periodic nightly.yaml`,
	}
	flags := cmd.Flags()
	store := storeFlag(cmd)
	flags.StringVar(&f.policy, "policy", "", "policy document; - is stdin")
	flags.StringSliceVar(&f.queues, "queue", nil, "queue to work on, as name or name=N; may be repeated")
	flags.IntVar(&f.concurrency, "concurrency", job.DefaultConcurrency, "jobs of a queue at once, unless something else is said for it")
	flags.Var(&span{&f.lease, false}, "lease", "how long jobs of a worker that died are safe from others, at least 1s")
	flags.Var(&span{&f.grace, false}, "grace", "how long running jobs may go on after a signal")
	audit := auditFlag(cmd)
	f.once.add(cmd)
	flags.StringVar(&f.listen, "listen", "", "address to serve health and metrics on, for example :9090")
	flags.StringVar(&f.periodic, "periodic", "", "file of periodic jobs; see tenet periodic --help")
	flags.BoolVar(&f.migrate, "migrate", false, "make or update the tables on PostgreSQL first")
	flags.BoolVar(&f.exec, "allow-exec", false, "run jobs of type exec: whoever may enqueue may then run any command here")
	flags.BoolVar(&f.private, "allow-private-networks", false, "let http jobs reach private, loopback and link-local addresses")
	flags.Var(&span{&f.keepCompleted, false}, "keep-completed", "remove completed jobs after this long (default: never)")
	flags.Var(&span{&f.keepDead, false}, "keep-dead", "remove dead jobs after this long (default: never)")
	flags.Var(&span{&f.keepCancelled, false}, "keep-cancelled", "remove cancelled jobs after this long (default: never)")
	flags.BoolVar(&f.untilIdle, "until-idle", false, "end when all jobs of the queues have finished")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell of every attempt on stderr")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything, say what would run, and run nothing")
	flags.BoolVar(&f.stdin, "until-stdin-ends", false, "stop like a signal when stdin ends")
	_ = flags.MarkHidden("until-stdin-ends") // the flag exists
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		f.store, f.audit = *store, *audit
		return a.worker(cmd.Context(), f)
	})
	return cmd
}

// worker is "tenet worker" behind its flags.
func (a *app) worker(ctx context.Context, f *workerFlags) (err error) {
	if f.concurrency < 1 || f.concurrency > maxConcurrency {
		return usage("--concurrency: %d is not between 1 and %d", f.concurrency, maxConcurrency)
	}
	if f.lease < time.Second || f.lease > job.MaxLease {
		return usage("--lease: %s is not between 1s and %s", f.lease, job.MaxLease)
	}
	changes := &policyChanges{}
	provider, set, err := a.jobPolicies(ctx, f.policy, changes.tell)
	if err != nil {
		return err
	}
	if closer, ok := provider.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	queues, err := queuesOf(f, set)
	if err != nil {
		return err
	}
	periodic, err := a.periodicOf(ctx, f.periodic)
	if err != nil {
		return err
	}
	return a.withStore(ctx, f.store, opening{create: true, migrate: f.migrate, memory: true, dryRun: f.dryRun}, func(s jobStore) error {
		if f.dryRun {
			return a.print(formText, nil, func(w io.Writer) {
				fprintf(w, "would work on %s with %s\n", listQueues(queues), count(len(periodic), "periodic job"))
			})
		}
		return a.runWorker(ctx, s, f, provider, changes, queues, periodic)
	})
}

// jobPolicies is the provider of a document, which follows its file, and the document as it is now. Without a document
// both are nil. changed is told of every new document.
func (a *app) jobPolicies(ctx context.Context, path string, changed func(*policy.Set)) (policy.Provider, *policy.Set, error) {
	if path == "" {
		return nil, nil, nil
	}
	document, err := a.load(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if path == standardInput {
		return document.Set, document.Set, nil
	}
	file, err := controlplane.NewFile(path, controlplane.FileOptions{OnChange: changed})
	return file, document.Set, err
}

// queuesOf says how many jobs of which queue run at once.
func queuesOf(f *workerFlags, set *policy.Set) (map[string]int, error) {
	known := map[string]policy.Queue{}
	if set != nil {
		known = set.Queues()
	}
	names := f.queues
	if len(names) == 0 {
		names = append(slices.Sorted(maps.Keys(known)), job.DefaultQueue)
	}
	queues := map[string]int{}
	for _, text := range names {
		name, size := text, f.concurrency
		if n := known[text].Concurrency; n > 0 {
			size = n
		}
		if i := strings.LastIndexByte(text, '='); i >= 0 {
			n, err := strconv.Atoi(text[i+1:])
			if err != nil || n < 1 || n > maxConcurrency {
				return nil, usage("--queue %q: write name=N with N between 1 and %d", text, maxConcurrency)
			}
			name, size = text[:i], n
		}
		if name == "" {
			return nil, usage("--queue %q: the name is missing", text)
		}
		queues[name] = size
	}
	return queues, nil
}

func listQueues(queues map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, queues[name]))
	}
	return strings.Join(parts, ", ")
}

func (a *app) runWorker(ctx context.Context, s jobStore, f *workerFlags, provider policy.Provider, changes *policyChanges, queues map[string]int, periodic []job.Periodic) (err error) {
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	var observers []observe.Observer
	if f.verbose {
		observers = append(observers, observe.Slog(log))
	}
	var service *health
	if f.listen != "" {
		if service, err = a.listen(f.listen, newDepth(s)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, service.close()) }()
		observers = append(observers, service.observer)
	}
	executor := retry.ExecutorOptions{
		Classes: []classify.Family{tenethttp.Classes()}, Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()},
	}
	if f.audit != "" {
		record, closeLog, failed := a.openLog(ctx, f.audit)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, closeLog()) }()
		observers, executor.Journal = append(observers, record), record
		changes.follow(ctx, record, provider, log)
	}
	options := []job.WorkerOption{
		job.WithQueues(queues), job.WithLease(f.lease), job.WithGrace(f.grace), job.WithLogger(log), job.WithObserver(observe.Multi(observers...)),
		job.WithRetention(retention(f)), job.WithPeriodic(periodic...),
		job.WithExecutorOptions(executor),
	}
	if f.once.store != "" {
		middleware, closeRecords, failed := a.onceMiddleware(ctx, f, observe.Multi(observers...), executor.Journal)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, closeRecords()) }()
		options = append(options, job.WithMiddleware(middleware))
	}
	if provider != nil {
		options = append(options, job.WithProvider(provider))
	}
	w := job.NewWorker(s, options...)
	httpjob.Register(w, httpjob.Options{AllowPrivateNetworks: f.private})
	if f.exec {
		execjob.Register(w, execjob.Options{})
	}
	if service != nil {
		service.serve(ctx, alive, func(context.Context) error { return w.Healthy(silence) })
		log.Info("serving health and metrics", "address", service.address())
	}
	log.Info("working", "worker", w.Name(), "queues", listQueues(queues))
	warnUnserved(ctx, log, s, queues)
	return a.work(ctx, log, s, f, w, queues)
}

// work runs a worker until a signal, the end of stdin or idleness ends it.
func (a *app) work(ctx context.Context, log *slog.Logger, s jobStore, f *workerFlags, w *job.Worker, queues map[string]int) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	if f.stdin {
		go func() { // left behind when something else ends the worker
			_, _ = io.Copy(io.Discard, a.stdin)
			stop()
		}()
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if f.untilIdle {
			untilIdle(running, log, s, queues)
		} else {
			<-running.Done()
		}
		stop()
		log.Info("stopping: nothing more is claimed, running jobs may finish", "grace", f.grace.String())
	}()
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	select {
	case err := <-done:
		stop()
		<-watched
		if err == nil && ctx.Err() != nil {
			return &failure{code: exitFailed} // the signal decides the code
		}
		return err
	case <-a.kill:
		return errors.New("stopped at once; what was running is taken over when its leases have run out")
	}
}

// untilIdle returns when no job of the queues is unfinished. A store that is away says nothing of its jobs: it is asked again.
func untilIdle(ctx context.Context, log *slog.Logger, s jobStore, queues map[string]int) {
	const (
		poll = 100 * time.Millisecond
		away = time.Second
	)
	for wait := poll; sleep(ctx, wait); {
		stats, err := s.Stats(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.Warn("the store could not be asked whether jobs are left, and is asked again", "error", err)
			}
			wait = away
			continue
		}
		wait = poll
		open := 0
		for name := range queues {
			open += stats[name].Scheduled + stats[name].Ready + stats[name].Running
		}
		if open == 0 {
			return
		}
	}
}

func retention(f *workerFlags) map[job.State]time.Duration {
	keep := map[job.State]time.Duration{}
	for state, d := range map[job.State]time.Duration{job.Completed: f.keepCompleted, job.Dead: f.keepDead, job.Cancelled: f.keepCancelled} {
		if d > 0 {
			keep[state] = d
		}
	}
	return keep
}

// warnUnserved tells of work that this worker will not do.
func warnUnserved(ctx context.Context, log *slog.Logger, s jobStore, queues map[string]int) {
	stats, err := s.Stats(ctx)
	if err != nil {
		log.Warn("the store could not be asked for its queues", "error", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(stats)) {
		if n := stats[name].Ready + stats[name].Scheduled; n > 0 && queues[name] == 0 {
			log.Warn("this worker does not serve a queue that holds jobs; add --queue to work on it", "queue", name, "jobs", n)
		}
	}
}
