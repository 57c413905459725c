package job_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// parcels handles batches of the type "t" and notes their sizes and when they started.
type parcels struct {
	*bench
	handler job.BatchHandler[int]
	begun   time.Time

	mu    sync.Mutex
	calls []string // "size@time"
}

// batched makes a bench whose jobs have numbers as payloads.
func batched(t *testing.T, handler job.BatchHandler[int]) *parcels {
	return &parcels{bench: newBench(t), handler: handler, begun: time.Now()}
}

// work starts a worker for the enqueued jobs.
func (p *parcels) work(o job.BatchOptions, options ...job.WorkerOption) {
	w := job.NewWorker(p.store, append([]job.WorkerOption{quiet, job.WithRetryPolicy(steady(3))}, options...)...)
	job.HandleBatch(w, "t", o, func(ctx context.Context, jobs []job.Job[int]) []error {
		p.mu.Lock()
		p.calls = append(p.calls, fmt.Sprintf("%d@%v", len(jobs), time.Since(p.begun)))
		p.mu.Unlock()
		return p.handler(ctx, jobs)
	})
	p.stop = p.run(w)
	p.t.Cleanup(p.stop)
}

func (p *parcels) called() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.calls)
	return p.calls
}

func (p *parcels) enqueueMany(n int) (ids []string) {
	for i := range n {
		ids = append(ids, p.enqueue(job.Request{Payload: i}))
	}
	return ids
}

// ends checks how the first attempts of jobs ended.
func (p *parcels) ends(ids []string, want ...string) {
	p.t.Helper()
	var got []string
	for _, id := range ids {
		r, history := p.get(id)
		text := string(r.State)
		if len(history) > 0 {
			text += " " + story(history)[0]
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Error(diff)
	}
}

func allDone(_ context.Context, jobs []job.Job[int]) []error { return make([]error, len(jobs)) }

func TestJ21EachJobOfABatchIsSettledOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, func(_ context.Context, jobs []job.Job[int]) []error {
			errs := make([]error, len(jobs))
			for i, j := range jobs {
				j.SetOutput([]byte{'0' + byte(j.Payload)})
				errs[i] = map[int]error{1: errDown, 2: job.Unrecoverable(errDown), 3: job.Snooze(time.Hour), 4: job.Cancel("enough")}[j.Payload]
			}
			return errs
		})
		ids := p.enqueueMany(5)
		text := p.enqueue(job.Request{Payload: "not a number"})
		p.work(job.BatchOptions{})
		time.Sleep(time.Millisecond)
		if diff := cmp.Diff([]string{"5@0s"}, p.called()); diff != "" {
			t.Error(diff)
		}
		p.ends(append(ids, text), "completed 1 completed success x1", "scheduled 1 failed error x1", "dead 1 failed non_retryable x1",
			"scheduled 1 snoozed snoozed x1", "cancelled 1 cancelled canceled x1", "dead 1 failed invalid_payload x1")
		if r, _ := p.get(ids[0]); string(r.Output) != "0" {
			t.Errorf("output %q", r.Output)
		}
		p.stop()
	})
}

func TestJ21APanicOrAMissingResultIsEachJobsFailure(t *testing.T) {
	for name, c := range map[string]struct {
		handler job.BatchHandler[int]
		want    []string
		text    string
	}{
		"panic":             {func(context.Context, []job.Job[int]) []error { panic("at the disco") }, []string{"failed error", "failed error"}, "panic: at the disco"},
		"goexit":            {func(context.Context, []job.Job[int]) []error { runtime.Goexit(); return nil }, []string{"failed handler_exited", "failed handler_exited"}, "Goexit"},
		"no results":        {func(context.Context, []job.Job[int]) []error { return nil }, []string{"failed error", "failed error"}, "0 results for 2 jobs"},
		"one result of two": {func(context.Context, []job.Job[int]) []error { return make([]error, 1) }, []string{"completed success", "failed error"}, "1 results for 2 jobs"},
		"too many":          {func(context.Context, []job.Job[int]) []error { return make([]error, 3) }, []string{"failed error", "failed error"}, "3 results for 2 jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := batched(t, c.handler)
				ids := p.enqueueMany(2)
				p.work(job.BatchOptions{})
				time.Sleep(time.Millisecond)
				var got []string
				for _, id := range ids {
					_, history := p.get(id)
					a := history[0]
					got = append(got, fmt.Sprintf("%s %s", a.Outcome, a.Reason))
					if a.Outcome == job.AttemptFailed && !strings.Contains(a.Error, c.text) {
						t.Errorf("error %q", a.Error)
					}
					if name == "panic" && !strings.Contains(a.Stack, "batch_test.go") {
						t.Errorf("the stack is not the handler's: %s", a.Stack)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				p.stop()
			})
		})
	}
}

func TestJ21ABatchTakesWhatIsClaimedUpToItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, allDone)
		p.enqueueMany(25)
		p.work(job.BatchOptions{Size: 10})
		time.Sleep(time.Millisecond)
		if diff := cmp.Diff([]string{"10@0s", "10@0s", "5@0s"}, p.called()); diff != "" {
			t.Error(diff)
		}
		p.stop()
	})
}

func TestJ21TheWaitForAFullBatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, allDone)
		p.work(job.BatchOptions{Size: 3, Wait: time.Second})
		time.Sleep(time.Second)
		for range 4 { // the third fills a batch, the fourth waits for others
			p.enqueueMany(1)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"1@2.3s", "3@1.2s"}, p.called()); diff != "" {
			t.Error(diff)
		}
		p.stop()
	})
}

func TestJ21AJobThatMiddlewareHoldsBackDelaysABatchByATenthOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, allDone)
		p.enqueueMany(3)
		p.work(job.BatchOptions{}, job.WithMiddleware(func(next job.RawHandler) job.RawHandler {
			return func(ctx context.Context, j job.Job[[]byte]) error {
				if string(j.Payload) == "1" {
					time.Sleep(5 * time.Second)
				}
				return next(ctx, j)
			}
		}))
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"1@5s", "2@100ms"}, p.called()); diff != "" {
			t.Error(diff)
		}
		p.stop()
	})
}

func TestJ21ARefusedJobIsMissingFromItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, allDone)
		ids := p.enqueueMany(3)
		p.work(job.BatchOptions{}, withOneToken(t), following(t, policy.Policy{Retry: policy.Retry{MaxAttempts: 3, Budget: policy.BudgetRef{Name: "b"}}}))
		time.Sleep(time.Millisecond)
		var states []string
		for _, id := range ids {
			r, _ := p.get(id)
			states = append(states, fmt.Sprintf("%s %d", r.State, r.Failures))
		}
		slices.Sort(states)
		if diff := cmp.Diff([]string{"completed 0", "scheduled 0", "scheduled 0"}, states); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"1@0s"}, p.called()); diff != "" {
			t.Error(diff)
		}
		p.stop()
	})
}

func TestJ21AJobsTimeoutEndsItsOwnContextAndTheLastOneThatOfTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		p := batched(t, func(ctx context.Context, jobs []job.Job[int]) []error {
			errs := make([]error, len(jobs))
			start := time.Now()
			slices.SortFunc(jobs, func(a, b job.Job[int]) int { return a.Payload - b.Payload })
			for _, j := range jobs {
				<-j.Context().Done()
				ended = append(ended, fmt.Sprintf("%d after %v", j.Payload, time.Since(start)))
				if j.Payload == 1 && ctx.Err() != nil {
					t.Error("the batch's context ended with the first of its jobs")
				}
			}
			<-ctx.Done()
			for i := range errs {
				errs[i] = ctx.Err()
			}
			return errs
		})
		short := p.enqueue(job.Request{Payload: 1, Timeout: time.Second})
		long := p.enqueue(job.Request{Payload: 2, Timeout: 2 * time.Second})
		p.work(job.BatchOptions{Size: 2}, job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{MaxAttempts: 2, InitialBackoff: time.Hour, MaxBackoff: time.Hour})))
		time.Sleep(time.Minute)
		p.ends([]string{short, long}, "scheduled 1 failed attempt_timeout x1", "scheduled 1 failed attempt_timeout x1")
		p.stop()
		if diff := cmp.Diff([]string{"1 after 1s", "2 after 2s"}, ended); diff != "" {
			t.Error(diff)
		}
		p.stop()
	})
}

func TestJ21ACancelledJobLeavesTheOthersOfItsBatchAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, func(ctx context.Context, jobs []job.Job[int]) []error {
			errs := make([]error, len(jobs))
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
			for i, j := range jobs {
				errs[i] = errors.Join(ctx.Err(), j.Context().Err())
			}
			return errs
		})
		ids := p.enqueueMany(2)
		p.work(job.BatchOptions{})
		time.Sleep(time.Second)
		if _, err := p.store.Change(t.Context(), job.ActionCancel, job.Filter{IDs: ids[:1]}, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		p.ends(ids, "cancelled 1 cancelled operator x1", "completed 1 completed success x1")
		p.stop()
	})
}

func TestJ21AWaitingJobLeavesItsBatchWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, allDone)
		short := p.enqueue(job.Request{Payload: 1, Timeout: time.Second, MaxAttempts: 1})
		long := p.enqueue(job.Request{Payload: 2})
		p.work(job.BatchOptions{Wait: 3 * time.Second})
		time.Sleep(time.Minute)
		p.ends([]string{short, long}, "dead 1 failed attempts_exhausted x1", "completed 1 completed success x1")
		if diff := cmp.Diff([]string{"1@3s"}, p.called()); diff != "" {
			t.Error(diff)
		}
		p.stop()
	})
}

func TestJ21AShutdownReleasesTheJobsOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batched(t, func(ctx context.Context, jobs []job.Job[int]) []error {
			<-ctx.Done()
			errs := make([]error, len(jobs))
			for i := range errs {
				errs[i] = ctx.Err()
			}
			return errs
		})
		ids := p.enqueueMany(2)
		p.work(job.BatchOptions{}, job.WithGrace(time.Second))
		time.Sleep(time.Second)
		p.stop()
		p.ends(ids, "ready 1 interrupted shutdown x1", "ready 1 interrupted shutdown x1")
	})
}

func TestJ21IdempotencyHoldsForEachJobOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := guarded(t)
		order := func(j job.Job[[]byte]) string { return j.Meta["order"] }
		var seen []int
		p := batched(t, func(_ context.Context, jobs []job.Job[int]) []error {
			for _, j := range jobs {
				seen = append(seen, j.Payload)
				if j.Payload == 9 {
					panic("torn")
				}
			}
			return make([]error, len(jobs))
		})
		effect := func(order string, payload int) string {
			return p.enqueue(job.Request{Payload: payload, Meta: map[string]string{"order": order}})
		}
		first := effect("o1", 1)
		p.work(job.BatchOptions{}, job.WithMiddleware(job.Idempotent(guard, order)))
		time.Sleep(time.Second)
		again, other := effect("o1", 1), effect("o2", 2)
		time.Sleep(time.Second)
		p.ends([]string{first, again, other}, "completed 1 completed success x1", "completed 1 completed success x1", "completed 1 completed success x1")
		if diff := cmp.Diff([]int{1, 2}, seen); diff != "" {
			t.Error(diff)
		}
		torn := effect("o3", 9)
		time.Sleep(time.Minute)
		if r, _ := p.get(torn); r.Reason != policy.ReasonOutcomeUnknown {
			t.Errorf("%s, %s: %s", r.State, r.Reason, r.LastError)
		}
		p.stop()
	})
}

func TestJ21MistakesInBatchOptionsPanicWithTheField(t *testing.T) {
	for text, register := range map[string]func(*job.Worker){
		"Size: -1 is not between 1 and 10000":  func(w *job.Worker) { job.HandleBatch(w, "t", job.BatchOptions{Size: -1}, allDone) },
		"Wait: 2m0s is not between 0 and 1m0s": func(w *job.Worker) { job.HandleBatch(w, "t", job.BatchOptions{Wait: 2 * time.Minute}, allDone) },
		`job: type "t" has a handler already`: func(w *job.Worker) {
			job.HandleBatch(w, "t", job.BatchOptions{}, allDone)
			job.Handle(w, "t", func(context.Context, job.Job[int]) error { return nil })
		},
		`HandleBatch: type "t": the handler`: func(w *job.Worker) { job.HandleBatch[int](w, "t", job.BatchOptions{}, nil) },
		`job: HandleBatch: the worker`:       func(*job.Worker) { job.HandleBatch(nil, "t", job.BatchOptions{}, allDone) },
	} {
		t.Run(text, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, text) {
					t.Errorf("panic %q", got)
				}
			}()
			register(job.NewWorker(newBench(t).store, quiet))
		})
	}
}
