package job_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// tenSecondsApart is a policy of 100 attempts, 10 s apart, with an overall timeout.
func tenSecondsApart(overall time.Duration, ref policy.BudgetRef) policy.Policy {
	return policy.Policy{Retry: policy.Retry{
		MaxAttempts: 100, InitialBackoff: 10 * time.Second, MaxBackoff: 10 * time.Second, Jitter: policy.JitterNone,
		OverallTimeout: overall, Budget: ref,
	}}
}

func TestJ17RefusedJobDoesNotAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(nil)
		b := work(t, handler, following(t, tenSecondsApart(30*time.Second, policy.BudgetRef{Name: "b"})), withOneToken(t))
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

// ahead is a store whose clock is ahead of the worker's by `by`, or behind it if `by` is negative.
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

func TestJ17AgesDoNotDependOnClockDifferences(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				handler, calls := failing(errDown)
				defer b.start(ahead{b.store, by}, handler, following(t, tenSecondsApart(35*time.Second, policy.BudgetRef{})))()
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
