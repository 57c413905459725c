package job_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/internal/testguard"
	"github.com/tenetdev/tenet/job"
)

func TestIGuardsMeanTheSameForJobs(t *testing.T) {
	testguard.Run(t, testguard.Entrance{Results: true, Errors: true, Ask: func(ctx context.Context, t *testing.T, c testguard.Call) testguard.Answer {
		ended := make(chan struct{})
		first := sync.OnceFunc(func() { close(ended) })
		attempt := func(next job.RawHandler) job.RawHandler { // also under the call's context
			return func(own context.Context, j job.Job[[]byte]) error {
				defer first()
				own, cancel := context.WithCancel(own)
				defer cancel()
				if ctx.Err() != nil {
					cancel()
				}
				return next(own, j)
			}
		}
		b := work(t, func(ctx context.Context, j job.Job[[]byte]) error {
			result, err := c.Op(ctx)
			j.SetOutput([]byte(result))
			return err
		}, job.WithMiddleware(attempt, job.Idempotent(c.Guard, func(job.Job[[]byte]) string { return c.Key })), job.WithRetryPolicy(inCode{time.Hour, 3}))
		id := b.enqueue(job.Request{})
		<-ended
		b.stop()
		r, history := b.get(id)
		got := testguard.Answer{OK: r.State == job.Completed, Result: string(r.Output)}
		if !got.OK && ctx.Err() == nil && len(history) > 0 {
			got.Reason = history[0].Reason
		}
		if r.State == job.Scheduled && r.Failures == 0 {
			got.RetryAfter = time.Until(r.RunAt)
		}
		return got
	}})
}
