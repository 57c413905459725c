package job_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// bounded is a provider of one policy for all jobs: 10 s between attempts, and an overall timeout.
func bounded(t *testing.T, overall time.Duration, ref policy.BudgetRef) policy.Provider {
	t.Helper()
	compiled, err := policy.Compile(policy.Policy{Retry: policy.Retry{
		MaxAttempts: 100, InitialBackoff: 10 * time.Second, MaxBackoff: 10 * time.Second, Jitter: policy.JitterNone,
		OverallTimeout: overall, Budget: ref,
	}}, policy.JobLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewSet(policy.SetConfig{Jobs: compiled})
}

func TestJ17RefusedJobDoesNotAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budgets := budget.NewRegistry()
		bucket, err := budget.New(policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: 1, RefillPerSecond: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		if err := budgets.Register("b", bucket); err != nil {
			t.Fatal(err)
		}
		handler, calls := failing(nil)
		b := work(t, handler, job.WithProvider(bounded(t, 30*time.Second, policy.BudgetRef{Name: "b"})),
			job.WithExecutorOptions(retry.ExecutorOptions{Budgets: budgets}))
		b.enqueue(job.Request{}) // takes the budget's only token
		synctest.Wait()
		refused := b.enqueue(job.Request{})
		time.Sleep(5 * time.Minute)
		r, history := b.get(refused)
		if r.State != job.Completed || calls.Load() != 2 || history[0].Outcome != job.AttemptRefused {
			t.Errorf("%s %s after %d calls, %v", r.State, r.Reason, calls.Load(), story(history))
		}
	})
}

// ahead is a store whose clock is ahead of the worker's, or behind it where by is negative.
type ahead struct {
	job.Store
	by time.Duration
}

func (s ahead) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	list, err := s.Store.Claim(ctx, c)
	for _, r := range list {
		r.ClaimedAt = r.ClaimedAt.Add(s.by)
		if !r.StartedAt.IsZero() {
			r.StartedAt = r.StartedAt.Add(s.by)
		}
	}
	return list, err
}

func TestJ17AgesDoNotDependOnTheDistanceOfTheClocks(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t, store: memory.Open().Jobs()}
				b.client = job.NewClient(b.store)
				handler, calls := failing(errDown)
				defer b.start(ahead{b.store, by}, handler, job.WithProvider(bounded(t, 35*time.Second, policy.BudgetRef{})))()
				id := b.enqueue(job.Request{})
				time.Sleep(time.Minute)
				r, history := b.get(id)
				if r.State != job.Dead || r.Reason != policy.ReasonOverallTimeout || calls.Load() != 4 {
					t.Errorf("%s %s after %d calls, %v", r.State, r.Reason, calls.Load(), story(history))
				}
			})
		})
	}
}

func TestJ17ReleasedAttemptThatRanCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{}, 1)
		waits := func(ctx context.Context, _ job.Job[[]byte]) error {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		b := work(t, waits, job.WithGrace(time.Second))
		id := b.enqueue(job.Request{})
		<-entered
		began := time.Now()
		b.stop()
		if r, history := b.get(id); r.State != job.Ready || !r.StartedAt.Equal(job.Stamp(began)) {
			t.Errorf("%s, started at %v, %v", r.State, r.StartedAt, story(history))
		}
	})
}
