package job_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

// faulty is a store that fails while it is down.
type faulty struct {
	job.Store
	down   atomic.Bool
	faults atomic.Int64
}

var errUnreachable = errors.New("connection refused")

func (f *faulty) broken() bool {
	if f.down.Load() {
		f.faults.Add(1)
		return true
	}
	return false
}

func (f *faulty) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	if f.broken() {
		return nil, errUnreachable
	}
	return f.Store.Claim(ctx, c)
}

func (f *faulty) Settle(ctx context.Context, list []job.Settlement) []error {
	if f.broken() {
		errs := make([]error, len(list))
		for i := range errs {
			errs[i] = errUnreachable
		}
		return errs
	}
	return f.Store.Settle(ctx, list)
}

func (f *faulty) Extend(ctx context.Context, leases []job.Ref, d time.Duration) []error {
	if f.broken() {
		errs := make([]error, len(leases))
		for i := range errs {
			errs[i] = errUnreachable
		}
		return errs
	}
	return f.Store.Extend(ctx, leases, d)
}

func (f *faulty) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	if f.broken() {
		return job.Maintained{}, errUnreachable
	}
	return f.Store.Maintain(ctx, m)
}

func TestJ8TransientStoreErrorsChangeNothingForRunningJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		store := &faulty{Store: db.Jobs()}
		b := &bench{t: t, store: db.Jobs(), client: job.NewClient(db.Jobs())}
		var calls atomic.Int64
		stop := b.start(store, func(context.Context, job.Job[[]byte]) error {
			calls.Add(1)
			time.Sleep(10 * time.Second)
			return nil
		}, job.WithLease(time.Minute))
		id := b.enqueue(job.Request{})
		time.Sleep(5 * time.Second)
		store.down.Store(true)
		time.Sleep(30 * time.Second) // the handler ends meanwhile, but the worker cannot settle it
		store.down.Store(false)
		later := b.enqueue(job.Request{})
		time.Sleep(30 * time.Second)
		for _, id := range []string{id, later} {
			if r, history := b.get(id); r.State != job.Completed || len(history) != 1 {
				t.Errorf("%s: %s, %v", id, r.State, story(history))
			}
		}
		if calls.Load() != 2 || store.faults.Load() == 0 {
			t.Errorf("%d calls, %d faults", calls.Load(), store.faults.Load())
		}
		stop()
	})
}

func TestJ7ALateResultOfALostLeaseIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		cut := &faulty{Store: db.Jobs()}
		b := &bench{t: t, store: db.Jobs(), client: job.NewClient(db.Jobs())}
		var runs atomic.Int64
		handler := func(context.Context, job.Job[[]byte]) error {
			if runs.Add(1) == 1 {
				cut.down.Store(true) // the first worker is cut off from the store
				time.Sleep(20 * time.Second)
				return job.Unrecoverable(errDown) // and returns with a result that must not count
			}
			time.Sleep(time.Minute)
			return nil
		}
		id := b.enqueue(job.Request{}) // first: this store does not notify
		stop1 := b.start(cut, handler, job.WithLease(5*time.Second))
		synctest.Wait()
		stop2 := b.start(b.store, handler, job.WithLease(5*time.Second))
		time.Sleep(21 * time.Second)
		cut.down.Store(false)
		time.Sleep(2 * time.Minute)
		r, history := b.get(id)
		if r.State != job.Completed || len(history) != 2 || history[0].Outcome != job.AttemptLost || history[1].Outcome != job.AttemptCompleted {
			t.Errorf("%s, %v", r.State, story(history))
		}
		stop1()
		stop2()
	})
}

func TestJ3AMaximumThatStoresCannotHoldIsRejected(t *testing.T) {
	var refused *job.RequestError
	_, err := job.NewClient(memory.Open().Jobs()).Enqueue(t.Context(), job.Request{Type: "t", MaxAttempts: 1<<32 + 1})
	if !errors.As(err, &refused) || refused.Field != "max_attempts" {
		t.Errorf("%v", err)
	}
}

func TestJ2TimesThatStoresCannotHoldAreRejected(t *testing.T) {
	for at, ok := range map[time.Time]bool{
		time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC):                              true,
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC):                      true,
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600)): false,
		time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC):                            false,
		time.Date(400000, 1, 1, 0, 0, 0, 0, time.UTC):                         false,
		time.Unix(1<<60, 0): false,
	} {
		_, err := job.NewClient(memory.Open().Jobs()).Enqueue(t.Context(), job.Request{Type: "t", RunAt: at})
		refused, is := errors.AsType[*job.RequestError](err)
		if ok && err != nil || !ok && (!is || refused.Field != "run_at") {
			t.Errorf("%v: %v", at, err)
		}
	}
}

func TestRequestsAreCheckedAndNameTheField(t *testing.T) {
	client := job.NewClient(memory.Open().Jobs(), job.WithMaxPayload(10))
	for field, r := range map[string]job.Request{
		"type":         {},
		"queue":        {Type: "t", Queue: strings.Repeat("q", 200)},
		"priority":     {Type: "t", Priority: 10},
		"max_attempts": {Type: "t", MaxAttempts: -1},
		"timeout":      {Type: "t", Timeout: -1},
		"unique_key":   {Type: "t", UniqueKey: "a\x00b"},
		"unique_for":   {Type: "t", UniqueKey: "k", UniqueFor: -1},
		"meta":         {Type: "t", Meta: map[string]string{"k": "\xff"}},
		"payload":      {Type: "t", Payload: func() {}},
		"run_at":       {Type: "t", RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := client.Enqueue(context.Background(), r)
		if e, ok := errors.AsType[*job.RequestError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := client.EnqueueMany(context.Background(), []job.Request{{Type: "t"}, {Type: "t", Payload: "much too long"}})
	if e, ok := errors.AsType[*job.PayloadTooLargeError](err); !ok || e.Index != 1 || e.Limit != 10 {
		t.Errorf("J18: %v", err)
	}
	if receipts, err := client.EnqueueMany(context.Background(), nil); err != nil || len(receipts) != 0 {
		t.Errorf("nothing: %v, %v", receipts, err)
	}
}

func TestJ8AWorkerDoesNotStartWithAQueueOrTypeThatNoJobCanHave(t *testing.T) {
	handler := func(context.Context, job.Job[[]byte]) error { return nil }
	for field, w := range map[string]*job.Worker{
		"queue": job.NewWorker(memory.Open().Jobs(), quiet, job.WithQueues(map[string]int{"mail": 1, "a\x00b": 1})),
		"type":  job.NewWorker(memory.Open().Jobs(), quiet),
	} {
		w.HandleRaw("t", handler)
		if field == "type" {
			w.HandleRaw("\x00", handler)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Run(ended); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestJ15EachTickIsEnqueuedOnceAcrossWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		handler := func(context.Context, job.Job[[]byte]) error { calls.Add(1); return nil }
		every := job.WithPeriodic(job.Periodic{Name: "report", Cron: "*/10 * * * *", Request: job.Request{Type: "t"}})
		b := work(t, handler, every, job.WithPoll(time.Minute))
		defer b.start(b.store, handler, every, job.WithPoll(time.Minute))()
		defer b.start(b.store, handler, every, job.WithPoll(time.Minute))()
		time.Sleep(time.Hour + time.Minute)
		if calls.Load() != 6 {
			t.Errorf("%d runs in an hour of ticks every ten minutes", calls.Load())
		}
	})
}

func TestJ15MissedTicksByPolicy(t *testing.T) {
	for missed, want := range map[job.Missed]int64{job.MissedSkip: 0, job.MissedOnce: 1, job.MissedAll: 24} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(30 * time.Minute) // between two ticks
			var calls atomic.Int64
			b := work(t, func(context.Context, job.Job[[]byte]) error { calls.Add(1); return nil },
				job.WithPeriodic(job.Periodic{Name: "n", Cron: "@hourly", Missed: missed, Request: job.Request{Type: "t"}}))
			time.Sleep(time.Minute)
			if calls.Load() != want {
				t.Errorf("missed %q: %d runs, want %d", missed, calls.Load(), want)
			}
			b.stop()
			defer b.start(b.store, func(context.Context, job.Job[[]byte]) error { calls.Add(1); return nil },
				job.WithPeriodic(job.Periodic{Name: "n", Cron: "@hourly", Missed: missed, Request: job.Request{Type: "t"}}))()
			time.Sleep(time.Minute)
			if calls.Load() != want {
				t.Errorf("missed %q: %d runs after a restart, want %d", missed, calls.Load(), want)
			}
		})
	}
}

func TestJ15LeadershipPassesOnWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		handler := func(context.Context, job.Job[[]byte]) error { calls.Add(1); return nil }
		every := job.WithPeriodic(job.Periodic{Name: "n", Cron: "@every 1m", Request: job.Request{Type: "t"}})
		b := work(t, handler, every)
		defer b.start(b.store, handler, every)()
		time.Sleep(30 * time.Second)
		b.stop() // the leader stops
		time.Sleep(45 * time.Second)
		if calls.Load() != 1 {
			t.Errorf("%d runs after 75s", calls.Load())
		}
	})
}

// elected records when its worker leads, and can disconnect it right after that.
type elected struct {
	*memory.Jobs
	gone        atomic.Bool
	first, last atomic.Pointer[time.Time] // times of leading
}

func (e *elected) Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error) {
	if e.gone.Load() {
		return false, errUnreachable
	}
	leads, err := e.Jobs.Lead(ctx, worker, ttl)
	if now := time.Now(); leads {
		e.first.CompareAndSwap(nil, &now)
		e.last.Store(&now)
	}
	return leads, err
}

func TestJ15AnotherWorkerLeadsWithinTenSecondsOfACrash(t *testing.T) {
	for n := range time.Duration(5) {
		synctest.Test(t, func(t *testing.T) {
			db := memory.Open()
			leader, other := &elected{Jobs: db.Jobs()}, &elected{Jobs: db.Jobs()}
			b := &bench{t: t}
			handler := func(context.Context, job.Job[[]byte]) error { return nil }
			defer b.start(leader, handler)()
			time.Sleep((n + 1) * 500 * time.Millisecond) // between the polls of the two workers
			defer b.start(other, handler)()
			time.Sleep(30 * time.Second)
			leader.gone.Store(true)
			time.Sleep(time.Minute)
			if other.first.Load() == nil {
				t.Fatal("nobody leads")
			}
			if d := other.first.Load().Sub(*leader.last.Load()); d <= 0 || d > 10*time.Second {
				t.Errorf("another leads %v after the last sign of life", d)
			}
		})
	}
}

func TestPeriodicJobsAreCheckedAtTheStart(t *testing.T) {
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	for name, p := range map[string]job.Periodic{
		"no name":        {Cron: "@daily", Request: job.Request{Type: "t"}},
		"long name":      {Name: strings.Repeat("n", 256), Cron: "@daily", Request: job.Request{Type: "t"}},
		"NUL in name":    {Name: "a\x00", Cron: "@daily", Request: job.Request{Type: "t"}},
		"name not UTF-8": {Name: "\xff", Cron: "@daily", Request: job.Request{Type: "t"}},
		"bad cron":       {Name: "n", Cron: "every day", Request: job.Request{Type: "t"}},
		"bad missed":     {Name: "n", Cron: "@daily", Missed: "maybe", Request: job.Request{Type: "t"}},
		"no type":        {Name: "n", Cron: "@daily"},
	} {
		w := job.NewWorker(memory.Open().Jobs(), quiet, job.WithPeriodic(p))
		if err := w.Run(stopped); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestHealthyReportsWhetherTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: memory.Open().Jobs()}
		w := job.NewWorker(store, quiet, job.WithQueues(map[string]int{"default": 1}))
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { time.Sleep(time.Hour); return nil })
		if _, err := job.NewClient(store).Enqueue(context.Background(), job.Request{Type: "t"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		time.Sleep(30 * time.Minute) // busy slots do not make a worker unhealthy
		if err := w.Healthy(10 * time.Second); err != nil {
			t.Error(err)
		}
		store.down.Store(true)
		time.Sleep(time.Minute)
		if w.Healthy(10*time.Second) == nil {
			t.Error("healthy while the store does not answer")
		}
		store.down.Store(false)
		cancel()
		<-done
		time.Sleep(time.Hour)
	})
}

// late answers a claim only after the worker began to stop.
type late struct {
	job.Store
	stop func()
}

func (l *late) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	records, err := l.Store.Claim(ctx, c)
	if len(records) > 0 {
		l.stop()
	}
	return records, err
}

func TestJ12JobsClaimedWhileStoppingAreReleasedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		ctx, cancel := context.WithCancel(context.Background())
		w := job.NewWorker(&late{db.Jobs(), cancel}, quiet)
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { t.Error("started while stopping"); return nil })
		receipt, err := job.NewClient(db.Jobs()).Enqueue(ctx, job.Request{Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if r, history, err := db.Jobs().Get(context.Background(), receipt.ID); err != nil || r.State != job.Ready || r.Failures != 0 {
			t.Errorf("%s, %v, %v", r.State, story(history), err)
		}
	})
}

// unsound is a panicking retry policy.
type unsound struct{ inMax bool }

func (u unsound) MaxAttempts() int {
	if u.inMax {
		panic("no idea")
	}
	return 2
}
func (u unsound) NextDelay(int) time.Duration { panic("no idea") }

func TestJ5APanickingRetryPolicyIsARecordedFailure(t *testing.T) {
	for name, c := range map[string]struct {
		policy unsound
		own    int // the job's maximum
		rows   int
		says   string
		stack  bool
	}{
		"MaxAttempts, the job's own maximum": {unsound{inMax: true}, 3, 3, "panic in MaxAttempts of the retry policy: no idea", true},
		"MaxAttempts, the default maximum":   {unsound{inMax: true}, 0, 25, "panic in MaxAttempts of the retry policy: no idea", true},
		"NextDelay":                          {unsound{}, 0, 2, "down; panic in NextDelay of the retry policy: no idea", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, _ := failing(errDown)
				b := work(t, handler, job.WithRetryPolicy(c.policy))
				id := b.enqueue(job.Request{MaxAttempts: c.own})
				synctest.Wait()
				r, history := b.get(id)
				if r.State != job.Scheduled || r.LastError != c.says || (history[0].Stack != "") != c.stack {
					t.Errorf("%s %q, %v", r.State, r.LastError, story(history))
				}
				time.Sleep(time.Hour)
				if r, history := b.get(id); r.State != job.Dead || len(history) != c.rows || r.LastError == "" {
					t.Errorf("%s %q, %v", r.State, r.LastError, story(history))
				}
			})
		})
	}
}
