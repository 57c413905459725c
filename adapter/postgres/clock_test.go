package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// TestJ17OverallTimeoutHoldsWhateverTheServersClockShows: with a server an hour behind or ahead, new jobs still run, old jobs
// still time out, and every row of a history has the server's time.
func TestJ17OverallTimeoutHoldsWhateverTheServersClockShows(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			advance(t, by)
			db, _ := openEmpty(t, clocked)
			fails := func(last int) job.RawHandler {
				return func(_ context.Context, j job.Job[[]byte]) error {
					if j.Attempt > last {
						return nil
					}
					return errors.New("down")
				}
			}
			r, history := runBounded(t, db.Jobs(), 5*time.Minute, fails(2))
			if r.State != job.Completed || len(history) != 3 {
				t.Errorf("a job within its time: %s %s, %+v", r.State, r.Reason, history)
			}
			if apart := time.Until(r.CreatedAt) - by; apart.Abs() > 10*time.Minute {
				t.Fatalf("the server's clock is off by %v from %v: nothing was tested", apart, by)
			}
			before := r.CreatedAt
			for _, a := range history {
				if a.Started.Before(before) || a.Finished.Before(a.Started) || a.Finished.After(r.FinishedAt) {
					t.Errorf("an attempt from %v to %v after %v and before %v", a.Started, a.Finished, before, r.FinishedAt)
				}
				before = a.Finished
			}
			r, history = runBounded(t, db.Jobs(), 2*time.Second, fails(1<<30))
			if r.State != job.Dead || r.Reason != policy.ReasonOverallTimeout || len(history) == 0 || r.Failures == 0 {
				t.Errorf("a job past its time: %s %s, %+v", r.State, r.Reason, history)
			}
		})
	}
}

// runBounded runs one job with an overall timeout until it has ended.
func runBounded(t *testing.T, store *postgres.Jobs, overall time.Duration, handler job.RawHandler) (*job.Record, []job.Attempt) {
	t.Helper()
	compiled, err := policy.Compile(policy.Policy{Retry: policy.Retry{
		MaxAttempts: 1000, InitialBackoff: 50 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Jitter: policy.JitterNone, OverallTimeout: overall,
	}}, policy.JobLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	w := job.NewWorker(store, job.WithLogger(slog.New(slog.DiscardHandler)), job.WithProvider(policy.NewSet(policy.SetConfig{Jobs: compiled})))
	w.HandleRaw("t", handler)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	receipt, err := job.NewClient(store).Enqueue(ctx, job.Request{Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	working, stop := context.WithCancel(ctx)
	go func() { done <- w.Run(working) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		r, history, err := store.Get(ctx, receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.State.Finished() {
			return r, history
		}
		<-look.C
	}
}
