package job_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// hung is a store that does not answer while it hangs.
type hung struct {
	job.Store
	hangs atomic.Bool
	calls atomic.Int64
}

func (h *hung) wait(ctx context.Context) error {
	if !h.hangs.Load() {
		return nil
	}
	h.calls.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

func (h *hung) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Store.Claim(ctx, c)
}

func (h *hung) Extend(ctx context.Context, leases []job.Ref, d time.Duration) []error {
	if err := h.wait(ctx); err != nil {
		errs := make([]error, len(leases))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return h.Store.Extend(ctx, leases, d)
}

func TestJ12ShutdownDoesNotWaitForAHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hung{Store: memory.Open().Jobs()}
		store.hangs.Store(true)
		b := &bench{t: t}
		handler, _ := failing(nil)
		stop := b.start(store, handler)
		time.Sleep(3 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 5*time.Second || store.calls.Load() == 0 {
			t.Errorf("took %v, %d calls", took, store.calls.Load())
		}
	})
}

// reticent is a store that does not answer the first call of each of the worker's services.
type reticent struct {
	*memory.Jobs
	mu   sync.Mutex
	hung map[string]bool
}

func (r *reticent) wait(ctx context.Context, call string) error {
	r.mu.Lock()
	first := !r.hung[call]
	r.hung[call] = true
	r.mu.Unlock()
	if !first {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *reticent) Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error) {
	if err := r.wait(ctx, "lead"); err != nil {
		return false, err
	}
	return r.Jobs.Lead(ctx, worker, ttl)
}

func (r *reticent) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	if err := r.wait(ctx, "maintain"); err != nil {
		return job.Maintained{}, err
	}
	return r.Jobs.Maintain(ctx, m)
}

func TestJ8AStoreThatHangsIsAskedAgainWhateverTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reticent{Jobs: memory.Open().Jobs(), hung: map[string]bool{}}
		b := &bench{t: t, store: store.Jobs, client: job.NewClient(store.Jobs)}
		handler, _ := failing(nil)
		stop := b.start(store, handler, job.WithLease(job.MaxLease), job.WithPeriodic(job.Periodic{
			Name: "tick", Cron: "@every 1m", Request: job.Request{Type: "t"},
		}))
		defer stop()
		now := b.enqueue(job.Request{})
		later := b.enqueue(job.Request{RunAt: time.Now().Add(time.Second)})
		time.Sleep(3 * time.Minute)
		for _, id := range []string{now, later} {
			if r, _ := b.get(id); r.State != job.Completed {
				t.Errorf("%+v", r)
			}
		}
		if stats, err := store.Stats(t.Context()); err != nil || stats["default"].Completed < 4 {
			t.Error(stats, err)
		}
	})
}

func TestJ8ALeaseSurvivesAHangingExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open().Jobs()
		store := &hung{Store: db}
		b := &bench{t: t, store: db, client: job.NewClient(db)}
		var calls atomic.Int64
		stop := b.start(store, func(ctx context.Context, _ job.Job[[]byte]) error {
			calls.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Minute):
			}
			return ctx.Err()
		}, job.WithLease(30*time.Second), job.WithQueues(map[string]int{"default": 1}))
		id := b.enqueue(job.Request{})
		time.Sleep(9 * time.Second)
		store.hangs.Store(true)
		time.Sleep(2 * time.Second) // the extension at 10 s is in flight
		store.hangs.Store(false)
		time.Sleep(3 * time.Minute)
		if r, history := b.get(id); r.State != job.Completed || len(history) != 1 || calls.Load() != 1 || store.calls.Load() != 1 {
			t.Errorf("%s, %v, %d calls, %d hung", r.State, story(history), calls.Load(), store.calls.Load())
		}
		stop()
	})
}

// forgetful is a store that does not extend leases.
type forgetful struct{ job.Store }

func (forgetful) Extend(_ context.Context, leases []job.Ref, _ time.Duration) []error {
	errs := make([]error, len(leases))
	for i := range errs {
		errs[i] = errUnreachable
	}
	return errs
}

func TestJ6HandlerOfALostLeaseIsCancelledWhenItsWorkerClaimsTheJobAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var calls, running, most atomic.Int64
		stop := b.start(forgetful{b.store}, func(ctx context.Context, _ job.Job[[]byte]) error {
			calls.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		}, job.WithLease(5*time.Second))
		b.enqueue(job.Request{})
		time.Sleep(58 * time.Second) // not at the very end of a lease
		if calls.Load() < 3 || running.Load() != 1 || most.Load() > 2 {
			t.Errorf("%d calls, %d run, %d at most", calls.Load(), running.Load(), most.Load())
		}
		stop()
	})
}

func TestJ4AHandlerThatEndsItsGoroutineIsSettledAtOnceAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			runtime.Goexit()
			return nil
		}, job.WithRetryPolicy(steady(5)), job.WithLease(time.Hour), job.WithQueues(map[string]int{"default": 1}))
		id := b.enqueue(job.Request{MaxAttempts: 2})
		synctest.Wait()
		if r, history := b.get(id); r.State != job.Scheduled || r.Reason != policy.ReasonHandlerExited || !strings.Contains(r.LastError, "runtime.Goexit") {
			t.Errorf("%s %s %q, %v", r.State, r.Reason, r.LastError, story(history))
		}
		time.Sleep(time.Minute)
		r, history := b.get(id)
		want := []string{"1 failed handler_exited x1", "2 failed attempts_exhausted x1"}
		if diff := cmp.Diff(want, story(history)); diff != "" || r.State != job.Dead || !strings.Contains(r.LastError, "runtime.Goexit") {
			t.Errorf("%s %q: %s", r.State, r.LastError, diff)
		}
	})
}

// behind is a store whose clock is behind the clock of the worker.
type behind struct {
	job.Store
	calls atomic.Int64
}

func (s *behind) Maintain(context.Context, job.Maintenance) (job.Maintained, error) {
	s.calls.Add(1)
	now := time.Now().Add(-time.Hour)
	return job.Maintained{NextDue: now.Add(-time.Second), Now: now}, nil
}

func TestJ7AStoreWithASlowClockIsNotPolledInAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &behind{Store: memory.Open().Jobs()}
		b := &bench{t: t}
		handler, _ := failing(nil)
		stop := b.start(store, handler)
		time.Sleep(10 * time.Second)
		stop()
		if n := store.calls.Load(); n > 600 {
			t.Errorf("%d calls in 10 s", n)
		}
	})
}

// hungLeader is a store of which calls that only a leader makes do not answer while it hangs.
type hungLeader struct {
	*memory.Jobs
	hung hung
	of   string // the calls
}

func (h *hungLeader) Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error) {
	if h.of == "lead" && h.hung.wait(ctx) != nil {
		return false, ctx.Err()
	}
	return h.Jobs.Lead(ctx, worker, ttl)
}

func (h *hungLeader) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	if h.of == "retention" && m.Keep != nil && h.hung.wait(ctx) != nil {
		return job.Maintained{}, ctx.Err()
	}
	return h.Jobs.Maintain(ctx, m)
}

func (h *hungLeader) Enqueue(ctx context.Context, list []job.Insert) ([]job.Receipt, error) {
	if h.of == "tick" && h.hung.wait(ctx) != nil {
		return nil, ctx.Err()
	}
	return h.Jobs.Enqueue(ctx, list)
}

// TestJ15TicksGoOnAfterTheStoreHung loses the answer to a call of the leader, as a broken connection does.
func TestJ15TicksGoOnAfterTheStoreHung(t *testing.T) {
	for _, of := range []string{"lead", "retention", "tick"} {
		synctest.Test(t, func(t *testing.T) {
			store := &hungLeader{Jobs: memory.Open().Jobs(), of: of}
			var runs atomic.Int64
			b := &bench{t: t}
			stop := b.start(store, func(context.Context, job.Job[[]byte]) error { runs.Add(1); return nil },
				job.WithRetention(map[job.State]time.Duration{job.Completed: time.Hour}),
				job.WithPeriodic(job.Periodic{Name: "p", Cron: "@every 1m", Request: job.Request{Type: "t"}}))
			defer stop()
			time.Sleep(30 * time.Second) // between two ticks
			store.hung.hangs.Store(true)
			time.Sleep(time.Minute)
			store.hung.hangs.Store(false)
			time.Sleep(10 * time.Minute)
			if runs.Load() < 10 || store.hung.calls.Load() == 0 {
				t.Errorf("%s: %d ticks in 11 minutes, %d calls hung", of, runs.Load(), store.hung.calls.Load())
			}
		})
	}
}

// crowded is a store with more finished jobs than can be removed.
type crowded struct{ *memory.Jobs }

func (c crowded) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	done, err := c.Jobs.Maintain(ctx, m)
	if m.Keep != nil {
		time.Sleep(50 * time.Millisecond)
		done.Removed = m.Limit
	}
	return done, err
}

func TestJ15TicksGoOnWhileManyJobsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open().Jobs()
		b := &bench{t: t, store: db}
		var runs atomic.Int64
		defer b.start(crowded{db}, func(context.Context, job.Job[[]byte]) error { runs.Add(1); return nil },
			job.WithRetention(map[job.State]time.Duration{job.Completed: time.Hour}),
			job.WithPeriodic(job.Periodic{Name: "p", Cron: "@every 1m", Request: job.Request{Type: "t"}}))()
		time.Sleep(10*time.Minute + time.Second)
		if workers, err := db.Workers(t.Context()); err != nil || len(workers) != 1 || runs.Load() < 9 {
			t.Errorf("%d ticks in ten minutes, workers %v, %v", runs.Load(), workers, err)
		}
	})
}
