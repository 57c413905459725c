package job_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// reloaded is a document that changes.
type reloaded struct{ atomic.Pointer[policy.Set] }

func (r *reloaded) Policy(ctx context.Context, key policy.Key) (*policy.Policy, error) {
	return r.Load().Policy(ctx, key)
}
func (r *reloaded) Set() *policy.Set { return r.Load() }

func TestJ19AReloadedDocumentBoundsJobsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(concurrency int) *policy.Set {
			return policy.NewSet(policy.SetConfig{Limits: []policy.LimitScope{{Queue: "default", Limits: []policy.JobLimit{{Name: "few", Concurrency: concurrency}}}}})
		}
		document := &reloaded{}
		document.Store(at(5))
		var now atomic.Int64
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			now.Add(1)
			defer now.Add(-1)
			time.Sleep(100 * time.Millisecond)
			return nil
		}, job.WithProvider(document))
		for range 2000 {
			b.enqueue(job.Request{})
		}
		for _, limit := range []int64{5, 2, 9} {
			document.Store(at(int(limit)))
			time.Sleep(1150 * time.Millisecond) // a second, and the jobs that run longer
			synctest.Wait()
			if got := now.Load(); got != limit {
				t.Errorf("%d jobs at once a second after the document said %d", got, limit)
			}
		}
	})
}

func TestJ20OutputsHaveTheTypeThatTheyFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type total struct{ Sum int }
		b := newBench(t)
		w := job.NewWorker(b.store, quiet)
		job.Handle(w, "make", func(_ context.Context, j job.Job[string]) error {
			if j.Payload == "nothing" {
				return nil
			}
			return job.SetOutput(j, total{42})
		})
		var fits, absent total
		var doesNotFit, unknown error
		job.Handle(w, "use", func(ctx context.Context, j job.Job[string]) (err error) {
			if fits, err = job.NeedOutput[total](ctx, j, "full"); err != nil {
				return err
			}
			absent, err = job.NeedOutput[total](ctx, j, "empty")
			_, doesNotFit = job.NeedOutput[[]string](ctx, j, "full")
			_, unknown = job.NeedOutput[total](ctx, j, "other")
			return err
		})
		defer b.run(w)()
		var f job.Flow
		node := func(name, jobType, payload string) job.FlowJob {
			return job.FlowJob{Node: name, Request: job.Request{Type: jobType, Payload: payload}}
		}
		makers := f.Group(nil, node("full", "make", "something"), node("empty", "make", "nothing"))
		f.Chain(makers, node("user", "use", ""))
		if _, err := b.client.EnqueueFlow(t.Context(), &f); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if fits != (total{42}) || absent != (total{}) {
			t.Errorf("outputs %+v and %+v", fits, absent)
		}
		if doesNotFit == nil || !strings.Contains(doesNotFit.Error(), `the output of "full" does not fit`) {
			t.Errorf("error %v", doesNotFit)
		}
		if !errors.Is(unknown, job.ErrNotFound) {
			t.Errorf("error %v", unknown)
		}
	})
}
