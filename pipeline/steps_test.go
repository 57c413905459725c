package pipeline_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// consume runs a script over transactions under p.
func consume(t *testing.T, s *script, p policy.Consumer, list []*pipeline.Transaction, opts ...pipeline.Option) (pipeline.Summary, *ledger, *pipeline.MemorySource) {
	t.Helper()
	source := pipeline.NewMemorySource(list...)
	var l ledger
	summary, err := pipeline.NewConsumer(source, s.task(), p, append(opts, quiet, l.option())...).Run(bg)
	if err != nil {
		t.Fatal(err)
	}
	summary.Elapsed = 0
	if len(s.twice) > 0 {
		t.Errorf("ran twice at once: %v", s.twice)
	}
	if summary.Ended() != summary.Fetched || summary.Fetched != len(l.ends) {
		t.Errorf("%+v with %d ends: every delivery ends once", summary, len(l.ends))
	}
	return summary, &l, source
}

func TestL3ValuesGoToTheSuccessHandlerAndErrorsAreRetriedThenHandled(t *testing.T) {
	business := classify.Business(errDown)
	cases := []struct {
		name     string
		acts     []act
		handlers string
		want     []string
		outcome  pipeline.Outcome
		category classify.Category
	}{
		{"value", nil, "se", []string{"0s process a", "0s success a"}, pipeline.Success, 0},
		{"value without a handler", nil, "", []string{"0s process a"}, pipeline.Success, 0},
		{"business error", []act{{err: business}}, "se", []string{"0s process a", "0s exception a"}, pipeline.Exception, classify.CategoryBusiness},
		{"permanent error", []act{{err: classify.Permanent(errDown)}}, "se", []string{"0s process a", "0s exception a"}, pipeline.Exception, classify.CategorySystem},
		{"any error", []act{{err: errDown}}, "se", []string{"0s process a", "1s process a", "3s process a", "3s exception a"}, pipeline.Exception, classify.CategorySystem},
		{"error, then a value", fails(2, errDown), "se", []string{"0s process a", "1s process a", "3s process a", "3s success a"}, pipeline.Success, 0},
		{"error, then business", []act{{err: errDown}, {err: business}}, "se", []string{"0s process a", "1s process a", "1s exception a"}, pipeline.Exception, classify.CategoryBusiness},
		{"no handler", []act{{err: errDown}}, "", []string{"0s process a", "1s process a", "3s process a"}, pipeline.Failed, classify.CategorySystem},
		{"panic", []act{{panic: "no"}}, "e", []string{"0s process a", "1s process a", "3s process a", "3s exception a"}, pipeline.Exception, classify.CategorySystem},
	}
	for _, c := range cases {
		bubble(t, c.name, func(t *testing.T) {
			s := &script{process: map[string][]act{"a": c.acts}, handlers: c.handlers}
			p := consumerPolicy(1, 1)
			p.Steps.Process, p.Loop.Limit = retries(3), 1
			_, l, source := consume(t, s, p, transactions("a"))
			if diff := cmp.Diff(c.want, s.log); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]pipeline.Outcome{c.outcome}, l.of("a")); diff != "" {
				t.Error(diff)
			}
			acked := c.outcome == pipeline.Success || c.outcome == pipeline.Exception
			if got := len(source.Acked()) == 1; got != acked {
				t.Errorf("acknowledged: %t", got)
			}
			err := l.err("a")
			if c.category == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var failed *pipeline.TransactionError
			if !errors.As(err, &failed) || failed.ID != "a" || failed.Step != "process" || failed.Category != c.category {
				t.Fatalf("%#v", err)
			}
			if c.acts[0].panic == nil && !errors.Is(err, errDown) {
				t.Errorf("%v hides its cause", err)
			}
			if len(s.causes) > 0 && s.causes[0] != error(failed) {
				t.Errorf("the exception handler got %v", s.causes)
			}
		})
	}
}

func TestL4AFailedSuccessHandlerNeverRunsProcessAgain(t *testing.T) {
	bubble(t, "handled", func(t *testing.T) {
		s := &script{success: map[string][]act{"a": {{err: errDown}}}, handlers: "se"}
		p := consumerPolicy(1, 1)
		p.Steps.Process, p.Steps.Success = retries(5), retries(2)
		summary, l, _ := consume(t, s, p, transactions("a"))
		want := []string{"0s process a", "0s success a", "1s success a", "1s exception a"}
		if diff := cmp.Diff(want, s.log); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(pipeline.Summary{Fetched: 1, Processed: 1, Exception: 1, Retries: 1}, summary); diff != "" {
			t.Error(diff)
		}
		var failed *pipeline.TransactionError
		if !errors.As(l.err("a"), &failed) || failed.Step != "success" || failed.Attempts != 2 {
			t.Errorf("%+v", failed)
		}
	})
	bubble(t, "business in a consumer is business", func(t *testing.T) {
		s := &script{success: map[string][]act{"a": {{err: classify.Business(errDown)}}}, handlers: "se"}
		p := consumerPolicy(1, 1)
		p.Steps.Success = retries(3)
		_, l, _ := consume(t, s, p, transactions("a"))
		var failed *pipeline.TransactionError
		if !errors.As(l.err("a"), &failed) || failed.Category != classify.CategoryBusiness || failed.Attempts != 1 {
			t.Errorf("%+v", failed)
		}
	})
}

func TestL4AFailedExceptionHandlerEndsTheTransactionNotTheLoop(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		errHandler := errors.New("handler down")
		s := &script{
			process: map[string][]act{"a": {{err: errDown}}}, exception: map[string][]act{"a": {{err: errHandler}}}, handlers: "se",
		}
		p := consumerPolicy(1, 1)
		p.Steps.Exception, p.Loop.Limit = retries(2), 2
		source := newScripted(answer{ids: []string{"a"}}, answer{ids: []string{"b"}})
		var l ledger
		summary, err := pipeline.NewConsumer(source, s.task(), p, l.option(), quiet).Run(bg)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"0s process a", "0s exception a", "1s exception a", "1s process b", "1s success b"}
		if diff := cmp.Diff(want, s.log); diff != "" {
			t.Error(diff)
		}
		summary.Elapsed = 0
		if diff := cmp.Diff(pipeline.Summary{Fetched: 2, Processed: 1, Success: 1, Failed: 1, Retries: 1}, summary); diff != "" {
			t.Error(diff)
		}
		var failed *pipeline.TransactionError
		if err := l.err("a"); !errors.As(err, &failed) || failed.Step != "exception" || !errors.Is(err, errHandler) || !errors.Is(err, errDown) {
			t.Errorf("%v", err)
		}
		// Without a backoff in its step, a failed transaction is redelivered after a second.
		if diff := cmp.Diff([]nack{{"a", time.Second, true}}, source.nacked); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL2StepsDoNotShareAttempts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{
			process: map[string][]act{"a": fails(2, errDown)}, success: map[string][]act{"a": {{err: errDown}}},
			exception: map[string][]act{"a": fails(2, errDown)}, handlers: "se",
		}
		p := consumerPolicy(1, 1)
		p.Steps.Process, p.Steps.Success, p.Steps.Exception = retries(3), retries(3), retries(3)
		summary, _, _ := consume(t, s, p, transactions("a"))
		want := []string{
			"0s process a", "1s process a", "3s process a", "3s success a", "4s success a", "6s success a",
			"6s exception a", "7s exception a", "9s exception a",
		}
		if diff := cmp.Diff(want, s.log); diff != "" {
			t.Error(diff)
		}
		if summary.Exception != 1 || summary.Retries != 6 {
			t.Errorf("%+v", summary)
		}
	})
}

func TestL2EachAttemptHasItsOwnTimeout(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": ok(time.Hour)}, handlers: "se"}
		p := consumerPolicy(1, 1)
		p.Steps.Process = retries(2)
		p.Steps.Process.Retry.TimeoutPerAttempt = 5 * time.Second
		_, l, _ := consume(t, s, p, transactions("a"))
		want := []string{"0s process a", "5s process a cut", "6s process a", "11s process a cut", "11s exception a"}
		if diff := cmp.Diff(want, s.log); diff != "" {
			t.Error(diff)
		}
		var failed *pipeline.TransactionError
		if !errors.As(l.err("a"), &failed) || failed.Category != classify.CategoryTimeout {
			t.Errorf("%+v", failed)
		}
	})
}

func TestL4AGoroutineThatATaskEndsIsReplaced(t *testing.T) {
	source := pipeline.NewMemorySource(transactions("a", "b")...)
	p := consumerPolicy(1, 2)
	p.Loop.Limit = 2
	summary, err := pipeline.NewConsumer(source, pipeline.Handle(func(_ context.Context, x *pipeline.Transaction) error {
		if x.ID() == "a" {
			runtime.Goexit()
		}
		return nil
	}), p, quiet).Run(bg)
	if err != nil || summary.Failed != 1 || summary.Success != 1 {
		t.Fatal(summary, err)
	}
}

func TestL11WorkThatABudgetRefusesIsGivenBack(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		budgets := budget.NewRegistry()
		if err := budgets.Register("scarce", budget.NewTokenBucket(1, 0)); err != nil {
			t.Fatal(err)
		}
		s := &script{handlers: "se"}
		p := consumerPolicy(1, 2)
		p.Loop.Limit = 2
		p.Steps.Process.Retry.Budget.Name = "scarce"
		_, l, source := consume(t, s, p, transactions("a", "b"), pipeline.WithExecutorOptions(retry.ExecutorOptions{Budgets: budgets}))
		if diff := cmp.Diff([]string{"0s process a", "0s success a"}, s.log); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]pipeline.Outcome{pipeline.Redelivered}, l.of("b")); diff != "" {
			t.Error(diff)
		}
		if waiting, out := source.Len(); waiting != 1 || out != 0 {
			t.Errorf("%d wait, %d are held", waiting, out)
		}
	})
}

func TestL11RefusedWorkComesBackAfterTheWaitOfTheRefusal(t *testing.T) {
	for name, tt := range map[string]struct{ backoff, want time.Duration }{
		"longer":  {time.Second, 8*time.Second + 1},
		"shorter": {time.Minute, time.Minute},
	} {
		bubble(t, name, func(t *testing.T) {
			budgets := budget.NewRegistry()
			if err := budgets.Register("scarce", budget.NewTokenBucket(1, 0.125)); err != nil {
				t.Fatal(err)
			}
			p := consumerPolicy(1, 2)
			p.Steps.Process = retries(1)
			p.Steps.Process.Retry.InitialBackoff, p.Steps.Process.Retry.Budget.Name = tt.backoff, "scarce"
			source := newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})
			_, err := pipeline.NewConsumer(source, (&script{}).task(), p, pipeline.WithExecutorOptions(retry.ExecutorOptions{Budgets: budgets})).Run(bg)
			if diff := cmp.Diff([]nack{{"b", tt.want, false}}, source.nacked); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestL3ARetryThatABudgetRefusesIsAFailure(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		budgets := budget.NewRegistry()
		if err := budgets.Register("scarce", budget.NewTokenBucket(1, 0)); err != nil {
			t.Fatal(err)
		}
		s := &script{process: map[string][]act{"a": {{err: errDown}}}, handlers: "e"}
		p := consumerPolicy(1, 1)
		p.Steps.Process = retries(3)
		p.Steps.Process.Retry.Budget.Name = "scarce"
		summary, _, _ := consume(t, s, p, transactions("a"), pipeline.WithExecutorOptions(retry.ExecutorOptions{Budgets: budgets}))
		if summary.Exception != 1 || s.count("process a") != 1 {
			t.Error(summary, s.log)
		}
	})
}

func TestL11OnlyACopyOfExtraReachesTheSource(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := consumerPolicy(1, 3)
		given := map[string]any{"queue": "q", "where": map[string]any{"shards": []any{1, []string{"a"}}, "none": nil}}
		p.Steps.Fetch.Extra = given
		p.Loop.Batch.Interval = time.Second
		source := newScripted(answer{ids: []string{"a"}}, answer{})
		s := &script{}
		c := pipeline.NewConsumer(source, s.task(), p)
		change := func(extra map[string]any) {
			extra["queue"] = "changed"
			where := extra["where"].(map[string]any)
			where["none"] = "changed"
			where["shards"].([]any)[1].([]string)[0] = "changed"
			where["shards"].([]any)[0] = "changed"
		}
		change(given) // the consumer's own copy
		if _, err := c.Run(bg); err != nil {
			t.Fatal(err)
		}
		change(source.requests[0].Extra)
		want := pipeline.FetchRequest{Max: 3, Wait: time.Second, Extra: map[string]any{
			"queue": "q", "where": map[string]any{"shards": []any{1, []string{"a"}}, "none": nil},
		}}
		if diff := cmp.Diff(want, source.requests[1]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL11FailuresAreRedeliveredAfterTheStepsDelay(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{err: errDown}}}}
		p := consumerPolicy(1, 1)
		p.Steps.Process = retries(1)
		p.Loop.Limit = 4
		p.Loop.Streaming = true
		p.Loop.EmptyQueue.Backoff = 10 * time.Millisecond
		p.Loop.EmptyQueue.BackoffCap = 10 * time.Millisecond
		consume(t, s, p, transactions("a"))
		if n := len(s.log); n != 4 {
			t.Fatal(s.log)
		}
		// 1 s, 2 s, 4 s after the deliveries before, to the next empty fetch.
		for i, most := range []time.Duration{0, 1020 * time.Millisecond, 3040 * time.Millisecond, 7060 * time.Millisecond} {
			at, err := time.ParseDuration(s.log[i][:len(s.log[i])-len(" process a")])
			if err != nil || at > most || at < most-most/50 {
				t.Errorf("delivery %d at %v, want about %v (%v)", i+1, at, most, err)
			}
		}
	})
}

// TestD5AFailureComesBackNoEarlierThanAsked checks transactions without a handler, or whose handler fails too.
func TestD5AFailureComesBackNoEarlierThanAsked(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		later := func(d time.Duration) []act { return []act{{err: classify.After(errDown, d)}} }
		p := consumerPolicy(1, 9)
		p.Steps.Process = retries(2)
		for handlers, want := range map[string][]nack{
			"":  {{"a", 30 * time.Second, true}, {"b", time.Minute, true}, {"c", time.Second, true}},
			"e": {{"a", 40 * time.Second, true}, {"b", time.Minute, true}, {"c", 40 * time.Second, true}},
		} {
			s := &script{process: map[string][]act{"a": later(30 * time.Second), "b": later(time.Hour), "c": {{err: errDown}}},
				exception: map[string][]act{"*": later(40 * time.Second)}, handlers: handlers}
			source := newScripted(answer{ids: []string{"a", "b", "c"}}, answer{err: pipeline.ErrEnd})
			if _, err := pipeline.NewConsumer(source, s.task(), p, quiet).Run(bg); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, source.nacked); diff != "" {
				t.Error(diff)
			}
		}
	})
}
