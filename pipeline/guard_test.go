package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestL4ATaskThatEndsItsGoroutineLeavesItsOutcomeUnknown checks that a guard does not run such a task again, even after the
// claim's lease has expired.
func TestL4ATaskThatEndsItsGoroutineLeavesItsOutcomeUnknown(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		calls := 0
		task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error {
			calls++
			runtime.Goexit()
			return nil
		})
		p := consumerPolicy(1, 1)
		p.Loop.Streaming, p.Loop.Limit = true, 3
		var l ledger
		var letters pipeline.MemorySink
		_, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), task, p, l.option(), quiet,
			pipeline.WithGuard(guardOver(t, db.Idempotency())), pipeline.WithDeadLetter(&letters)).Run(bg)
		if err != nil || calls != 1 {
			t.Error(err, calls)
		}
		if diff := cmp.Diff([]pipeline.Outcome{pipeline.Failed, pipeline.Redelivered, pipeline.Exception}, l.of("a")); diff != "" {
			t.Fatal(diff)
		}
		if last := l.ends[2].Err; !errors.Is(last, idempotency.ErrUnknown) {
			t.Error(last)
		}
	})
}

// TestL4TheExceptionStepDecidesWhatAGuardKeeps: an unhandled failure is redelivered, but its work does not run again.
func TestL4TheExceptionStepDecidesWhatAGuardKeeps(t *testing.T) {
	business := []act{{err: classify.Business(errDown)}}
	for name, c := range map[string]struct {
		handlers           string
		process, exception []act
		state              idempotency.State
		outcomes           []pipeline.Outcome // outcomes of two deliveries
		runs               int                // runs of the work
	}{
		"dealt with":               {"e", fails(9, errDown), nil, idempotency.Failed, []pipeline.Outcome{pipeline.Exception, pipeline.Exception}, 1},
		"unhandled":                {"e", business, fails(9, errDown), idempotency.Released, []pipeline.Outcome{pipeline.Failed, pipeline.Failed}, 2},
		"no step, a final failure": {"", business, nil, idempotency.Failed, []pipeline.Outcome{pipeline.Failed, pipeline.Failed}, 1},
		"no step, another failure": {"", fails(1, errDown), nil, idempotency.Completed, []pipeline.Outcome{pipeline.Failed, pipeline.Success}, 2},
		"handled after a panic":    {"e", []act{{panic: "oops"}}, nil, idempotency.InFlight, []pipeline.Outcome{pipeline.Exception, pipeline.Redelivered}, 1},
		"panic of the exception":   {"e", business, []act{{panic: "oops"}}, idempotency.InFlight, []pipeline.Outcome{pipeline.Failed, pipeline.Redelivered}, 1},
		"no step, a panic":         {"", []act{{panic: "oops"}}, nil, idempotency.InFlight, []pipeline.Outcome{pipeline.Failed, pipeline.Redelivered}, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			db := memory.Open()
			defer db.Close()
			s := &script{handlers: c.handlers, process: map[string][]act{"*": c.process}, exception: map[string][]act{"*": c.exception}}
			p := consumerPolicy(1, 1)
			p.Steps.Process.Retry.MaxAttempts, p.Steps.Exception.Retry.MaxAttempts = 1, 2
			var l ledger
			source := newScripted(answer{ids: []string{"a"}}, answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
			p.Loop.Streaming = true
			if _, err := pipeline.NewConsumer(source, s.task(), p, l.option(), quiet, pipeline.WithGuard(guardOver(t, db.Idempotency()))).Run(bg); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.outcomes, l.of("a")); diff != "" || s.count("process a") != c.runs {
				t.Errorf("%d runs; outcomes (-want +got):\n%s", s.count("process a"), diff)
			}
			list, err := db.Idempotency().List(bg, idempotency.Filter{}, idempotency.ID{}, 10)
			if err != nil || len(list) != 1 || list[0].State != c.state {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// TestL4WhatAStepsPolicyCallsFinalIsFinalForItsGuard checks a final failure without an exception step: the work does not run again.
func TestL4WhatAStepsPolicyCallsFinalIsFinalForItsGuard(t *testing.T) {
	never := classify.Func(func(any, error) classify.Outcome {
		return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem}
	})
	for name, c := range map[string]struct {
		retry policy.Retry
		state idempotency.State
		runs  int
	}{
		"a classifier":         {policy.Retry{ClassifierName: "never"}, idempotency.Failed, 1},
		"abort_on":             {policy.Retry{AbortOn: []policy.Class{"timeout"}}, idempotency.Failed, 1},
		"no attempts are left": {policy.Retry{}, idempotency.Released, 2},
	} {
		bubble(t, name, func(t *testing.T) {
			db := memory.Open()
			defer db.Close()
			s := &script{process: map[string][]act{"*": {{err: os.ErrDeadlineExceeded}}}}
			p := consumerPolicy(1, 1)
			p.Loop.Streaming, p.Steps.Process.Retry = true, c.retry
			source := newScripted(answer{ids: []string{"a"}}, answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
			summary, err := pipeline.NewConsumer(source, s.task(), p, quiet, pipeline.WithGuard(guardOver(t, db.Idempotency())),
				pipeline.WithExecutorOptions(retry.ExecutorOptions{Classifiers: map[string]classify.Classifier{"never": never}})).Run(bg)
			if err != nil || summary.Failed != 2 || s.count("process a") != c.runs {
				t.Errorf("%+v, %v, %d runs", summary, err, s.count("process a"))
			}
			list, err := db.Idempotency().List(bg, idempotency.Filter{}, idempotency.ID{}, 10)
			if err != nil || len(list) != 1 || list[0].State != c.state {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// TestI4APanicIsRepeatedOnlyWhereThatIsSafe: all attempts of a step share one claim.
func TestI4APanicIsRepeatedOnlyWhereThatIsSafe(t *testing.T) {
	for _, safe := range []bool{false, true} {
		bubble(t, "", func(t *testing.T) {
			db := memory.Open()
			defer db.Close()
			guard, err := idempotency.NewGuard(db.Idempotency(), idempotency.GuardOptions{ReplaySafe: safe})
			if err != nil {
				t.Fatal(err)
			}
			s := &script{process: map[string][]act{"a": {{panic: "oops"}, {}}}}
			p := consumerPolicy(1, 1)
			p.Steps.Process.Retry.MaxAttempts = 3
			summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), s.task(), p, quiet, pipeline.WithGuard(guard)).Run(bg)
			if runs := s.count("process a"); err != nil || safe != (runs == 2 && summary.Success == 1) || !safe && runs != 1 {
				t.Errorf("replay-safe %t: %d runs, %+v, %v", safe, runs, summary, err)
			}
		})
	}
}

func TestI4ATransactionThatIsCutOffAfterAPanicIsUnknown(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		s := &script{handlers: "e", process: map[string][]act{"a": {{panic: "oops"}}}, exception: map[string][]act{"a": ok(time.Hour)}}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(newScripted(answer{ids: []string{"a"}}, answer{takes: time.Hour}), s.task(), consumerPolicy(1, 1), quiet,
			pipeline.WithGuard(guardOver(t, db.Idempotency()))).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Redelivered != 1 {
			t.Error(summary, err)
		}
		list, err := db.Idempotency().List(bg, idempotency.Filter{}, idempotency.ID{}, 10)
		if err != nil || len(list) != 1 || list[0].State != idempotency.InFlight {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// lostStore reports every claim as fenced when it is settled.
type lostStore struct{ idempotency.Store }

func (lostStore) Settle(context.Context, idempotency.Claim, idempotency.Settlement) error {
	return idempotency.ErrFenced
}

func TestL4AnOutcomeStandsEvenIfTheGuardCannotRecordIt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		source := newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
		var log bytes.Buffer
		summary, err := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1),
			pipeline.WithGuard(guardOver(t, lostStore{db.Idempotency()})), pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 1 || len(source.acked) != 1 {
			t.Error(summary, err, source.acked)
		}
		if text := log.String(); strings.Count(text, "could not record") != 1 || !strings.Contains(text, "transaction=a") {
			t.Errorf("logged: %s", text)
		}
	})
}

// slowStore blocks Begin until its context ends.
type slowStore struct{ brokenStore }

func (slowStore) Begin(ctx context.Context, _ idempotency.BeginRequest) (idempotency.Begun, error) {
	<-ctx.Done()
	return idempotency.Begun{}, ctx.Err()
}

func TestL9ATransactionThatWaitsForItsGuardIsGivenBackAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a"}}, answer{takes: time.Hour})
		s := &script{handlers: "se"}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1), pipeline.WithGuard(guardOver(t, slowStore{})), quiet).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Redelivered != 1 || summary.Elapsed != time.Second || len(s.log) > 0 {
			t.Error(summary, err, s.log)
		}
		if diff := cmp.Diff([]nack{{ID: "a"}}, source.nacked); diff != "" {
			t.Error(diff)
		}
	})
}

// TestL8TheWaitForAGuardCountsTowardsTheTransactionTimeout: somebody else holds the key for 8 s, and the work takes 5 s.
func TestL8TheWaitForAGuardCountsTowardsTheTransactionTimeout(t *testing.T) {
	for _, limit := range []time.Duration{10 * time.Second, 5 * time.Second} {
		bubble(t, limit.String(), func(t *testing.T) {
			db := memory.Open()
			defer db.Close()
			guard, err := idempotency.NewGuard(db.Idempotency(), idempotency.GuardOptions{Wait: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			x := transactions("a")
			s := &script{handlers: "e", process: map[string][]act{"a": ok(5 * time.Second)}}
			started := make(chan struct{})
			first := pipeline.NewConsumer(pipeline.NewMemorySource(x...), pipeline.Handle(func(context.Context, *pipeline.Transaction) error {
				close(started)
				time.Sleep(8 * time.Second)
				return classify.After(errDown, 0) // releases the key
			}), consumerPolicy(1, 1), quiet, pipeline.WithGuard(guard))
			go func() { _, _ = first.Run(bg) }()
			<-started
			began := time.Now()
			p := consumerPolicy(1, 1)
			p.Loop.TransactionTimeout = limit
			var l ledger
			if _, err := pipeline.NewConsumer(pipeline.NewMemorySource(x...), s.task(), p, l.option(), quiet, pipeline.WithGuard(guard)).Run(bg); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]pipeline.Outcome{pipeline.Exception}, l.of("a")); diff != "" || !errors.Is(l.ends[0].Err, pipeline.ErrTransactionTimeout) {
				t.Errorf("%s, %v", diff, l.ends[0].Err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
