package workers

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	execjob "github.com/tenetdev/tenet/adapter/exec"
	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/monitor"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/periodic"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/payload"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/sharing"
)

type workerFlags struct {
	store, periodic, listen         string
	document                        cli.Document
	otlp, keys                      *string
	audit, limits, shadow           string
	once                            onceFlags
	queues                          []string
	concurrency                     int
	lease, grace                    time.Duration
	keepCompleted, keepDead         time.Duration
	keepCancelled                   time.Duration
	migrate, exec, private, verbose bool
	untilIdle, stdin, dryRun        bool
	exitZero                        bool
}

// Command returns "tenet worker".
func Command(a *cli.App) *cobra.Command {
	f := &workerFlags{lease: job.DefaultLease, grace: job.DefaultGrace}
	cmd := &cobra.Command{
		Use: "worker", Short: "Run stored jobs", Args: cobra.NoArgs,
		Long: `Run stored jobs of the types http and, with --allow-exec, exec. Your own types need a program that uses package job.
Any number of workers may share a store. A missing SQLite store is created.

Jobs follow the policies of --policy. Changes to the document take effect while the worker runs, within a second or at once on
SIGHUP, and include its queues and their concurrency unless --queue sets them. Without a document a job has 25
attempts. The worker serves the queues of --queue, or else "default" and the queues of the document. A queue's concurrency
comes from "tenet queues set", else from --queue name=N, else from the document, else from --concurrency. Without --queue the
worker also serves queues that "tenet queues set" names. Periodic jobs of --periodic are replaced and deleted, and others added, by
"tenet periodic set" and "tenet periodic delete". Workers follow these commands within a second.

SIGTERM and Ctrl-C stop the worker: it stops claiming, gives running jobs --grace to finish, then cancels the rest and
gives it back to other workers. A second signal ends it at once and kills the commands of exec jobs; other workers then take
over when the leases have expired (--lease). The log has a line for every dead job and every outage of the store; -v logs every attempt.

--audit records every decision before it takes effect; while the log cannot be written, no further attempt starts. With
--idempotency-store a job's effect happens once per --idempotency-key, even if its worker was killed after the
effect: a job whose outcome is unknown is then dead, with reason outcome_unknown, until the record is resolved
(tenet idempotency resolve) and the job requeued.

--listen serves /livez (the process runs), /readyz (the store answers and the worker is not stopping) and
/metrics (Prometheus). --otlp sends traces and metrics to an OpenTelemetry collector.

Exit codes: 0 idle (--until-idle); 130 and 143 stopped by SIGINT or SIGTERM (systemd treats 143 as success with
SuccessExitStatus=143); with --exit-zero-on-term 0 after a graceful stop by SIGTERM.`,
		Example: `  tenet worker --store sqlite:jobs.db
  tenet worker --policy policies.yaml --queue mail=20 --queue reports=2 --listen :9090
  tenet worker --store postgres://localhost/app --migrate --keep-completed 24h --periodic nightly.yaml`,
	}
	flags := cmd.Flags()
	store := open.StoreFlag(cmd)
	f.document.Flags(cmd, "policy document")
	flags.StringSliceVar(&f.queues, "queue", nil, "queue to serve, as name or name=N; may be repeated")
	flags.IntVar(&f.concurrency, "concurrency", job.DefaultConcurrency, "concurrent jobs of a queue, unless --queue or the document sets it")
	flags.Var(cli.Duration(&f.lease), "lease", "how long other workers wait before they take the jobs of a worker that died, at least 1s")
	flags.Var(cli.Duration(&f.grace), "grace", "how long running jobs may continue after a signal")
	audit, limits, shadow := open.DecisionLogFlag(cmd), open.LimitsFlag(cmd), open.ShadowFlag(cmd)
	f.keys = open.PayloadKeysFlag(cmd)
	f.once.add(cmd)
	flags.StringVar(&f.listen, "listen", "", "address to serve health and metrics on, for example :9090")
	flags.StringVar(&f.periodic, "periodic", "", "file of periodic jobs; see tenet periodic --help")
	flags.BoolVar(&f.migrate, "migrate", false, "create or update the tables on PostgreSQL first")
	flags.BoolVar(&f.exec, "allow-exec", false, "run jobs of type exec: anyone who can enqueue jobs can then run any command here")
	flags.BoolVar(&f.private, "allow-private-networks", false, "let http jobs reach private, loopback and link-local addresses")
	flags.Var(cli.Duration(&f.keepCompleted), "keep-completed", "remove completed jobs after this long (default: never)")
	flags.Var(cli.Duration(&f.keepDead), "keep-dead", "remove dead jobs after this long (default: never)")
	flags.Var(cli.Duration(&f.keepCancelled), "keep-cancelled", "remove cancelled jobs after this long (default: never)")
	flags.BoolVar(&f.untilIdle, "until-idle", false, "end when all jobs of the queues have finished, scheduled ones too")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every attempt to stderr")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and print what would run, without running it")
	f.otlp = monitor.OtlpFlag(cmd)
	cli.ExitZeroFlag(cmd, &f.exitZero)
	flags.BoolVar(&f.stdin, "until-stdin-ends", false, "stop like a signal when stdin ends")
	_ = flags.MarkHidden("until-stdin-ends") // the flag exists
	return cli.WithRun(cmd, func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("queue") && len(f.queues) == 0 { // for example from an unset variable in a script
			return cli.Usagef("--queue is empty: write a name, or leave the flag out")
		}
		f.store, f.audit, f.limits, f.shadow = *store, *audit, *limits, *shadow
		return worker(cmd.Context(), a, f)
	})
}

// worker runs "tenet worker" after its flags are parsed.
func worker(ctx context.Context, a *cli.App, f *workerFlags) (err error) {
	if f.concurrency < 1 || f.concurrency > cli.MaxConcurrency {
		return cli.Usagef("--concurrency: %d is not between 1 and %d", f.concurrency, cli.MaxConcurrency)
	}
	if f.lease < time.Second || f.lease > job.MaxLease {
		return cli.Usagef("--lease: %s is not between 1s and %s", f.lease, job.MaxLease)
	}
	for _, flag := range [][2]string{{"--policy", f.document.Path}, {"--shadow", f.shadow}, {"--periodic", f.periodic}} {
		if f.stdin && flag[1] == cli.StandardInput {
			return cli.Usagef("%s - and --until-stdin-ends both read stdin: name a file", flag[0])
		}
	}
	if err := f.once.check(); err != nil {
		return err
	}
	log := a.Logger(a.Stderr, f.verbose)
	changes, queues := &recording.Changes{}, &servedQueues{flags: f, log: log}
	provider, set, err := a.FollowDocument(ctx, f.document, log, func(next *policy.Set) {
		changes.Record(next)
		queues.follow(next)
	})
	if err != nil {
		return err
	}
	if closer, ok := provider.(io.Closer); ok {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	defer a.Reloads(provider, log)()
	if err := queues.begin(set); err != nil {
		return err
	}
	periodic, err := periodic.Read(ctx, a, f.periodic)
	if err != nil {
		return err
	}
	shadow, err := open.Shadow(ctx, a, open.DocumentRef{Name: f.shadow, Token: f.document.Token}, provider)
	if err != nil {
		return err
	}
	return open.WithJobs(ctx, a, open.Options{URL: f.store, Create: true, Migrate: f.migrate, Memory: true, DryRun: f.dryRun}, func(s open.JobStore) error {
		worker := &service{App: a, flags: f, log: log, store: s, provider: provider, changes: changes, queues: queues, periodic: periodic, shadow: shadow}
		var err error
		if worker.codec, err = open.Codec(ctx, a, *f.keys, worker.set); err != nil {
			return err
		}
		if f.dryRun {
			return a.Print(cli.FormText, nil, cli.AsLine("would work on %s with %s", listQueues(queues.now()), cli.Count(len(periodic), "periodic job")))
		}
		return worker.run(ctx)
	})
}

// service is a worker with its store, its document and its log.
type service struct {
	*cli.App
	flags    *workerFlags
	log      *slog.Logger
	store    open.JobStore
	provider policy.Provider // nil without a document
	changes  *recording.Changes
	queues   *servedQueues
	periodic []job.Periodic
	shadow   policy.Provider // nil without a document under trial
	codec    *payload.Codec
}

// run runs the worker until a signal, the end of stdin or idleness ends it.
func (s *service) run(ctx context.Context) (err error) {
	f := s.flags
	watch, err := monitor.Start(ctx, s.App, monitor.Options{
		Name: "worker", OTLP: *f.otlp, Listen: f.listen, Audit: f.audit, Verbose: f.verbose, Shadow: s.shadow != nil, Log: s.log,
		Metrics: []prometheus.Collector{monitor.NewDepth(s.store)}, Provider: s.provider, Changes: s.changes,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watch.Close()) }()
	hub, closeHub, err := open.Limits(ctx, s.App, open.LimitsOptions{
		URL: f.limits, Set: s.set(), Uses: func(key policy.Key) bool { return key.Surface() == policy.SurfaceJob },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHub()) }()
	options := s.options(watch, hub)
	if f.once.store != "" {
		middleware, closeStore, failed := f.middleware(ctx, s.App, watch)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, closeStore()) }()
		options = append(options, job.WithMiddleware(middleware))
	}
	w := job.NewWorker(s.store, append(options, job.WithWorkerCodec(s.codec))...)
	httpjob.Register(w, httpjob.Options{AllowPrivateNetworks: f.private})
	if f.exec {
		execjob.Register(w, execjob.Options{Kill: s.Kill})
	}
	if watch.Health != nil {
		watch.Health.Serve(ctx, monitor.Alive, func(context.Context) error { return w.Healthy(monitor.Silence) })
	}
	s.queues.attach(w)
	s.log.Info("working", "worker", w.Name(), "queues", listQueues(s.queues.now()))
	warnUnserved(ctx, s.log, s.store, s.queues.now())
	if !f.exec {
		warnExec(ctx, s.log, s.store, s.queues.now())
	}
	return s.work(ctx, w)
}

// options returns the options of the worker, without middleware.
func (s *service) options(watch *monitor.Watch, hub *sharing.Hub) []job.WorkerOption {
	options := []job.WorkerOption{
		job.WithLease(s.flags.lease), job.WithGrace(s.flags.grace), job.WithLogger(s.log), job.WithObserver(watch.Observer),
		job.WithRetention(retention(s.flags)), job.WithPeriodic(s.periodic...),
		job.WithExecutorOptions(retry.ExecutorOptions{
			Classes: []classify.Family{tenethttp.Classes()}, Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()},
			Journal: watch.Journal, Sharing: hub, Shadow: s.shadow,
		}),
	}
	if len(s.flags.queues) > 0 { // otherwise queues that operators set in the store are served too
		options = append(options, job.WithQueues(s.queues.now()))
	}
	if s.provider != nil {
		options = append(options, job.WithProvider(s.provider))
	}
	return options
}

// set returns the document in force, or nil without one.
func (s *service) set() *policy.Set {
	if follows, ok := s.provider.(policy.SetProvider); ok {
		return follows.Set()
	}
	return nil
}

// killTime is how long the commands of exec jobs may take to end after the second signal, which kills them.
const killTime = time.Second

// work runs a worker until a signal, the end of stdin or idleness ends it.
func (s *service) work(ctx context.Context, w *job.Worker) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	if s.flags.stdin {
		go func() { // goes on in the background if something else ends the worker
			_, _ = io.Copy(io.Discard, s.Stdin)
			stop()
		}()
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if s.flags.untilIdle {
			untilIdle(running, s.log, s.store, w.Queues)
		} else {
			<-running.Done()
		}
		stop()
		s.log.Info("stopping: no more jobs are claimed; running jobs may finish", "grace", s.flags.grace.String())
	}()
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	select {
	case err := <-done:
		stop()
		<-watched
		if err == nil && ctx.Err() != nil {
			return cli.Stopped(ctx, s.flags.exitZero)
		}
		return err
	case <-s.Kill:
		select {
		case <-done: //nolint:errcheck // however it has ended
		case <-time.After(killTime):
		}
		return errors.New("stopped at once; other workers take over the running jobs when their leases expire")
	}
}

// untilIdle returns when all jobs of the queues have finished. If the store does not answer, it asks again.
func untilIdle(ctx context.Context, log *slog.Logger, s open.JobStore, queues func() map[string]int) {
	const (
		poll = 100 * time.Millisecond
		away = time.Second
		calm = 10 // looks in a row at which no job runs, before the log says why
	)
	notes := &notes{log: log, store: s, made: map[[2]string]bool{}}
	held, early := 0, 0 // such looks: jobs are ready, or all are scheduled
	for pause := poll; wait.For(ctx, pause) == nil; {
		stats, err := s.Stats(ctx)
		if err != nil {
			if ctx.Err() == nil && pause == poll {
				log.Warn("the store does not say whether jobs are left; asking again until it answers", "error", err)
			}
			pause = away
			continue
		}
		pause = poll
		busy := false
		var ready, scheduled, waiting []string
		for name := range queues() {
			q := stats[name]
			busy = busy || q.Running > 0
			if q.Ready > 0 {
				ready = append(ready, name)
			}
			if q.Scheduled > 0 {
				scheduled = append(scheduled, name)
			}
			if q.Waiting > 0 {
				waiting = append(waiting, name)
			}
		}
		// Waiting jobs are read only when nothing else is left: there may be many.
		if !busy && len(ready)+len(scheduled) == 0 && !slices.ContainsFunc(waiting, func(name string) bool { return awaitsPlace(ctx, s, name) }) {
			return
		}
		if busy || len(ready) == 0 {
			held = 0
		} else if held++; held == calm {
			notes.warnHeld(ctx, ready)
		}
		if busy || len(ready) > 0 || len(scheduled) == 0 {
			early = 0
		} else if early++; early == calm && !notes.noteScheduled(ctx, scheduled) {
			early = 0 // there may be retries among them; looks again when those have ended
		}
	}
}

// awaitsPlace reports whether a job of a queue waits for a place of a limit. Jobs that wait for others become ready when those end,
// or stay on hold.
func awaitsPlace(ctx context.Context, s open.JobStore, queue string) bool {
	const few = 20 // the first one waits for a place unless the queue has flows
	page := func(after string, limit int) ([]*job.Record, error) {
		return s.List(ctx, job.Filter{Queue: queue, States: []job.State{job.Waiting}}, after, limit)
	}
	for r, err := range paging.All("", few, page, func(r *job.Record) string { return r.ID }) {
		if err != nil || r.WaitsFor != job.WaitsForNeeds {
			return true
		}
	}
	return false
}

func retention(f *workerFlags) map[job.State]time.Duration {
	keep := map[job.State]time.Duration{job.Completed: f.keepCompleted, job.Dead: f.keepDead, job.Cancelled: f.keepCancelled}
	maps.DeleteFunc(keep, func(_ job.State, d time.Duration) bool { return d == 0 })
	return keep
}
