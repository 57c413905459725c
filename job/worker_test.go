package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errDown = errors.New("down")
	quiet   = job.WithLogger(slog.New(slog.DiscardHandler))
)

// bench is a store with a worker that runs until the test ends.
type bench struct {
	t      *testing.T
	store  *memory.Jobs
	client *job.Client
	stop   func()
}

func newBench(t *testing.T) *bench {
	store := memory.Open().Jobs()
	return &bench{t: t, store: store, client: job.NewClient(store)}
}

// work starts a worker with one handler for the type "t" in a bubble of virtual time.
func work(t *testing.T, handler job.RawHandler, options ...job.WorkerOption) *bench {
	t.Helper()
	b := newBench(t)
	b.stop = b.start(b.store, handler, options...)
	t.Cleanup(b.stop)
	return b
}

func (b *bench) start(store job.Store, handler job.RawHandler, options ...job.WorkerOption) (stop func()) {
	w := job.NewWorker(store, append([]job.WorkerOption{quiet}, options...)...)
	w.HandleRaw("t", handler)
	return b.run(w)
}

func (b *bench) run(w *job.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done })
}

func (b *bench) enqueue(r job.Request) string {
	b.t.Helper()
	if r.Type == "" {
		r.Type = "t"
	}
	receipt, err := b.client.Enqueue(context.Background(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return receipt.ID
}

func (b *bench) get(id string) (*job.Record, []job.Attempt) {
	b.t.Helper()
	r, history, err := b.store.Get(context.Background(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, history
}

// story returns a job's history as "outcome reason delay" lines.
func story(history []job.Attempt) (lines []string) {
	for _, a := range history {
		lines = append(lines, fmt.Sprintf("%d %s %s x%d", a.Number, a.Outcome, a.Reason, a.Count))
	}
	return lines
}

func failing(err error) (job.RawHandler, *atomic.Int64) {
	calls := &atomic.Int64{}
	return func(context.Context, job.Job[[]byte]) error { calls.Add(1); return err }, calls
}

// following makes an option that applies a policy to all jobs.
func following(t *testing.T, p policy.Policy) job.WorkerOption {
	t.Helper()
	compiled, err := policy.Compile(p, policy.JobLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	return job.WithProvider(policy.NewSet(policy.SetConfig{Jobs: compiled}))
}

// withOneToken gives a worker the budget "b", a bucket of one token that takes 100 s to refill.
func withOneToken(t *testing.T) job.WorkerOption {
	t.Helper()
	budgets := budget.NewRegistry()
	if err := budgets.Register("b", budget.NewTokenBucket(1, 0.01)); err != nil {
		t.Fatal(err)
	}
	return job.WithExecutorOptions(retry.ExecutorOptions{Budgets: budgets})
}

// steady makes a policy of n attempts one second apart.
func steady(n int) job.RetryPolicy {
	return job.NewExponentialBackoff(policy.Retry{MaxAttempts: n, InitialBackoff: time.Second, MaxBackoff: time.Second, BackoffMultiplier: 1, Jitter: policy.JitterNone})
}

// inCode is a policy written in Go.
type inCode struct {
	delay time.Duration
	max   int
}

func (p inCode) NextDelay(int) time.Duration { return p.delay }
func (p inCode) MaxAttempts() int            { return p.max }

func TestJ3EffectiveMaximum(t *testing.T) {
	for name, c := range map[string]struct {
		policy job.RetryPolicy
		own    int
		want   int64
	}{
		"both given, the policy is lower": {inCode{time.Second, 3}, 5, 3},
		"both given, the job is lower":    {inCode{time.Second, 5}, 2, 2},
		"only the policy":                 {inCode{time.Second, 4}, 0, 4},
		"only the job":                    {inCode{time.Second, 0}, 4, 4},
		"neither: first failure is dead":  {inCode{time.Second, -1}, 0, 1},
		"nil: first failure is dead":      {nil, 9, 1},
		"data":                            {steady(6), 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, calls := failing(errDown)
				b := work(t, handler, job.WithRetryPolicy(c.policy))
				id := b.enqueue(job.Request{MaxAttempts: c.own})
				time.Sleep(time.Minute)
				r, history := b.get(id)
				if r.State != job.Dead || calls.Load() != c.want || len(history) != int(c.want) || r.Failures != int(c.want) {
					t.Errorf("%s after %d calls, %d rows, attempts %d; want dead after %d", r.State, calls.Load(), len(history), r.Failures, c.want)
				}
				if r.LastError != "down" || history[len(history)-1].Error != "down" {
					t.Errorf("last error %q", r.LastError)
				}
			})
		})
	}
}

func TestJ3DefaultPolicyIs25Attempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(errDown)
		b := work(t, handler)
		id := b.enqueue(job.Request{})
		time.Sleep(10 * time.Minute)
		if r, _ := b.get(id); r.State != job.Dead || calls.Load() != 25 {
			t.Errorf("%s after %d calls", r.State, calls.Load())
		}
	})
}

func TestJ4DelaysAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			at = append(at, time.Since(start))
			return errDown
		}, job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{MaxAttempts: 4, InitialBackoff: 200 * time.Millisecond, MaxBackoff: 5 * time.Second, Jitter: policy.JitterNone})))
		b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond, 1400 * time.Millisecond}
		for i, d := range at {
			if late := d - want[i]; late < 0 || late > 10*time.Millisecond {
				t.Errorf("attempt %d started at %v, want %v", i+1, d, want[i])
			}
		}
		if len(at) != 4 {
			t.Errorf("%d attempts", len(at))
		}
	})
}

func TestJ5UnrecoverableIsDeadAtOnceAlsoInsideAPanic(t *testing.T) {
	for name, handler := range map[string]job.RawHandler{
		"returned": func(context.Context, job.Job[[]byte]) error { return fmt.Errorf("x: %w", job.Unrecoverable(errDown)) },
		"panicked": func(context.Context, job.Job[[]byte]) error { panic(job.Unrecoverable(errDown)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := work(t, handler)
				id := b.enqueue(job.Request{})
				synctest.Wait()
				r, history := b.get(id)
				if r.State != job.Dead || len(history) != 1 || r.Reason != policy.ReasonNonRetryable {
					t.Errorf("%s %s, %v", r.State, r.Reason, story(history))
				}
			})
		})
	}
}

func TestJ5PanicsAreFailuresWithTheirStackAndBadTextIsSanitised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { panic("bad \x00 \xff text") }, job.WithRetryPolicy(steady(2)))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		r, history := b.get(id)
		if r.State != job.Dead || len(history) != 2 || !strings.Contains(history[0].Stack, "worker_test.go") {
			t.Errorf("%s, %v", r.State, story(history))
		}
		if strings.ContainsRune(r.LastError, 0) || !utf8.ValidString(r.LastError) || !strings.Contains(r.LastError, "text") {
			t.Errorf("last error %q", r.LastError)
		}
	})
}

func TestJ5SnoozeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			if calls++; calls < 4 {
				return job.Snooze(time.Minute)
			}
			return nil
		}, job.WithRetryPolicy(steady(2)))
		id := b.enqueue(job.Request{})
		time.Sleep(4 * time.Minute)
		if r, history := b.get(id); r.State != job.Completed || r.Failures != 0 || len(history) != 4 {
			t.Errorf("%s, attempts %d, %v", r.State, r.Failures, story(history))
		}
	})
}

func TestCancelEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { return job.Cancel("not wanted any more") })
		id := b.enqueue(job.Request{})
		synctest.Wait()
		if r, history := b.get(id); r.State != job.Cancelled || history[0].Error != "not wanted any more" {
			t.Errorf("%s, %v", r.State, story(history))
		}
	})
}

func TestJ8HandlerLongerThanItsLeaseRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		slow := func(context.Context, job.Job[[]byte]) error {
			calls.Add(1)
			time.Sleep(10 * time.Minute)
			return nil
		}
		b := work(t, slow, job.WithLease(5*time.Second))
		defer b.start(b.store, slow, job.WithLease(5*time.Second))()
		id := b.enqueue(job.Request{})
		time.Sleep(11 * time.Minute)
		if r, _ := b.get(id); r.State != job.Completed || calls.Load() != 1 {
			t.Errorf("%s after %d calls", r.State, calls.Load())
		}
	})
}

func TestJ12ShutdownLetsJobsFinishWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { time.Sleep(10 * time.Second); return nil }, job.WithGrace(30*time.Second))
		running := b.enqueue(job.Request{})
		time.Sleep(time.Second)
		start := time.Now()
		b.stop()
		if took := time.Since(start); took != 9*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		if r, _ := b.get(running); r.State != job.Completed {
			t.Errorf("the running job is %s", r.State)
		}
	})
}

func TestJ12ShutdownReleasesUnfinishedJobs(t *testing.T) {
	for name, handler := range map[string]job.RawHandler{
		"obeys its context":   func(ctx context.Context, _ job.Job[[]byte]) error { <-ctx.Done(); return ctx.Err() },
		"ignores its context": func(context.Context, job.Job[[]byte]) error { time.Sleep(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := work(t, handler, job.WithGrace(5*time.Second))
				id := b.enqueue(job.Request{})
				time.Sleep(time.Second)
				start := time.Now()
				b.stop()
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("shutdown took %v", took)
				}
				r, history := b.get(id)
				if r.State != job.Ready || r.Failures != 0 || len(history) != 1 || history[0].Outcome != job.AttemptInterrupted || history[0].Reason != policy.ReasonShutdown {
					t.Errorf("%s, attempts %d, %v", r.State, r.Failures, story(history))
				}
				time.Sleep(time.Hour) // let the handler that ignores its context end
			})
		})
	}
}

func TestJ6ALostLeaseUsesUpAnAttemptAndAPoisonJobEndsInTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.enqueue(job.Request{})
		ctx := context.Background()
		// Three workers die with the job: each claims it and never returns.
		for range 3 {
			claimed, err := b.store.Claim(ctx, job.Claim{Worker: "doomed", Queues: []job.Slots{{Queue: "default", Free: 1}}, Lease: time.Second})
			if err != nil || len(claimed) != 1 {
				t.Fatal(claimed, err)
			}
			time.Sleep(2 * time.Second)
			if _, err := b.store.Maintain(ctx, job.Maintenance{Limit: 10}); err != nil {
				t.Fatal(err)
			}
		}
		handler, calls := failing(nil)
		defer b.start(b.store, handler, job.WithRetryPolicy(steady(3)))()
		synctest.Wait()
		r, history := b.get(id)
		want := []string{"1 lost lease_expired x1", "2 lost lease_expired x1", "3 lost lease_expired x1"}
		if diff := cmp.Diff(want, story(history)); diff != "" || r.State != job.Dead || calls.Load() != 0 {
			t.Errorf("%s after %d calls: %s", r.State, calls.Load(), diff)
		}
	})
}

func TestJ25ARequestToCancelReachesTheWorkerWithinASecond(t *testing.T) {
	for name, c := range map[string]struct {
		handler job.RawHandler
		want    job.State
	}{
		"the handler obeys its context": {func(ctx context.Context, _ job.Job[[]byte]) error { <-ctx.Done(); return ctx.Err() }, job.Cancelled},
		"the handler fails permanently": {func(ctx context.Context, _ job.Job[[]byte]) error {
			<-ctx.Done()
			return job.Unrecoverable(errDown)
		}, job.Cancelled},
		"the handler finishes first": {func(ctx context.Context, _ job.Job[[]byte]) error { <-ctx.Done(); return nil }, job.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := work(t, c.handler, job.WithLease(time.Hour))
				id := b.enqueue(job.Request{})
				time.Sleep(time.Minute)
				at := time.Now()
				if ids, err := b.store.Change(context.Background(), job.ActionCancel, job.Filter{IDs: []string{id}}, 1); err != nil || len(ids) != 1 {
					t.Fatal(ids, err)
				}
				if r, _ := b.get(id); r.State != job.Running || !r.CancelRequestedAt.Equal(job.Stamp(at)) {
					t.Errorf("%s, requested at %v", r.State, r.CancelRequestedAt)
				}
				time.Sleep(time.Second)
				if r, history := b.get(id); r.State != c.want || !r.CancelRequestedAt.Equal(job.Stamp(at)) {
					t.Errorf("%s, requested at %v, %v", r.State, r.CancelRequestedAt, story(history))
				}
			})
		})
	}
}

// distant is a store whose claims are answered late.
type distant struct {
	*memory.Jobs
	takes time.Duration
}

func (d distant) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	defer time.Sleep(d.takes)
	return d.Jobs.Claim(ctx, c)
}

func TestJ25ARequestToCancelAJobThatIsBeingClaimedReachesTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.enqueue(job.Request{})
		stop := b.start(distant{b.store, 2 * time.Second}, func(ctx context.Context, _ job.Job[[]byte]) error { <-ctx.Done(); return ctx.Err() }, job.WithLease(time.Hour))
		defer stop()
		time.Sleep(time.Second)
		if ids, err := b.store.Change(context.Background(), job.ActionCancel, job.Filter{IDs: []string{id}}, 1); err != nil || len(ids) != 1 {
			t.Fatal(ids, err)
		}
		time.Sleep(2 * time.Second) // one after the worker has got the job
		if r, history := b.get(id); r.State != job.Cancelled {
			t.Errorf("%s, %v", r.State, story(history))
		}
	})
}

func TestJ25WithoutNotificationsTheLeaseExtensionReportsARequestToCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.enqueue(job.Request{})
		stop := b.start(&faulty{Store: b.store}, func(ctx context.Context, _ job.Job[[]byte]) error { <-ctx.Done(); return ctx.Err() }, job.WithLease(3*time.Second))
		time.Sleep(time.Second / 2)
		if ids, err := b.store.Change(context.Background(), job.ActionCancel, job.Filter{IDs: []string{id}}, 1); err != nil || len(ids) != 1 {
			t.Fatal(ids, err)
		}
		time.Sleep(time.Second)
		if r, history := b.get(id); r.State != job.Cancelled {
			t.Errorf("%s, %v", r.State, story(history))
		}
		stop()
	})
}

func TestJ16RefusedAttemptsUseUpNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(nil)
		b := work(t, handler, following(t, policy.Policy{Retry: policy.Retry{Budget: policy.BudgetRef{Name: "b"}}}), withOneToken(t))
		first := b.enqueue(job.Request{})
		synctest.Wait()
		second := b.enqueue(job.Request{})
		time.Sleep(5 * time.Minute)
		if r, _ := b.get(first); r.State != job.Completed {
			t.Errorf("first is %s", r.State)
		}
		r, history := b.get(second)
		if r.State != job.Completed || r.Failures != 0 || calls.Load() != 2 {
			t.Errorf("second is %s, attempts %d, %d calls", r.State, r.Failures, calls.Load())
		}
		if len(history) != 2 || history[0].Outcome != job.AttemptRefused || history[0].Reason != policy.ReasonBudgetDenied {
			t.Errorf("history %v, want one counted row of refusals", story(history))
		}
		if history[0].Count > 3 {
			t.Errorf("%d refusals: the worker did not wait for the budget", history[0].Count)
		}
	})
}

func TestJ17OverallTimeoutFromTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(errDown)
		b := work(t, handler, following(t, tenSecondsApart(35*time.Second, policy.BudgetRef{})))
		id := b.enqueue(job.Request{RunAt: time.Now().Add(time.Hour)})
		time.Sleep(2 * time.Hour)
		r, history := b.get(id)
		if r.State != job.Dead || r.Reason != policy.ReasonOverallTimeout || calls.Load() != 4 || len(history) != 4 {
			t.Errorf("%s %s after %d calls, %v", r.State, r.Reason, calls.Load(), story(history))
		}
	})
}

func TestJ11IdleWorkersAreNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started time.Time
		b := work(t, func(context.Context, job.Job[[]byte]) error { started = time.Now(); return nil }, job.WithPoll(time.Hour))
		time.Sleep(10 * time.Minute)
		now := time.Now()
		b.enqueue(job.Request{})
		synctest.Wait()
		if !started.Equal(now) {
			t.Errorf("started %v after the enqueue", started.Sub(now))
		}
	})
}

func TestJ8NoMoreThanTheQueuesConcurrencyRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}, job.WithQueues(map[string]int{"default": 3}))
		for range 20 {
			b.enqueue(job.Request{})
		}
		start := time.Now()
		time.Sleep(7500 * time.Millisecond)
		stats, err := b.store.Stats(context.Background())
		if err != nil || most.Load() != 3 || stats["default"].Completed != 20 {
			t.Errorf("%d concurrently, %+v after %v, %v", most.Load(), stats["default"], time.Since(start), err)
		}
	})
}

func TestJ18MetaReachesTheHandlerAndPayloadsAreTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type email struct{ To string }
		db := memory.Open()
		w := job.NewWorker(db.Jobs(), quiet)
		var got job.Job[email]
		job.Handle(w, "email:send", func(_ context.Context, j job.Job[email]) error {
			got = j
			j.SetOutput([]byte("sent"))
			return nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		client := job.NewClient(db.Jobs())
		receipt, err := client.Enqueue(ctx, job.Request{Type: "email:send", Payload: email{"ada"}, Meta: map[string]string{"tenant_id": "t1"}})
		if err != nil || receipt.Durability != job.InMemory {
			t.Fatal(receipt, err)
		}
		bad, err := client.Enqueue(ctx, job.Request{Type: "email:send", Payload: "not an email"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got.ID != receipt.ID || got.Payload.To != "ada" || got.Meta["tenant_id"] != "t1" || got.Attempt != 1 {
			t.Errorf("%+v", got)
		}
		r, _, _ := db.Jobs().Get(ctx, receipt.ID)
		if string(r.Output) != "sent" {
			t.Errorf("output %q", r.Output)
		}
		if r, _, _ := db.Jobs().Get(ctx, bad.ID); r.State != job.Dead || r.Reason != policy.ReasonInvalidPayload {
			t.Errorf("a payload that does not fit: %s %s", r.State, r.Reason)
		}
		cancel()
		<-done
	})
}

// TestL12APayloadThatDoesNotFitIsNotQuoted checks the error that logs and records hold.
func TestL12APayloadThatDoesNotFitIsNotQuoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		w := job.NewWorker(db.Jobs(), quiet)
		job.Handle(w, "pay", func(context.Context, job.Job[struct{ Card int32 }]) error { return nil })
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		receipt, err := job.NewClient(db.Jobs()).Enqueue(ctx, job.Request{Type: "pay", Payload: map[string]int{"Card": 4111111111111111}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r, _, _ := db.Jobs().Get(ctx, receipt.ID)
		if want := "job: payload does not fit the handler: Card: a JSON number is not int32"; r.State != job.Dead || r.LastError != want {
			t.Errorf("%s: %s", r.State, r.LastError)
		}
		cancel()
		<-done
	})
}

func TestJ13Retention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _ := failing(nil)
		b := work(t, handler, job.WithRetention(map[job.State]time.Duration{job.Completed: time.Hour}))
		id := b.enqueue(job.Request{})
		time.Sleep(59 * time.Minute)
		b.get(id)
		time.Sleep(2 * time.Minute)
		if _, _, err := b.store.Get(context.Background(), id); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("still stored: %v", err)
		}
	})
}

func TestPoisonJobsReachTheDeadLettersInExactlyNAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(errDown)
		b := work(t, handler, job.WithRetryPolicy(steady(5)), job.WithQueues(map[string]int{"default": 50}))
		requests := make([]job.Request, 1000)
		for i := range requests {
			requests[i] = job.Request{Type: "t"}
		}
		if _, err := b.client.EnqueueMany(context.Background(), requests); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stats, _ := b.store.Stats(context.Background())
		if stats["default"].Dead != 1000 || calls.Load() != 5000 {
			t.Errorf("%+v after %d calls", stats["default"], calls.Load())
		}
	})
}

func TestBackoffAtAttempt2000IsNeitherNegativeNorAHotLoop(t *testing.T) {
	p := job.NewExponentialBackoff(policy.Retry{InitialBackoff: 200 * time.Millisecond, MaxBackoff: 5 * time.Second})
	for _, failed := range []int{1, 37, 63, 64, 2000, 1 << 30} {
		if d := p.NextDelay(failed); d < 160*time.Millisecond || d > 5*time.Second {
			t.Errorf("NextDelay(%d) = %v", failed, d)
		}
	}
	if p.MaxAttempts() != 25 {
		t.Errorf("MaxAttempts %d", p.MaxAttempts())
	}
}

func TestMiddlewareWrapsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		mark := func(name string) job.Middleware {
			return func(next job.RawHandler) job.RawHandler {
				return func(ctx context.Context, j job.Job[[]byte]) error {
					order = append(order, name)
					return next(ctx, j)
				}
			}
		}
		handler, _ := failing(nil)
		b := work(t, handler, job.WithMiddleware(mark("outer"), mark("inner")))
		b.enqueue(job.Request{})
		synctest.Wait()
		if diff := cmp.Diff([]string{"outer", "inner"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAWorkerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := job.NewWorker(memory.Open().Jobs())
		ctx, cancel := context.WithCancel(context.Background())
		first := make(chan error)
		go func() { first <- w.Run(ctx) }()
		synctest.Wait()
		if err := w.Run(ctx); err == nil || !strings.Contains(err.Error(), "has run already") {
			t.Error(err)
		}
		cancel()
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := w.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "has run already") {
			t.Error(err)
		}
	})
}

func TestNilHandlersAndGuardsAreRejectedBeforeJobsFail(t *testing.T) {
	w := job.NewWorker(memory.Open().Jobs())
	for name, misuse := range map[string]func(){
		"handler is nil":     func() { job.Handle[string](w, "t", nil) },
		"the handler is nil": func() { w.HandleRaw("t", nil) },
		"the guard is nil":   func() { job.Idempotent(nil, nil) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, name) {
					t.Errorf("%s: %s", name, text)
				}
			}()
			misuse()
		}()
	}
}

func TestANilLoggerIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { return nil }, job.WithLogger(nil))
		b.enqueue(job.Request{Type: "unknown"}) // which is logged
		synctest.Wait()
	})
}

// absent is a provider that never has a policy.
type absent struct{}

func (absent) Policy(context.Context, policy.Key) (*policy.Policy, error) {
	return nil, policy.ErrProviderUnavailable
}

func TestJ3AProviderOutageLeavesTheDefaultPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(errDown)
		b := work(t, handler, job.WithProvider(absent{}))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Hour)
		if r, _ := b.get(id); r.State != job.Dead || calls.Load() != 25 {
			t.Errorf("%s after %d attempts", r.State, calls.Load())
		}
	})
}
