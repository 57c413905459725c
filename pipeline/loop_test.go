package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func many(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("t%02d", i))
	}
	return ids
}

func asked(source *scripted) (list []int) {
	for _, r := range source.requests {
		list = append(list, r.Max)
	}
	return list
}

func TestL5FetchAsksForABatchOrTheRestOfTheLimit(t *testing.T) {
	cases := []struct {
		name         string
		batch, limit int
		available    int
		asked        []int
		handled      int
	}{
		{"batches", 4, 0, 10, []int{4, 4, 4, 4}, 10},
		{"a limit below the batch", 10, 5, 10, []int{5}, 5},
		{"a limit that is not a multiple", 4, 6, 10, []int{4, 2}, 6},
		{"a limit beyond the input", 4, 20, 5, []int{4, 4, 4}, 5},
	}
	for _, c := range cases {
		bubble(t, c.name, func(t *testing.T) {
			var answers []answer
			left := many(c.available)
			for _, n := range c.asked {
				n = min(n, len(left))
				answers = append(answers, answer{ids: left[:n]})
				left = left[n:]
			}
			source := newScripted(answers...)
			p := consumerPolicy(2, c.batch)
			p.Loop.Limit = c.limit
			s := &script{}
			summary, err := pipeline.NewConsumer(source, s.task(), p).Run(bg)
			if err != nil || summary.Success != c.handled || len(source.acked) != c.handled {
				t.Fatal(summary, err)
			}
			if diff := cmp.Diff(c.asked, asked(source)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// onlySource hides the optional interfaces of a source.
type onlySource struct{ pipeline.Source }

func TestL5ASourceThatReturnsTooMuchLosesNothing(t *testing.T) {
	bubble(t, "given back", func(t *testing.T) {
		source := newScripted(answer{ids: many(5)})
		s := &script{}
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3)).Run(bg)
		var broken *pipeline.ContractError
		if !errors.As(err, &broken) || broken.Part != "source" {
			t.Error(err)
		}
		if summary.Success != 3 || summary.Redelivered != 2 || len(source.nacked) != 2 || len(source.acked) != 3 {
			t.Errorf("%+v %v", summary, source.nacked)
		}
	})
	bubble(t, "processed where it cannot be given back", func(t *testing.T) {
		s := &script{}
		summary, err := pipeline.NewConsumer(onlySource{newScripted(answer{ids: many(5)})}, s.task(), consumerPolicy(1, 3)).Run(bg)
		var broken *pipeline.ContractError
		if !errors.As(err, &broken) || summary.Success != 5 {
			t.Error(summary, err)
		}
	})
}

// hollow is a source that returns a delivery without a transaction.
type hollow struct{ pipeline.Source }

func (h hollow) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	got, err := h.Source.Fetch(ctx, r)
	return append([]pipeline.Delivery{{}}, got...), err
}

func TestL5ADeliveryWithoutATransactionIsAContractError(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source, s := newScripted(answer{ids: many(2)}), &script{}
		summary, err := pipeline.NewConsumer(hollow{source}, s.task(), consumerPolicy(1, 3)).Run(bg)
		var broken *pipeline.ContractError
		if !errors.As(err, &broken) || broken.Part != "source" || summary.Fetched != 2 || summary.Success != 2 {
			t.Error(summary, err)
		}
	})
}

func TestL5AnExhaustedFetchEndsTheRunAfterRunningWork(t *testing.T) {
	cases := []struct {
		name    string
		last    answer
		timeout bool
		at      time.Duration
	}{
		{"error", answer{err: errDown}, false, 10 * time.Second},
		{"timeout", answer{takes: time.Hour}, true, 10 * time.Second},
		{"panic", answer{panic: "broken"}, false, 10 * time.Second},
	}
	for _, c := range cases {
		bubble(t, c.name, func(t *testing.T) {
			source := newScripted(answer{ids: []string{"a"}}, c.last)
			s := &script{process: map[string][]act{"a": ok(10 * time.Second)}}
			p := consumerPolicy(2, 1)
			p.Loop.Streaming = true
			p.Steps.Fetch.Retry = retries(3).Retry
			p.Steps.Fetch.Retry.TimeoutPerAttempt = time.Second
			start := time.Now()
			summary, err := pipeline.NewConsumer(source, s.task(), p, pipeline.WithName("orders")).Run(bg)
			if took := time.Since(start); took != c.at {
				t.Errorf("ended after %v", took)
			}
			var failed *pipeline.FetchError
			if !errors.As(err, &failed) || failed.Pipeline != "orders" || failed.Error() == "" {
				t.Fatalf("%v", err)
			}
			var late *pipeline.FetchTimeoutError
			if errors.As(err, &late) != c.timeout || errors.Is(err, context.DeadlineExceeded) != c.timeout {
				t.Errorf("%v", err)
			}
			if summary.Success != 1 || len(source.requests) != 4 || summary.Retries != 2 {
				t.Errorf("%+v after %d fetches", summary, len(source.requests))
			}
		})
	}
}

func TestL5DeliveriesThatComeWithAnErrorAreNotLost(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a"}, err: errDown}, answer{ids: []string{"b"}, err: pipeline.ErrEnd})
		s := &script{}
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1)).Run(bg)
		if err != nil || summary.Success != 2 || len(source.requests) != 2 {
			t.Error(summary, err)
		}
	})
}

func TestL6EmptyFetches(t *testing.T) {
	bubble(t, "end a run that does not stream", func(t *testing.T) {
		source := newScripted(answer{})
		s := &script{}
		if summary, err := pipeline.NewConsumer(source, s.task(), policy.Consumer{}).Run(bg); err != nil || summary.Fetched != 0 || len(source.requests) != 1 {
			t.Error(summary, err)
		}
	})
	bubble(t, "are followed by a growing wait while streaming, which a transaction resets", func(t *testing.T) {
		source := newScripted(answer{}, answer{}, answer{}, answer{}, answer{ids: []string{"a"}}, answer{}, answer{}, answer{err: pipeline.ErrEnd})
		s := &script{}
		p := consumerPolicy(1, 1)
		p.Loop.Streaming = true
		p.Loop.EmptyQueue = policy.EmptyQueue{Backoff: time.Second, BackoffMultiplier: 2, BackoffCap: 5 * time.Second}
		if _, err := pipeline.NewConsumer(source, s.task(), p).Run(bg); err != nil {
			t.Fatal(err)
		}
		var want []time.Duration
		for _, at := range []int{0, 1, 3, 7, 12, 12, 13, 15} { // waits of 1, 2, 4, 5; no wait; 1, 2
			want = append(want, time.Duration(at)*time.Second)
		}
		if diff := cmp.Diff(want, source.times); diff != "" {
			t.Error(diff)
		}
	})
	bubble(t, "the loop timeout ends streaming", func(t *testing.T) {
		p := consumerPolicy(1, 1)
		p.Loop.Streaming, p.Loop.Timeout = true, 10*time.Second
		s := &script{}
		start := time.Now()
		_, err := pipeline.NewConsumer(newScripted(answer{}), s.task(), p, pipeline.WithName("orders")).Run(bg)
		var late *pipeline.ConsumerLoopTimeoutError
		if !errors.As(err, &late) || late.Consumer != "orders" || late.Timeout != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestL7ASlowTransactionDoesNotBlockOthers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"t00": ok(100 * time.Second), "*": ok(time.Second)}}
		var l ledger
		start := time.Now()
		// One worker runs 19 transactions of one second while the first takes 100: batches do not wait for it.
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions(many(20)...)...), s.task(), consumerPolicy(2, 4), l.option()).Run(bg)
		if err != nil || summary.Success != 20 || time.Since(start) != 100*time.Second {
			t.Fatal(summary, err, time.Since(start))
		}
		if s.most != 2 {
			t.Errorf("%d in flight", s.most)
		}
		if at := slices.Index(s.log, "18s process t19"); at < 0 {
			t.Error(s.log)
		}
	})
}

func TestL7AFreeWorkerIsFedWhileAnotherIsBusy(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"t00": ok(1000 * time.Second), "*": ok(time.Second)}}
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions(many(500)...)...), s.task(), consumerPolicy(3, 1)).Run(bg)
		if err != nil || summary.Success != 500 || summary.Elapsed != 1000*time.Second {
			t.Error(summary, err) // a missed wake-up would delay the rest until the first is done
		}
	})
}

func TestL7ASlotThatABatchLeavesFreeIsFedAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(time.Hour)}}
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a", "b", "c")...), s.task(), consumerPolicy(3, 2)).Run(bg)
		if err != nil || summary.Success != 3 || summary.Elapsed != time.Hour {
			t.Error(summary, err) // c would wait for a or b
		}
	})
}

func TestL7WorkersStartOnDemand(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(time.Second)}}
		start := time.Now()
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions(many(30)...)...), s.task(), consumerPolicy(1<<40, 7)).Run(bg)
		if err != nil || summary.Success != 30 || s.most != 30 || time.Since(start) != time.Second {
			t.Error(summary, err, s.most, time.Since(start))
		}
	})
}

func TestL7TheSameIDNeverRunsTwiceAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": ok(10 * time.Second), "b": ok(time.Second)}}
		source := pipeline.NewMemorySource(transactions("a", "a", "a", "b", "a")...)
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(3, 4)).Run(bg)
		if err != nil || summary.Success != 5 || len(s.twice) > 0 {
			t.Fatal(summary, err, s.twice)
		}
		want := []string{"0s process a", "0s process b", "10s process a", "20s process a", "30s process a"}
		if diff := cmp.Diff(want, s.sorted()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL7FetchesOnlyWhenTheBufferIsEmptyAndAWorkerIsFree(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(time.Second)}}
		source := newScripted(answer{ids: many(10)[:5]}, answer{ids: many(10)[5:]}, answer{err: pipeline.ErrEnd})
		if _, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(2, 5)).Run(bg); err != nil {
			t.Fatal(err)
		}
		// The second worker is already free at 2 s.
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 5 * time.Second}, source.times); diff != "" {
			t.Error(diff)
		}
		if source.overlap {
			t.Error("two fetches ran at once")
		}
	})
}

func TestL7LeasesAreExtendedWhileTransactionsWaitAndRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(10 * time.Second)}}
		source := newScripted(answer{ids: []string{"a", "b", "a"}}, answer{err: pipeline.ErrEnd})
		source.every = 4 * time.Second
		if _, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3)).Run(bg); err != nil {
			t.Fatal(err)
		}
		// a runs from 0 to 10 and 20 to 30, b from 10 to 20: a is extended at 4, 8, and, as its second delivery waits and then
		// runs, at 4 … 28; b at 4 … 16 (and at 20 at the latest).
		if a, b := source.extended["a"], source.extended["b"]; a != 9 || b < 4 || b > 5 {
			t.Error(source.extended)
		}
	})
}

func TestL7ADeliveryThatWaitedUntilItsDeadlineDoesNotRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(10 * time.Second)}}
		list := transactions("a", "b")
		handed := false
		source := fetchFunc(func(context.Context, pipeline.FetchRequest) (got []pipeline.Delivery, err error) {
			if handed {
				return nil, pipeline.ErrEnd
			}
			handed = true
			for _, x := range list {
				got = append(got, pipeline.Delivery{Transaction: x, Deadline: time.Now().Add(5 * time.Second)})
			}
			return got, nil
		})
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 2)).Run(bg)
		if err != nil || summary.Success != 1 || summary.Redelivered != 1 {
			t.Error(summary, err)
		}
	})
}

type fetchFunc func(context.Context, pipeline.FetchRequest) ([]pipeline.Delivery, error)

func (f fetchFunc) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	return f(ctx, r)
}

func TestL8TransactionTimeout(t *testing.T) {
	cases := []struct {
		name               string
		process, success   []act
		exception          []act
		want               []string
		outcome            pipeline.Outcome
		step               string
		attempts           int
		transactionTimeout time.Duration
	}{
		{
			name:    "cancels process, then the exception handler runs once",
			process: ok(time.Hour), want: []string{"0s process a", "10s process a cut", "10s exception a"},
			outcome: pipeline.Exception, step: "process", attempts: 1,
		},
		{
			name:    "does not apply to the exception handler, which has its own",
			process: ok(time.Hour), exception: ok(9 * time.Second),
			want:    []string{"0s process a", "10s process a cut", "10s exception a"},
			outcome: pipeline.Exception, step: "process", attempts: 1,
		},
		{
			name:    "cancels the success handler",
			success: ok(time.Hour), want: []string{"0s process a", "0s success a", "10s success a cut", "10s exception a"},
			outcome: pipeline.Exception, step: "success", attempts: 1,
		},
		{
			name:    "waits for process to return, and discards its late result",
			process: []act{{takes: 25 * time.Second, deaf: true}},
			want:    []string{"0s process a", "25s exception a"},
			outcome: pipeline.Exception, step: "process", attempts: 1,
		},
		{
			name:    "judges what comes too late as a timeout, whatever its mark",
			process: []act{{takes: 25 * time.Second, deaf: true, err: classify.Business(errDown)}},
			want:    []string{"0s process a", "25s exception a"},
			outcome: pipeline.Exception, step: "process", attempts: 1,
		},
		{
			name:    "waits for the success handler to return, and ignores its late result",
			success: []act{{takes: 25 * time.Second, deaf: true}},
			want:    []string{"0s process a", "0s success a", "25s exception a"},
			outcome: pipeline.Exception, step: "success", attempts: 1,
		},
		{
			name:    "does not wait for an attempt that could not start in time",
			process: []act{{takes: 4 * time.Second, err: errDown}},
			want:    []string{"0s process a", "5s process a", "9s exception a"}, // 4 + 1 + 4, and 2 more would be 11
			outcome: pipeline.Exception, step: "process", attempts: 2,
		},
		{
			name:    "ends the exception handler: failed, and no second call",
			process: []act{{err: errDown}}, exception: ok(time.Hour),
			want:    []string{"0s process a", "1s process a", "3s process a", "3s exception a", "13s exception a cut"},
			outcome: pipeline.Failed, step: "exception", attempts: 1,
		},
		{
			name:    "ends while an exception handler ignores it",
			process: []act{{err: errDown}}, exception: []act{{takes: 30 * time.Second, deaf: true}},
			want:    []string{"0s process a", "1s process a", "3s process a", "3s exception a"},
			outcome: pipeline.Failed, step: "exception", attempts: 1,
		},
	}
	for _, c := range cases {
		bubble(t, c.name, func(t *testing.T) {
			s := &script{
				process: map[string][]act{"a": c.process}, success: map[string][]act{"a": c.success},
				exception: map[string][]act{"a": c.exception}, handlers: "se",
			}
			p := consumerPolicy(1, 1)
			p.Loop.TransactionTimeout, p.Loop.Limit = 10*time.Second, 1
			p.Steps.Process, p.Steps.Success, p.Steps.Exception = retries(3), retries(3), retries(3)
			_, l, _ := consume(t, s, p, transactions("a"))
			if diff := cmp.Diff(c.want, s.log); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]pipeline.Outcome{c.outcome}, l.of("a")); diff != "" {
				t.Error(diff)
			}
			var failed *pipeline.TransactionError
			if err := l.err("a"); !errors.As(err, &failed) || failed.Category.String() != "timeout" || !errors.Is(err, context.DeadlineExceeded) ||
				failed.Step != c.step || failed.Attempts != c.attempts {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestL8ALateResultWithoutAHandlerIsATimeoutToo(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{takes: 25 * time.Second, deaf: true}}}, handlers: "e"}
		p := consumerPolicy(1, 1)
		p.Loop.TransactionTimeout = 10 * time.Second
		if summary, l, _ := consume(t, s, p, transactions("a")); summary.Exception != 1 || !errors.Is(l.err("a"), pipeline.ErrTransactionTimeout) {
			t.Error(summary, l.err("a"))
		}
	})
}

func TestL8RunsFromTheMomentAWorkerTakesTheTransaction(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(8 * time.Second)}, handlers: "se"}
		p := consumerPolicy(1, 3) // the third waits for 16 s, longer than its timeout
		p.Loop.TransactionTimeout = 10 * time.Second
		if summary, _, _ := consume(t, s, p, transactions("a", "b", "c")); summary.Success != 3 {
			t.Error(summary, s.log)
		}
	})
}

func TestL9LoopTimeoutAndShutdown(t *testing.T) {
	for _, how := range []string{"loop timeout", "context", "drain"} {
		bubble(t, how, func(t *testing.T) {
			s := &script{
				process: map[string][]act{
					"a": ok(time.Hour),                           // obeys its context
					"b": {{takes: 10 * time.Second}},             // done in time
					"c": {{takes: 15 * time.Second, deaf: true}}, // has a result when no further step may start
					"d": {{takes: time.Hour, deaf: true}},        // ignores its context
					"g": {{takes: 14 * time.Second, deaf: true, err: errDown}},
				},
				handlers: "se",
			}
			source := newScripted(answer{ids: []string{"a", "b", "c", "d", "g", "e", "a"}}, answer{})
			p := consumerPolicy(5, 7)
			p.Loop.Streaming = true
			p.Steps.Process = retries(3)
			ctx, cancel := context.WithCancelCause(bg)
			var l ledger
			const at = 12 * time.Second
			grace := 20 * time.Second
			if how == "loop timeout" {
				p.Loop.Timeout = at
			}
			if how == "drain" {
				grace = at
				s.process["c"][0].takes, s.process["g"][0].takes = 13*time.Second, 13*time.Second
			}
			consumer := pipeline.NewConsumer(source, s.task(), p, pipeline.WithGrace(grace), l.option(), quiet)
			errStop := errors.New("stop")
			if how == "context" {
				time.AfterFunc(at, func() { cancel(errStop) })
			}
			if how == "drain" {
				time.AfterFunc(time.Millisecond, consumer.Drain) // a drained engine does not fetch: drain when the work has begun
			}
			defer cancel(nil)
			start := time.Now()
			summary, err := consumer.Run(ctx)
			took := time.Since(start)
			switch how {
			case "loop timeout":
				var late *pipeline.ConsumerLoopTimeoutError
				if !errors.As(err, &late) || took != at+grace {
					t.Error(err, took)
				}
			case "context":
				if !errors.Is(err, errStop) || took != at+grace {
					t.Error(err, took)
				}
			default:
				if err != nil || took != time.Millisecond+at+2*time.Second {
					t.Error(err, took)
				}
			}
			want := map[string][]pipeline.Outcome{
				"a": {pipeline.Redelivered, pipeline.Redelivered}, "b": {pipeline.Success}, "c": {pipeline.Redelivered},
				"d": {pipeline.Redelivered}, "g": {pipeline.Redelivered}, "e": {pipeline.Success}, // started when b was done
			}
			for id, outcomes := range want {
				if diff := cmp.Diff(outcomes, l.of(id)); diff != "" {
					t.Error(id, diff)
				}
			}
			for _, line := range s.log {
				if strings.Contains(line, "exception") || strings.Contains(line, "success c") {
					t.Errorf("a handler was started: %s", line)
				}
			}
			if summary.Abandoned != 1 || summary.Redelivered != 5 || summary.Success != 2 || summary.Fetched != 7 {
				t.Errorf("%+v", summary)
			}
			for _, n := range source.nacked {
				if n.Delay != 0 || n.Cause {
					t.Errorf("nacked as %+v", n)
				}
			}
			if len(source.nacked) != 5 || len(source.acked) != 2 {
				t.Error(source.nacked, source.acked)
			}
			time.Sleep(time.Hour) // abandoned calls return and change nothing
			synctest.Wait()
			if len(l.ends) != 7 || len(source.nacked) != 5 {
				t.Error(l.ends)
			}
		})
	}
}

func TestL9AResultWithoutAHandlerCountsAfterAShutdown(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{takes: 10 * time.Second, deaf: true}}}, handlers: "e"}
		source := newScripted(answer{ids: []string{"a"}})
		ctx, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1)).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Success != 1 || len(source.acked) != 1 {
			t.Error(summary, err)
		}
	})
}

func TestL9AnExceptionHandlerThatIsCutOffIsNotFinished(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{err: errDown}}}, exception: map[string][]act{"a": ok(time.Hour)}, handlers: "e"}
		source := newScripted(answer{ids: []string{"a"}})
		ctx, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1)).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Redelivered != 1 || len(source.nacked) != 1 {
			t.Error(summary, err)
		}
	})
}

func TestL9AFetchThatIgnoresItsContextIsAbandonedAndItsResultGivenBack(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a"}, takes: time.Hour, deaf: true})
		s := &script{}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		consumer := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1), pipeline.WithGrace(time.Second), quiet)
		time.AfterFunc(50*time.Second, func() {
			if err := consumer.Healthy(); err != nil {
				t.Error(err)
			}
		})
		if summary, err := consumer.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || summary.Fetched != 0 {
			t.Error(summary, err)
		}
		time.Sleep(20 * time.Second)
		if err := consumer.Healthy(); err == nil {
			t.Error("a fetch that hangs is healthy")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]nack{{ID: "a"}}, source.nacked); diff != "" {
			t.Error(diff)
		}
	})
}

// TestL7WorkThatARunAbandonedCountsInTheNextRun checks that the calls and fetches of two runs of an engine count as those of one.
func TestL7WorkThatARunAbandonedCountsInTheNextRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{takes: time.Minute, deaf: true}, {}}, "*": ok(time.Second)}}
		source := newScripted(answer{ids: []string{"a"}}, answer{}, answer{ids: []string{"a", "b", "c", "d"}}, answer{})
		p := consumerPolicy(2, 4)
		p.Loop.Timeout = 50 * time.Second
		consumer := pipeline.NewConsumer(source, s.task(), p, pipeline.WithGrace(time.Second), quiet)
		if summary, _ := consumer.Run(bg); summary.Abandoned != 1 {
			t.Fatalf("%+v", summary)
		}
		if summary, err := consumer.Run(bg); err != nil || summary.Success != 4 || s.most > 2 || len(s.twice) > 0 {
			t.Errorf("%+v, %v, %d at once, twice at once: %v", summary, err, s.most, s.twice)
		}
	})
	bubble(t, "a run with room for one more", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{takes: time.Hour, deaf: true}}, "*": ok(time.Second)}}
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{}, answer{ids: many(4)}, answer{})
		p := consumerPolicy(2, 4)
		p.Loop.Timeout = 20 * time.Second
		consumer := pipeline.NewConsumer(source, s.task(), p, pipeline.WithGrace(time.Second), quiet)
		if summary, _ := consumer.Run(bg); summary.Abandoned != 1 {
			t.Fatalf("%+v", summary)
		}
		start := time.Now()
		if summary, err := consumer.Run(bg); err != nil || summary.Success != 4 || time.Since(start) != 4*time.Second {
			t.Errorf("%+v, %v, after %v", summary, err, time.Since(start))
		}
		time.Sleep(time.Hour)
	})
	for name, takes := range map[string]time.Duration{"a run without room": time.Minute, "a run that never has room": time.Hour} {
		bubble(t, name, func(t *testing.T) {
			s := &script{process: map[string][]act{"a": {{takes: takes, deaf: true}}, "*": ok(time.Second)}}
			source := newScripted(answer{ids: []string{"a"}}, answer{ids: many(4)}, answer{})
			p := consumerPolicy(1, 4)
			p.Loop.Timeout = 40 * time.Second
			consumer := pipeline.NewConsumer(source, s.task(), p, pipeline.WithGrace(time.Second), quiet)
			if summary, _ := consumer.Run(bg); summary.Abandoned != 1 {
				t.Fatalf("%+v", summary)
			}
			start := time.Now() // 41 s after the start of a
			summary, err := consumer.Run(bg)
			switch ran := time.Since(start); takes {
			case time.Minute:
				if err != nil || summary.Success != 4 || ran != 23*time.Second {
					t.Errorf("%+v, %v, after %v", summary, err, ran)
				}
			default:
				if !errors.Is(err, context.DeadlineExceeded) || summary.Success != 0 || ran > 42*time.Second {
					t.Errorf("%+v, %v, after %v", summary, err, ran)
				}
			}
			time.Sleep(takes)
		})
	}
	bubble(t, "a producer without room", func(t *testing.T) {
		s := &script{process: map[string][]act{"a": {{takes: time.Minute, deaf: true}, {}}}}
		sink := pipeline.SinkFunc(func(ctx context.Context, x *pipeline.Transaction) error {
			return s.act(ctx, "process", x.ID(), s.process)
		})
		var p policy.Producer
		p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Timeout = 1, 4, 40*time.Second
		s.task()
		producer := pipeline.NewProducer(sink, pipeline.Raw{}, p, pipeline.WithGrace(time.Second), quiet)
		if summary, _ := producer.Run(bg, pipeline.Values(transactions("a")...)); summary.Abandoned != 1 {
			t.Fatalf("%+v", summary)
		}
		start := time.Now() // 41 s after the start of a
		if summary, err := producer.Run(bg, pipeline.Values(transactions("b", "a")...)); err != nil || summary.Success != 2 || time.Since(start) != 19*time.Second {
			t.Errorf("%+v, %v, after %v", summary, err, time.Since(start))
		}
	})
	bubble(t, "a fetch", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a"}, takes: time.Minute, deaf: true}, answer{ids: []string{"b"}}, answer{})
		s := &script{}
		ctx, cancel := context.WithTimeout(bg, 30*time.Second)
		defer cancel()
		consumer := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1), pipeline.WithGrace(time.Second), quiet)
		if _, err := consumer.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		start := time.Now() // 31 s after the start of the fetch
		if summary, err := consumer.Run(bg); err != nil || summary.Success != 1 || time.Since(start) != 29*time.Second {
			t.Errorf("%+v, %v, after %v", summary, err, time.Since(start))
		}
	})
}

func TestL9DrainFinishesWhatWasFetched(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(time.Second)}, handlers: "s"}
		source := newScripted(answer{ids: many(5)})
		p := consumerPolicy(1, 5)
		p.Loop.Streaming = true
		consumer := pipeline.NewConsumer(source, s.task(), p)
		time.AfterFunc(1500*time.Millisecond, func() {
			if got := consumer.Progress(); got.InFlight != 1 || got.Buffered != 3 || got.Concurrency != 1 || got.Oldest != 500*time.Millisecond || got.Summary.Success != 1 {
				t.Errorf("%+v", got)
			}
			consumer.Drain()
			consumer.Drain()
		})
		summary, err := consumer.Run(bg)
		if err != nil || summary.Success != 5 || summary.Elapsed != 5*time.Second || len(source.requests) != 1 {
			t.Error(summary, err)
		}
		for range 50 {
			if summary, err = consumer.Run(bg); err != nil || summary.Fetched != 0 {
				t.Fatalf("a drained engine has fetched: %+v, %v", summary, err)
			}
		}
	})
	bubble(t, "while it waits for the source", func(t *testing.T) {
		s := &script{}
		p := consumerPolicy(1, 1)
		p.Loop.Streaming, p.Loop.Batch.Interval = true, time.Hour
		consumer := pipeline.NewConsumer(pipeline.NewMemorySource(), s.task(), p)
		time.AfterFunc(time.Second, consumer.Drain)
		start := time.Now()
		if _, err := consumer.Run(bg); err != nil || time.Since(start) != time.Second {
			t.Error(err, time.Since(start))
		}
	})
}

func TestL9AnEngineThatWorksAndDoesNotFetchIsHealthy(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(time.Hour)}}
		consumer := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), s.task(), consumerPolicy(1, 1))
		time.AfterFunc(59*time.Minute, func() {
			if err := consumer.Healthy(); err != nil {
				t.Error(err)
			}
		})
		if summary, err := consumer.Run(bg); err != nil || summary.Success != 1 {
			t.Error(summary, err)
		}
	})
}

func TestL9AnEmptySourceIsHealthyAndAHangingFetchIsNot(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{}, answer{}, answer{takes: 30 * time.Second, deaf: true}, answer{err: pipeline.ErrEnd})
		s := &script{}
		p := consumerPolicy(1, 1)
		p.Loop.Streaming = true
		p.Steps.Fetch.Retry.TimeoutPerAttempt = 5 * time.Second
		consumer := pipeline.NewConsumer(source, s.task(), p)
		if err := consumer.Healthy(); err != nil {
			t.Error(err)
		}
		healthy := map[time.Duration]bool{500 * time.Millisecond: true, 17 * time.Second: true, 19 * time.Second: false}
		for at, want := range healthy { // the third fetch begins at 3 s and may take 5 s and the margin
			time.AfterFunc(at, func() {
				if err := consumer.Healthy(); (err == nil) != want {
					t.Errorf("at %v: %v", at, err)
				}
			})
		}
		if _, err := consumer.Run(bg); err != nil {
			t.Fatal(err)
		}
		if err := consumer.Healthy(); err != nil {
			t.Error(err)
		}
	})
}

func TestAcknowledgementsThatFailAreCounted(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{err: pipeline.ErrEnd})
		source.ackErr, source.every = errDown, time.Second
		s := &script{process: map[string][]act{"b": {{takes: 2 * time.Second, err: errDown}}}}
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(2, 2), quiet).Run(bg)
		if err != nil || summary.Unsettled != 2 || summary.Success != 1 || summary.Failed != 1 {
			t.Error(summary, err)
		}
	})
}

func TestAConsumerRunsOnceAtATime(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{process: map[string][]act{"*": ok(time.Second)}}
		consumer := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), s.task(), policy.Consumer{})
		time.AfterFunc(time.Millisecond, func() {
			if _, err := consumer.Run(bg); err == nil || !strings.Contains(err.Error(), "is already running") {
				t.Error(err)
			}
		})
		if _, err := consumer.Run(bg); err != nil {
			t.Error(err)
		}
		if summary, err := consumer.Run(bg); err != nil || summary.Fetched != 0 {
			t.Error(summary, err)
		}
	})
}
