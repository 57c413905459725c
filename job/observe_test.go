package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// moves collects the transitions of jobs and checks that each job's events are ordered by Seq.
type moves struct {
	mu    sync.Mutex
	lines []string
	seq   map[string]int
	wrong []string
}

func (m *moves) Observe(_ context.Context, e *observe.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seq == nil {
		m.seq = map[string]int{}
	}
	if e.Seq <= m.seq[e.Work.ID] {
		m.wrong = append(m.wrong, fmt.Sprintf("%s: %d after %d", e.Type, e.Seq, m.seq[e.Work.ID]))
	}
	m.seq[e.Work.ID] = e.Seq
	if t := e.Transition; e.Type == observe.JobMoved {
		m.lines = append(m.lines, fmt.Sprintf("%s %s %s→%s %s %d", e.Work.Surface, e.Work.Operation, t.From, t.To, t.Reason, t.Attempts))
	}
}

func TestA1TransitionsOfJobsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moves{}
		ends := []error{errors.New("down"), job.Snooze(time.Second), errors.New("down"), nil}
		b := work(t, func(context.Context, job.Job[[]byte]) error {
			err := ends[0]
			ends = ends[1:]
			return err
		}, job.WithRetryPolicy(steady(5)), job.WithObserver(m))
		b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		synctest.Wait()
		b.stop()
		want := []string{
			"job t running→scheduled error 1", "job t running→scheduled snoozed 1", "job t running→scheduled error 2",
			"job t running→completed success 3",
		}
		if diff := cmp.Diff(want, m.lines); diff != "" {
			t.Error(diff)
		}
		if len(m.wrong) > 0 {
			t.Error(m.wrong)
		}
	})
}

// TestJ25AnAttemptThatEndsBeforeItsWorkerLearnsOfTheCancellationIsReportedAsCancelled, as is one that snoozes when it does.
func TestJ25AnAttemptThatEndsBeforeItsWorkerLearnsOfTheCancellationIsReportedAsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moves{}
		var calls atomic.Int32
		var b *bench
		b = work(t, func(ctx context.Context, j job.Job[[]byte]) error {
			if _, err := b.store.Change(ctx, job.ActionCancel, job.Filter{IDs: []string{j.ID}}, 1); err != nil {
				t.Error(err)
			}
			if calls.Add(1) > 1 {
				<-ctx.Done()
				return job.Snooze(time.Second)
			}
			return errors.New("down")
		}, job.WithRetryPolicy(steady(5)), job.WithObserver(m))
		for range 2 {
			id := b.enqueue(job.Request{})
			time.Sleep(time.Minute)
			if r, _ := b.get(id); r.State != job.Cancelled {
				t.Error(r.State)
			}
		}
		b.stop()
		if diff := cmp.Diff([]string{"job t running→cancelled error 1", "job t running→cancelled snoozed 0"}, m.lines); diff != "" {
			t.Error(diff)
		}
	})
}

// lingering is a store that answers some time after it has settled.
type lingering struct{ job.Store }

func (l lingering) Settle(ctx context.Context, list []job.Settlement) []error {
	errs := l.Store.Settle(ctx, list)
	time.Sleep(10 * time.Second)
	return errs
}

// TestA1ATransitionIsReportedAlthoughTheJobAlreadyRunsAgain checks that a late settlement is reported completely.
func TestA1ATransitionIsReportedAlthoughTheJobAlreadyRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moves{}
		b := newBench(t)
		b.enqueue(job.Request{})
		handler, calls := failing(errors.New("down"))
		stop := b.start(lingering{b.store}, handler, job.WithObserver(m), job.WithRetryPolicy(steady(2)))
		time.Sleep(9 * time.Second)
		if synctest.Wait(); calls.Load() != 2 {
			t.Fatal(calls.Load()) // otherwise the test shows nothing
		}
		time.Sleep(time.Minute)
		stop()
		want := []string{"job t running→scheduled error 1", "job t running→dead attempts_exhausted 2"}
		if diff := cmp.Diff(want, m.lines); diff != "" {
			t.Error(diff)
		}
	})
}

// abandon simulates a worker that dies with a claimed job.
func (b *bench) abandon() {
	b.t.Helper()
	claimed, err := b.store.Claim(context.Background(), job.Claim{Worker: "doomed", Queues: []job.Slots{{Queue: "default", Free: 1}}, Lease: time.Second})
	if err != nil || len(claimed) != 1 {
		b.t.Fatal(claimed, err)
	}
	time.Sleep(2 * time.Second)
}

func TestA2LostLeasesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moves{}
		b := newBench(t)
		b.enqueue(job.Request{})
		b.abandon()
		b.enqueue(job.Request{Type: "unknown here", MaxAttempts: 1})
		b.abandon()
		handler, _ := failing(nil)
		stop := b.start(b.store, handler, job.WithObserver(m))
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		want := []string{ // different goroutines report lost leases and settlements: Seq orders the events, not their arrival
			"job t running→completed success 2", "job t running→ready lease_expired 1", "job unknown here running→dead lease_expired 1",
		}
		slices.Sort(m.lines)
		if diff := cmp.Diff(want, m.lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestA2APanickingObserverOfLostLeasesEndsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.enqueue(job.Request{})
		b.abandon()
		handler, _ := failing(nil)
		stop := b.start(b.store, handler, job.WithObserver(panicky{}))
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if r, _ := b.get(id); r.State != job.Completed {
			t.Errorf("state %s", r.State)
		}
	})
}

// panicky panics when a job moved.
type panicky struct{}

func (panicky) Observe(_ context.Context, e *observe.Event) {
	if e.Type == observe.JobMoved {
		panic("observer")
	}
}

// TestT4ASnoozedJobHasNotSucceeded: the executor records a success, after which the job is scheduled again or cancelled.
func TestT4ASnoozedJobHasNotSucceeded(t *testing.T) {
	for name, c := range map[string]struct {
		end    error
		result string
		want   audit.WhatIfCategory
	}{
		"snoozed":   {job.Snooze(time.Hour), "unfinished, snoozed", audit.WhatIfCategory{Works: 1, CannotKnow: 1}},
		"cancelled": {job.Cancel("enough"), "stop, canceled", audit.WhatIfCategory{Works: 1, CannotKnow: 1}},
		"completed": {nil, "done, success", audit.WhatIfCategory{Works: 1, Same: 1, Before: audit.Effort{Attempts: 1}, After: audit.Effort{Attempts: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				var sink audit.MemorySink
				log, err := audit.Open(ctx, &sink, audit.Options{})
				if err != nil {
					t.Fatal(err)
				}
				b := work(t, func(context.Context, job.Job[[]byte]) error { return c.end }, job.WithObserver(log))
				id := b.enqueue(job.Request{})
				time.Sleep(time.Minute)
				synctest.Wait()
				b.stop()
				if err := log.Close(ctx); err != nil {
					t.Fatal(err)
				}
				r, err := audit.WhatIf(ctx, &sink, policy.NewSet(policy.SetConfig{}), audit.ReplayOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, r.Total); diff != "" {
					t.Error(diff)
				}
				story, err := audit.Explain(ctx, &sink, id)
				if err != nil {
					t.Fatal(err)
				}
				if got := story.Result + ", " + story.Reason; got != c.result {
					t.Errorf("explained as %q, want %q", got, c.result)
				}
			})
		})
	}
}

func TestA2LostLeasesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var sink audit.MemorySink
		log, err := audit.Open(ctx, &sink, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t)
		id := b.enqueue(job.Request{Meta: map[string]string{"tenant_id": "acme", "correlation_id": "c-1", "trace_id": "t-1"}})
		b.abandon()
		handler, _ := failing(nil)
		stop := b.start(b.store, handler, job.WithObserver(log))
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if err := log.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for _, e := range sink.Events() {
			if e.From == "running" && e.To == "ready" && (e.Actor != "doomed" || e.TenantID != "acme" || e.CorrelationID != "c-1" || e.TraceID != "t-1" || e.TotalAttempts != 1) {
				t.Errorf("%+v", e)
			}
		}
		story, err := audit.Explain(ctx, &sink, id)
		if err != nil {
			t.Fatal(err)
		}
		steps := []string{}
		for _, s := range story.Steps {
			steps = append(steps, fmt.Sprintf("%s %s", s.Type, s.Detail))
		}
		want := []string{"job_transition running → ready, lease_expired", "call_succeeded ", "job_transition running → completed, success"}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Error(diff)
		}
	})
}

// categories collects the category of each type of event.
type categories struct {
	mu   sync.Mutex
	seen map[observe.EventType]policy.Category
}

func (c *categories) Observe(_ context.Context, e *observe.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[observe.EventType]policy.Category{}
	}
	c.seen[e.Type] = e.Work.Category
}

func TestA1EventsOfJobsCarryTheirCategory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told categories
		guard, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{Observer: &told})
		if err != nil {
			t.Fatal(err)
		}
		handler := job.Idempotent(guard, nil)(func(context.Context, job.Job[[]byte]) error { return nil })
		b := work(t, handler, following(t, policy.Policy{Category: policy.KVPut}), job.WithObserver(&told))
		b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		synctest.Wait()
		b.stop()
		want := map[observe.EventType]policy.Category{
			observe.AttemptEnded: policy.KVPut, observe.Decided: policy.KVPut, observe.CallEnded: policy.KVPut,
			observe.JobMoved: policy.KVPut, observe.Idempotent: policy.KVPut,
		}
		if diff := cmp.Diff(want, told.seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJ27ErrorsAndRecordsOfALaterExecutionCountTheEarlierOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs []string
		var ran []int
		b := work(t, func(context.Context, job.Job[[]byte]) error { return errors.New("down") }, job.WithRetryPolicy(steady(2)),
			job.WithObserver(observe.Func(func(_ context.Context, e *observe.Event) {
				if e.Type == observe.CallEnded {
					errs, ran = append(errs, e.Timeline.FinalError.Error()), append(ran, e.Timeline.Ran())
				}
			})))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if r, _ := b.get(id); r.Attempts() != 2 || r.Failures != 2 {
			t.Errorf("%d attempts, %d failures", r.Attempts(), r.Failures)
		}
		if len(errs) != 2 || !strings.Contains(errs[0], "after 1 attempt:") || !strings.Contains(errs[1], "after 2 attempts:") {
			t.Errorf("%q", errs)
		}
		if diff := cmp.Diff([]int{1, 2}, ran); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJ27AttemptsCountTheAttemptsMade(t *testing.T) {
	for name, c := range map[string]struct {
		ends     []error
		attempts int
		failures int
	}{
		"completed at once":        {[]error{nil}, 1, 0},
		"completed after failures": {[]error{errDown, errDown, nil}, 3, 2},
		"dead":                     {[]error{errDown, job.Unrecoverable(errDown)}, 2, 2},
		"snoozed, then completed":  {[]error{job.Snooze(time.Second), nil}, 1, 0},
		"cancelled by its handler": {[]error{errDown, job.Cancel("enough")}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := work(t, func(context.Context, job.Job[[]byte]) error {
					err := c.ends[0]
					c.ends = c.ends[1:]
					return err
				}, job.WithRetryPolicy(steady(5)))
				id := b.enqueue(job.Request{})
				time.Sleep(time.Minute)
				if r, history := b.get(id); !r.State.Finished() || r.Attempts() != c.attempts || r.Failures != c.failures {
					t.Errorf("%s, %d attempts, %d failures, %v", r.State, r.Attempts(), r.Failures, story(history))
				}
				c.ends = []error{nil} // before a worker can claim the job again
				if ids, err := b.store.Change(context.Background(), job.ActionRetry, job.Filter{IDs: []string{id}}, 1); err != nil || len(ids) != 1 {
					t.Fatal(ids, err)
				}
				synctest.Wait()
				if r, _ := b.get(id); r.Attempts() != 1 || r.Failures != 0 {
					t.Errorf("retried: %d attempts, %d failures", r.Attempts(), r.Failures)
				}
			})
		})
	}
	t.Run("cancelled, retried, snoozed, then cancelled while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ends := []error{job.Cancel("enough"), job.Snooze(time.Hour)}
			b := work(t, func(context.Context, job.Job[[]byte]) error {
				err := ends[0]
				ends = ends[1:]
				return err
			})
			id := b.enqueue(job.Request{})
			for _, action := range []job.Action{job.ActionRetry, job.ActionCancel} {
				time.Sleep(time.Minute)
				if ids, err := b.store.Change(context.Background(), action, job.Filter{IDs: []string{id}}, 1); err != nil || len(ids) != 1 {
					t.Fatal(ids, err)
				}
			}
			if r, history := b.get(id); r.State != job.Cancelled || r.Attempts() != 0 {
				t.Errorf("%s, %d attempts, %v", r.State, r.Attempts(), story(history))
			}
		})
	})
	waiting := job.New(job.Insert{}, time.Now())
	waiting.Apply(job.ActionCancel, time.Now())
	if n := waiting.Attempts(); waiting.State != job.Cancelled || n != 0 {
		t.Errorf("%s before it ran: %d attempts", waiting.State, n)
	}
}
