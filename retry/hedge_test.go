package retry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func hedged(attempts, hedges int) policy.Policy {
	p := exact(attempts)
	p.Hedge = policy.Hedge{Enabled: true, MaxHedges: hedges, HedgeDelay: 100 * time.Millisecond}
	return p
}

// racing runs one function per launch, in launch order.
func racing(runs ...func(ctx context.Context) error) (retry.Operation, *atomic.Int64) {
	launched := &atomic.Int64{}
	return func(ctx context.Context) error {
		a, _ := retry.AttemptFromContext(ctx)
		launched.Add(1)
		return runs[min(a.Number, len(runs))-1](ctx)
	}, launched
}

func after(d time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestR9FirstSuccessWinsAndTheRestAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, hedged(3, 2))
		op, launched := racing(after(time.Hour, nil), after(20*time.Millisecond, nil))
		start := time.Now()
		timeline, err := e.DoWithTimeline(bg, key, op)
		if err != nil || time.Since(start) != 120*time.Millisecond || launched.Load() != 2 {
			t.Fatalf("%v after %v, %d launched", err, time.Since(start), launched.Load())
		}
		if len(timeline.Attempts) != 2 {
			t.Fatalf("%d records", len(timeline.Attempts))
		}
		loser, winner := timeline.Attempts[0], timeline.Attempts[1]
		if winner.Attempt != 2 || winner.HedgeIndex != 1 || winner.Outcome.Kind != classify.Success {
			t.Errorf("winner %+v", winner)
		}
		if loser.Attempt != 1 || loser.Outcome.Reason != policy.ReasonCanceledInternal {
			t.Errorf("loser %+v", loser)
		}
		if err := e.Wait(bg); err != nil {
			t.Error(err)
		}
	})
}

func TestR9CancelOnFirstTerminal(t *testing.T) {
	for cancel, want := range map[bool]error{true: errDown, false: nil} {
		synctest.Test(t, func(t *testing.T) {
			p := hedged(3, 1)
			p.Hedge.CancelOnFirstTerminal = cancel
			op, _ := racing(after(200*time.Millisecond, classify.Permanent(errDown)), after(300*time.Millisecond, nil))
			err := executor(t, p).Do(bg, key, op)
			if !errors.Is(err, want) {
				t.Errorf("cancel_on_first_terminal %v: %v", cancel, err)
			}
		})
	}
}

func TestR9NoNewHedgesAfterATerminalOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, launched := racing(after(150*time.Millisecond, classify.Permanent(errDown)), after(10*time.Second, nil), after(0, nil))
		start := time.Now()
		err := executor(t, hedged(1, 3)).Do(bg, key, op)
		if err != nil || launched.Load() != 2 || time.Since(start) != 10100*time.Millisecond {
			t.Errorf("%v, %d launched, %v", err, launched.Load(), time.Since(start))
		}
	})
}

func TestR9BackoffBetweenGroupsHonoursTheLongestPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := racing(
			after(110*time.Millisecond, classify.After(errDown, 5*time.Second)),
			after(50*time.Millisecond, classify.After(errDown, time.Second)),
			after(0, nil),
		)
		start := time.Now()
		err := executor(t, hedged(2, 1)).Do(bg, key, op)
		if took := time.Since(start); err != nil || took != 5150*time.Millisecond {
			t.Errorf("%v after %v, want 150ms and a wait of 5s", err, took)
		}
	})
}

func TestP5HedgesAreBoundedPerGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, launched := racing(after(time.Second, errDown))
		err := executor(t, hedged(3, 2)).Do(bg, key, op)
		failure(t, err, policy.ReasonAttemptsExhausted)
		if launched.Load() != 9 {
			t.Errorf("%d launches, want 3 groups of 3", launched.Load())
		}
	})
}

func TestR9LoserThatIgnoresItsContextIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		e := executor(t, hedged(1, 1), func(o *retry.ExecutorOptions) { o.Observer = l })
		op, _ := racing(func(context.Context) error { time.Sleep(5 * time.Second); return nil }, after(0, nil))
		if err := e.Do(bg, key, op); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v before the loser ended", err)
		}
		if err := e.Wait(bg); err != nil {
			t.Error(err)
		}
		if n := l.reports(policy.ReasonHedgeOverrun); n != 1 {
			t.Errorf("%d reports", n)
		}
	})
}

func TestR3PanicOfAHedgedAttemptReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 9}
		l := &log{}
		e := withBudget(t, hedged(1, 1), b, func(o *retry.ExecutorOptions) { o.Observer = l })
		op, _ := racing(after(time.Hour, nil), func(context.Context) error { panic("boom") })
		func() {
			defer func() {
				p, ok := recover().(*retry.PanicError)
				if !ok || p.Value != "boom" || len(p.Stack) == 0 {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = e.Do(bg, key, op)
		}()
		_ = e.Wait(bg)
		b.check(t)
		if n := len(l.of(observe.CallEnded)); n != 1 {
			t.Errorf("%d recorded ends of the call", n)
		}
	})
}

func TestR3LateLosersPanicGoesToTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		e := executor(t, hedged(1, 1), func(o *retry.ExecutorOptions) { o.Observer = l })
		op, _ := racing(func(ctx context.Context) error { <-ctx.Done(); panic("late") }, after(0, nil))
		if err := e.Do(bg, key, op); err != nil {
			t.Fatal(err)
		}
		_ = e.Wait(bg)
		if n := l.reports(policy.ReasonPanicInOperation); n != 1 {
			t.Errorf("%d reports", n)
		}
	})
}

func TestR7HedgeDeniedIsRecordedAndNotTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 1}
		op, launched := racing(after(time.Second, nil))
		timeline, err := withBudget(t, hedged(1, 1), b).DoWithTimeline(bg, key, op)
		if err != nil || launched.Load() != 1 {
			t.Fatalf("%v, %d launched", err, launched.Load())
		}
		if len(timeline.Attempts) != 2 || !timeline.Attempts[1].Denied || timeline.Attempts[1].HedgeIndex != 1 {
			t.Errorf("records %+v", timeline.Attempts)
		}
		b.check(t)
	})
}

func TestR10MaxExtraLoadBoundsHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(1, 1)
		p.Hedge.MaxExtraLoad = 0.1
		e := executor(t, p)
		var launched int64
		for range 100 {
			op, n := racing(after(time.Second, nil))
			if err := e.Do(bg, key, op); err != nil {
				t.Fatal(err)
			}
			launched += n.Load()
		}
		if launched != 110 {
			t.Errorf("%d launches for 100 calls, want 10 hedges", launched)
		}
	})
}

func TestR10RetriesEarnNoHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(5, 1)
		p.Hedge.MaxExtraLoad = 0.1
		e := executor(t, p)
		var hedges int64
		for range 100 {
			op, n := racing(after(time.Second, errDown))
			timeline, _ := e.DoWithTimeline(bg, key, op)
			hedges += n.Load() - int64(timeline.Attempts[len(timeline.Attempts)-1].RetryIndex+1)
		}
		if hedges != 10 {
			t.Errorf("%d hedges for 100 calls of 5 groups each, want 10", hedges)
		}
	})
}

func TestR10PercentileTriggerLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(1, 1)
		p.Hedge.TriggerName = policy.TriggerP95
		p.Hedge.HedgeDelay = 10 * time.Second
		e := executor(t, p)
		for range 60 {
			op, _ := racing(after(50*time.Millisecond, nil))
			_ = e.Do(bg, key, op)
		}
		op, launched := racing(after(5*time.Second, nil), after(0, nil))
		start := time.Now()
		_ = e.Do(bg, key, op)
		if took := time.Since(start); launched.Load() != 2 || took < 45*time.Millisecond || took > 60*time.Millisecond {
			t.Errorf("hedged after %v (%d launched), want about the p95 of 50ms", took, launched.Load())
		}
	})
}

func TestR10OnlySuccessesOfTheKeyWithHedgingFeedThePercentile(t *testing.T) {
	off := retry.WithPolicy(func(p *policy.Policy) { p.Hedge.Enabled = false })
	for name, feed := range map[string]func(*retry.Executor) error{
		"failures": func(e *retry.Executor) error { return e.Do(bg, key, after(50*time.Millisecond, errDown)) },
		"another key": func(e *retry.Executor) error {
			return e.Do(bg, policy.Key{Name: "other"}, after(50*time.Millisecond, nil))
		},
		"calls without hedging": func(e *retry.Executor) error { return e.Do(bg, key, after(50*time.Millisecond, nil), off) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := hedged(1, 1)
				p.Hedge.TriggerName, p.Hedge.HedgeDelay = policy.TriggerP95, 10*time.Second
				e := executor(t, p)
				for range 60 {
					_ = feed(e)
				}
				op, _ := racing(after(time.Minute, nil), after(0, nil))
				start := time.Now()
				_ = e.Do(bg, key, op)
				if took := time.Since(start); took != 10*time.Second {
					t.Errorf("hedged after %v, want the fixed delay of 10s", took)
				}
			})
		})
	}
}

func TestR11HalfOpenAdmitsNoHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(1, 1)
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Minute, Probes: 3}
		e := executor(t, p)
		_ = e.Do(bg, key, func(context.Context) error { return errDown })
		time.Sleep(time.Minute)
		op, launched := racing(after(time.Second, nil))
		timeline, err := e.DoWithTimeline(bg, key, op)
		if err != nil || launched.Load() != 1 {
			t.Errorf("%v, %d launched", err, launched.Load())
		}
		if hedge := timeline.Attempts[1]; !hedge.Denied || hedge.Outcome.Reason != policy.ReasonHalfOpen || hedge.Circuit != "half_open" {
			t.Errorf("%+v", hedge)
		}
	})
}

// TestR4AFinalFailureHasNoCauseOfAnotherAttempt: the group fails because of its first attempt. That the caller cancels before the
// second one has ended is not why.
func TestR4AFinalFailureHasNoCauseOfAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		e := executor(t, hedged(1, 1), func(o *retry.ExecutorOptions) {
			o.Observer = observe.Func(func(_ context.Context, e *observe.Event) {
				if e.Type == observe.AttemptEnded && e.Attempt.Attempt == 1 {
					cancel()
					synctest.Wait() // until the second attempt has returned
				}
			})
		})
		op, _ := racing(after(150*time.Millisecond, classify.Permanent(errDown)), after(time.Hour, nil))
		f := failure(t, e.Do(ctx, key, op), policy.ReasonNonRetryable)
		if f.Cause != nil || errors.Is(f, context.Canceled) {
			t.Errorf("%v has the cause %v", f, f.Cause)
		}
	})
}

func TestR9CancelledCallerReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, hedged(3, 1))
		ctx, cancel := context.WithCancel(bg)
		time.AfterFunc(150*time.Millisecond, cancel)
		op, _ := racing(func(context.Context) error { time.Sleep(time.Minute); return nil })
		start := time.Now()
		err := e.Do(ctx, key, op)
		failure(t, err, policy.ReasonCanceled)
		if took := time.Since(start); took != 150*time.Millisecond {
			t.Errorf("returned after %v", took)
		}
		_ = e.Wait(bg)
	})
}

func TestR1OverallTimeoutEndsAHedgedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(3, 1)
		p.Retry.OverallTimeout = time.Second
		op, _ := racing(func(context.Context) error { time.Sleep(time.Minute); return nil })
		start := time.Now()
		e := executor(t, p)
		failure(t, e.Do(bg, key, op), policy.ReasonOverallTimeout)
		if took := time.Since(start); took != time.Second {
			t.Errorf("returned after %v", took)
		}
		_ = e.Wait(bg)
	})
}

func TestR2TriggerNotFound(t *testing.T) {
	for mode, want := range map[retry.FailureMode]int64{retry.FailureFallback: 2, retry.FailureAllow: 2, retry.FailureDeny: 1} {
		synctest.Test(t, func(t *testing.T) {
			p := hedged(1, 1)
			p.Hedge.TriggerName = "weather"
			op, launched := racing(after(time.Second, nil), after(0, nil))
			timeline, err := executor(t, p, func(o *retry.ExecutorOptions) { o.MissingTriggerMode = mode }).DoWithTimeline(bg, key, op)
			if err != nil || launched.Load() != want || timeline.Attributes.Get(observe.AttrTriggerNotFound) != "weather" {
				t.Errorf("%s: %v, %d launched, attributes %q", mode, err, launched.Load(), timeline.Attributes.Get(observe.AttrTriggerNotFound))
			}
		})
	}
}

func TestR2AHedgesBudgetNotFound(t *testing.T) {
	for mode, want := range map[retry.FailureMode]int64{retry.FailureFallback: 2, retry.FailureAllow: 2, retry.FailureDeny: 1} {
		synctest.Test(t, func(t *testing.T) {
			p := hedged(1, 1)
			p.Hedge.Budget.Name = "nowhere"
			op, launched := racing(after(time.Second, nil))
			timeline, err := executor(t, p, func(o *retry.ExecutorOptions) { o.MissingBudgetMode = mode }).DoWithTimeline(bg, key, op)
			if err != nil || launched.Load() != want || timeline.Attributes.Get(observe.AttrBudgetNotFound) != "nowhere" {
				t.Fatalf("%s: %v, %d launched, attributes %+v", mode, err, launched.Load(), timeline.Attributes)
			}
			if hedge := timeline.Attempts[1]; hedge.Denied != (want == 1) || hedge.BudgetReason != policy.ReasonBudgetNotFound {
				t.Errorf("%s: %+v", mode, hedge)
			}
		})
	}
}

func TestR8HedgesAreChargedToTheRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := budget.New(policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.1, Burst: 3})
		if err != nil {
			t.Fatal(err)
		}
		e := withBudget(t, hedged(1, 1), b)
		var launched int64
		for range 10 {
			op, n := racing(after(time.Second, nil))
			_ = e.Do(bg, key, op)
			launched += n.Load()
		}
		if launched > 10+4 {
			t.Errorf("%d launches for 10 calls with ratio 0.1 and burst 3", launched)
		}
	})
}

func TestR8AHedgesOwnRetryRatioEarnsWithCalls(t *testing.T) {
	for _, scope := range []string{"process", "shared"} {
		for _, attempts := range []int64{1, 3} { // retries earn nothing
			synctest.Test(t, func(t *testing.T) {
				list, _, _ := sharingProcesses(t, 1, `{version: 1, budgets: {hedges: {kind: retry_ratio, ratio: 0.5, burst: 2, scope: `+scope+`}},
					policies: {user-service.GetUser: {retry: {max_attempts: `+fmt.Sprint(attempts)+`}, hedge: {enabled: true, delay: 100ms, budget: {name: hedges}}}}}`)
				var hedges int64
				for range 100 {
					op, n := racing(after(time.Second, errDown))
					_ = list[0].Do(bg, key, op)
					hedges += n.Load() - attempts
				}
				if hedges < 45 || hedges > 52 {
					t.Errorf("%s: %d hedges for 100 calls of %d attempts with ratio 0.5 and burst 2", scope, hedges, attempts)
				}
			})
		}
	}
}

func TestR3AHedgedAttemptThatEndsItsGoroutineIsAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, hedged(1, 1))
		op, _ := racing(func(context.Context) error { runtime.Goexit(); return nil })
		defer func() {
			p, ok := recover().(*retry.PanicError)
			if !ok || p.Value != "the operation ended its goroutine" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = e.Do(bg, key, op)
		t.Error("the call returned")
	})
}

func TestR10AHedgeDeniedByLoadIsRecordedWithTheBreakersState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(1, 1)
		p.Hedge.MaxExtraLoad = 0.1
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 5}
		op, launched := racing(after(time.Second, nil))
		timeline, err := executor(t, p).DoWithTimeline(bg, key, op)
		if err != nil || launched.Load() != 1 || len(timeline.Attempts) != 2 {
			t.Fatalf("%v, %d launched, %+v", err, launched.Load(), timeline.Attempts)
		}
		if a := timeline.Attempts[1]; !a.Denied || a.Outcome.Reason != policy.ReasonMaxExtraLoad || a.Circuit != "closed" {
			t.Errorf("%+v", a)
		}
	})
}

// TestR9ALateLoserReleasesItsGrant: both attempts end before the group is decided, and one wins.
func TestR9ALateLoserReleasesItsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end, told := &ledger{}, make(chan struct{}), false
		e := withBudget(t, hedged(1, 1), b, func(o *retry.ExecutorOptions) {
			o.Observer = observe.Func(func(_ context.Context, e *observe.Event) {
				if e.Type == observe.AttemptEnded && !told { // the winner's end, which is observed before the group is decided
					told = true
					close(end)
					synctest.Wait() // until the loser has ended
				}
			})
		})
		op, _ := racing(func(context.Context) error { <-end; return nil }, after(0, nil))
		timeline, err := e.DoWithTimeline(bg, key, op)
		if err != nil || len(timeline.Attempts) != 2 || timeline.Attempts[0].Outcome.Reason != policy.ReasonCanceledInternal {
			t.Errorf("%v, %+v", err, timeline.Attempts)
		}
		if !slices.Equal(b.released, []int{1, 1}) {
			t.Errorf("grants were released %v times", b.released)
		}
	})
}

// TestR9ACallThatMustNotRunTwiceAtOnceIsNotHedged: clients set this for requests whose repetition a server cannot recognise.
func TestR9ACallThatMustNotRunTwiceAtOnceIsNotHedged(t *testing.T) {
	for name, c := range map[string]struct {
		options []retry.CallOption
		want    int64
	}{
		"by policy":                    {nil, 2},
		"never":                        {[]retry.CallOption{retry.WithoutHedging()}, 1},
		"never, with or without a key": {[]retry.CallOption{retry.WithoutHedging(), retry.WithIdempotencyKey("k")}, 1},
		"by key, without one":          {[]retry.CallOption{retry.WithHedgingByKey()}, 1},
		"by key, with one":             {[]retry.CallOption{retry.WithHedgingByKey(), retry.WithIdempotencyKey("k")}, 2},
		"by key and never":             {[]retry.CallOption{retry.WithHedgingByKey(), retry.WithoutHedging(), retry.WithIdempotencyKey("k")}, 1},
		"by key, and the policy edits": {[]retry.CallOption{retry.WithHedgingByKey(), retry.WithPolicy(func(*policy.Policy) {})}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			op, launched := racing(after(time.Second, nil))
			e := executor(t, hedged(1, 1))
			timeline, err := e.DoWithTimeline(bg, key, op, c.options...)
			_ = e.Wait(bg)
			if err != nil || launched.Load() != c.want || len(timeline.Attempts) != int(c.want) {
				t.Errorf("%s: %v, %d launched, %d recorded, want %d", name, err, launched.Load(), len(timeline.Attempts), c.want)
			}
		})
	}
}

// TestR3APanicWithAnErrorUnwrapsToIt: errors.Is finds it in the recovered value.
func TestR3APanicWithAnErrorUnwrapsToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, value := range []any{errDown, "down"} {
			func() {
				defer func() {
					p, _ := recover().(error)
					if _, isError := value.(error); errors.Is(p, errDown) != isError {
						t.Errorf("recovered %v from a panic with %T", p, value)
					}
				}()
				_ = executor(t, hedged(1, 1)).Do(bg, key, func(context.Context) error { panic(value) })
			}()
		}
	})
}
