package job_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestJ3AHandlerThatSucceedsRunsOnce, also under a classifier that does not call that a success.
func TestJ3AHandlerThatSucceedsRunsOnce(t *testing.T) {
	for name, c := range map[string]classify.Classifier{
		"typed":  classify.Typed(func(v *int, err error) classify.Outcome { return classify.Default(v, err) }),
		"panics": classify.Func(func(_ any, err error) classify.Outcome { _ = err.Error(); return classify.Default(nil, err) }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, calls := failing(nil)
				var p policy.Policy
				p.Retry.MaxAttempts, p.Retry.ClassifierName = 3, "c"
				b := work(t, handler, following(t, p), job.WithExecutorOptions(retry.ExecutorOptions{Classifiers: map[string]classify.Classifier{"c": c}}))
				id := b.enqueue(job.Request{MaxAttempts: 3})
				time.Sleep(time.Hour)
				r, h := b.get(id)
				if calls.Load() != 1 || r.State != job.Completed {
					t.Errorf("the handler succeeded %d times, the job is %s: %v", calls.Load(), r.State, story(h))
				}
			})
		})
	}
}

// quota is a classifier with a reason of its own.
var quota = classify.Func(func(_ any, err error) classify.Outcome {
	o := classify.Default(nil, err)
	if err != nil {
		o.Reason = "quota_exceeded"
	}
	return o
})

// TestD6TheHistoryHasTheReasonThatAClassifierGave, as the detail of the error.
func TestD6TheHistoryHasTheReasonThatAClassifierGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _ := failing(errors.New("no"))
		var p policy.Policy
		p.Retry.MaxAttempts, p.Retry.ClassifierName = 2, "quota"
		b := work(t, handler, following(t, p), job.WithExecutorOptions(retry.ExecutorOptions{Classifiers: map[string]classify.Classifier{"quota": quota}}))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Hour)
		const want = "no; detail: quota_exceeded"
		r, h := b.get(id)
		if r.State != job.Dead || r.LastError != want || len(h) != 2 || h[0].Error != want || h[0].Reason != policy.ReasonError || h[1].Error != want {
			t.Errorf("%s, %q, %+v", r.State, r.LastError, h)
		}
	})
}

// TestD6ALongErrorIsCutOffBeforeTheReasonThatAClassifierGave, in the history and of the job.
func TestD6ALongErrorIsCutOffBeforeTheReasonThatAClassifierGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _ := failing(errors.New(strings.Repeat("x\x00", 16<<10)))
		var p policy.Policy
		p.Retry.MaxAttempts, p.Retry.ClassifierName = 1, "quota"
		b := work(t, handler, following(t, p), job.WithExecutorOptions(retry.ExecutorOptions{Classifiers: map[string]classify.Classifier{"quota": quota}}))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Hour)
		r, h := b.get(id)
		got := r.LastError
		if len(got) > 16<<10 || len(got) < 16<<10-10 || h[0].Error != got || !strings.HasPrefix(got, "x\uFFFDx") || !strings.HasSuffix(got, "…; detail: quota_exceeded") {
			t.Errorf("%d bytes: %.20q…%q", len(got), got, got[max(0, len(got)-40):])
		}
	})
}

// slowAnswers settles at once and answers two seconds later.
type slowAnswers struct{ *memory.Jobs }

func (s slowAnswers) Settle(ctx context.Context, list []job.Settlement) []error {
	defer time.Sleep(2 * time.Second)
	return s.Jobs.Settle(ctx, list)
}

// TestJ8ASettledJobIsNotALostLease: leases are extended between the store's settlement of a job and its answer.
func TestJ8ASettledJobIsNotALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBench(t)
		handler, _ := failing(nil)
		stop := b.start(slowAnswers{b.store}, handler, job.WithLease(5*time.Second), job.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		stop()
		if r, _ := b.get(id); r.State != job.Completed || strings.Contains(log.String(), "lost") {
			t.Errorf("%s, log:\n%s", r.State, log.String())
		}
	})
}

// partial fails completions for a while, as PostgreSQL does when one of its two transactions of a group fails.
type partial struct {
	*memory.Jobs
	down atomic.Bool
}

func (p *partial) Settle(ctx context.Context, list []job.Settlement) []error {
	errs := make([]error, len(list))
	for i, s := range list {
		if s.Kind == job.KindComplete && p.down.Load() {
			errs[i] = errors.New("deadlock detected")
			continue
		}
		if e := p.Jobs.Settle(ctx, list[i:i+1]); e != nil {
			errs[i] = e[0]
		}
	}
	return errs
}

func TestJ12AShutdownDoesNotReleaseACompletedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		store := &partial{Jobs: db.Jobs()}
		b := &bench{t: t, store: db.Jobs(), client: job.NewClient(db.Jobs())}
		block := make(chan struct{})
		store.down.Store(true)
		log, out := logged()
		w := job.NewWorker(store, log, job.WithGrace(time.Second), job.WithLease(time.Minute))
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { return nil })
		w.HandleRaw("stuck", func(context.Context, job.Job[[]byte]) error { <-block; return nil })
		stop := b.run(w)
		done := b.enqueue(job.Request{})
		b.enqueue(job.Request{Type: "stuck"})
		time.Sleep(time.Second)
		go func() { time.Sleep(8 * time.Second); store.down.Store(false) }()
		stop()
		r, h := b.get(done)
		if r.State != job.Completed {
			t.Errorf("the handler returned nil, but the job is %s: %v\n%s", r.State, story(h), out)
		}
		close(block)
		time.Sleep(10 * time.Second)
	})
}

// refusing never takes settlements.
type refusing struct{ *memory.Jobs }

func (refusing) Settle(_ context.Context, list []job.Settlement) []error {
	errs := make([]error, len(list))
	for i := range errs {
		errs[i] = errors.New("disk full")
	}
	return errs
}

func TestJ12AShutdownEndsWithManyPendingSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		client := job.NewClient(db.Jobs())
		var list []job.Request
		for range 5000 {
			list = append(list, job.Request{Type: "t"})
		}
		if _, err := client.EnqueueMany(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		w := job.NewWorker(refusing{db.Jobs()}, quiet, job.WithGrace(time.Second), job.WithLease(10*time.Second), job.WithQueues(map[string]int{"default": 5000}))
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { return nil })
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		time.Sleep(5 * time.Second)
		cancel()
		select {
		case <-done:
		case <-time.After(time.Hour):
			t.Fatal("Run has not returned an hour after its context ended")
		}
	})
}
