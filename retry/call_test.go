package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestP5MaxAttemptsIsTheStrictBound(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			op, calls := script(errDown)
			err := executor(t, exact(n)).Do(bg, key, op)
			if e := failure(t, err, policy.ReasonAttemptsExhausted); e.Attempts != n || *calls != n {
				t.Errorf("max_attempts %d: %d calls, error says %d", n, *calls, e.Attempts)
			}
		})
	}
}

func TestR1StopsAtTheFirstSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, calls := script(errDown, errDown, nil, errDown)
		start := time.Now()
		if err := executor(t, exact(5)).Do(bg, key, op); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); *calls != 3 || took != 30*time.Millisecond {
			t.Errorf("%d calls in %v, want 3 in 10ms + 20ms", *calls, took)
		}
	})
}

func TestD1DelaysWithoutJitterAreExact(t *testing.T) {
	e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(8))})
	op, _ := script(errDown)
	_ = e.Do(bg, key, op)
	var want []time.Duration
	for _, ms := range []int{10, 20, 40, 80, 160, 320, 640} {
		want = append(want, time.Duration(ms)*time.Millisecond)
	}
	if diff := cmp.Diff(want, waits.All()); diff != "" {
		t.Error(diff)
	}
}

func TestD3SeedComesFromTheCallID(t *testing.T) {
	p := exact(4)
	p.Retry.Jitter = policy.JitterFull
	run := func(options ...retry.CallOption) []time.Duration {
		e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, p)})
		op, _ := script(errDown)
		_ = e.Do(bg, key, op, options...)
		return waits.All()
	}
	normal, _ := p.Normalize(policy.CallLimits())
	var want []time.Duration
	for i := range 3 {
		want = append(want, decision.Delay(&normal.Retry, decision.Seed("call-1"), i))
	}
	if diff := cmp.Diff(want, run(retry.WithCallID("call-1"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(run(retry.WithSeed(decision.Seed("call-1"))), want); diff != "" {
		t.Error("an explicit seed:", diff)
	}
	if cmp.Equal(run(), run()) {
		t.Error("two calls without an ID drew the same delays")
	}
}

func TestR1ContextDoneBeforeTheFirstAttemptRunsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	op, calls := script(nil)
	err := executor(t, exact(3)).Do(ctx, key, op)
	e := failure(t, err, policy.ReasonCanceled)
	if *calls != 0 || e.Attempts != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, %v", *calls, err)
	}
}

func TestR1CancellingAWaitReturnsPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(3)
		p.Retry.InitialBackoff, p.Retry.MaxBackoff = 30*time.Second, 30*time.Second
		gone := errors.New("client went away")
		ctx, cancel := context.WithCancelCause(bg)
		start := time.Now()
		time.AfterFunc(time.Second, func() { cancel(gone) })
		op, calls := script(errDown)
		err := executor(t, p).Do(ctx, key, op)
		failure(t, err, policy.ReasonCanceled)
		if took := time.Since(start); took != time.Second || *calls != 1 {
			t.Errorf("returned after %v and %d calls", took, *calls)
		}
		for _, want := range []error{context.Canceled, gone, errDown} {
			if !errors.Is(err, want) {
				t.Errorf("errors.Is(%v, %v) is false", err, want)
			}
		}
	})
}

func TestR1OverallTimeoutBoundsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(10)
		p.Retry.OverallTimeout = 100 * time.Millisecond
		start := time.Now()
		op, calls := script(errDown)
		err := executor(t, p).Do(bg, key, op)
		failure(t, err, policy.ReasonOverallTimeout)
		// 10 + 20 + 40 ms fit; the next 80 ms would pass the end, so the call does not wait for them.
		if took := time.Since(start); took != 70*time.Millisecond || *calls != 4 {
			t.Errorf("stopped after %v and %d calls, want 70ms and 4", took, *calls)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) {
			t.Errorf("%v does not show the deadline and the last error", err)
		}
	})
}

func TestR1OverallTimeoutEndsTheRunningAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(10)
		p.Retry.OverallTimeout = time.Second
		start := time.Now()
		err := executor(t, p).Do(bg, key, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		failure(t, err, policy.ReasonOverallTimeout)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestR1TheTimeoutThatStrikesFirstIsReported: the attempt's own timeout, the overall timeout and the caller's deadline have
// different reasons, and only the first counts as a timeout of the attempt.
func TestR1TheTimeoutThatStrikesFirstIsReported(t *testing.T) {
	for want, c := range map[policy.Reason]struct{ attempt, overall, caller time.Duration }{
		policy.ReasonAttemptsExhausted: {time.Second, 2 * time.Second, 3 * time.Second},
		policy.ReasonOverallTimeout:    {2 * time.Second, time.Second, 3 * time.Second},
		policy.ReasonDeadlineExceeded:  {3 * time.Second, 2 * time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := exact(1)
			p.Retry.TimeoutPerAttempt, p.Retry.OverallTimeout = c.attempt, c.overall
			ctx, cancel := context.WithTimeout(bg, c.caller)
			defer cancel()
			l := &log{}
			start := time.Now()
			e := executor(t, p, func(o *retry.ExecutorOptions) { o.Observer = l })
			failure(t, e.Do(ctx, key, func(ctx context.Context) error { <-ctx.Done(); return errDown }), want)
			if took := time.Since(start); took != time.Second {
				t.Errorf("%s: ended after %v", want, took)
			}
			facts := l.of(observe.AttemptEnded)[0].Attempt.Facts
			if timedOut := want == policy.ReasonAttemptsExhausted; facts.TimedOut != timedOut || (facts.Ended == "") != timedOut {
				t.Errorf("%s: %+v", want, facts)
			}
		})
	}
}

func TestD4KnownDeadlineIsNotSleptPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(5)
		p.Retry.InitialBackoff, p.Retry.MaxBackoff = 10*time.Second, 10*time.Second
		ctx, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		start := time.Now()
		op, _ := script(errDown)
		err := executor(t, p).Do(ctx, key, op)
		failure(t, err, policy.ReasonDeadlineExceeded)
		if took := time.Since(start); took != 0 {
			t.Errorf("slept %v before a deadline that could not be met", took)
		}
		if !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestC2AttemptTimeoutIsRetriedWhileTheCallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(2)
		p.Retry.TimeoutPerAttempt = time.Second
		start := time.Now()
		timeline, err := executor(t, p).DoWithTimeline(bg, key, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		failure(t, err, policy.ReasonAttemptsExhausted)
		if took := time.Since(start); took != 2*time.Second+10*time.Millisecond {
			t.Errorf("took %v", took)
		}
		for _, a := range timeline.Attempts {
			if a.Outcome.Category != classify.CategoryTimeout || a.Outcome.Reason != policy.ReasonAttemptTimeout {
				t.Errorf("attempt %d: %+v", a.Attempt, a.Outcome)
			}
		}
	})
}

func TestC2CallersContextDoneAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(bg)
		calls := 0
		err := executor(t, exact(5)).Do(ctx, key, func(context.Context) error {
			calls++
			cancel()
			return errDown
		})
		failure(t, err, policy.ReasonCanceled)
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestC2CallersContextDoneAbortsARefusedResult: a failure may be a result without an error.
func TestC2CallersContextDoneAbortsARefusedResult(t *testing.T) {
	p := exact(3)
	p.Retry.ClassifierName = "never"
	p.Retry.Budget.Name = "b"
	b := &counting{allow: 9}
	e := withBudget(t, p, b, func(o *retry.ExecutorOptions) {
		o.Classifiers = map[string]classify.Classifier{"never": classify.Func(func(any, error) classify.Outcome {
			return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}
		})}
	})
	ctx, cancel := context.WithCancel(bg)
	timeline, err := e.DoWithTimeline(ctx, key, func(context.Context) error { cancel(); return nil })
	failure(t, err, policy.ReasonCanceled)
	if o := timeline.Attempts[0].Outcome; o.Kind != classify.Abort || len(b.asked) != 1 {
		t.Errorf("outcome %+v; the budget got %d requests", o, len(b.asked))
	}
	b.check(t)
}

func TestC3MarksDecideThroughWrapping(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		reason policy.Reason
		calls  int
	}{
		"permanent":     {fmt.Errorf("wrapped: %w", classify.Permanent(errDown)), policy.ReasonNonRetryable, 1},
		"unrecoverable": {classify.Unrecoverable(errDown), policy.ReasonNonRetryable, 1},
		"business":      {errors.Join(classify.Business(errDown)), policy.ReasonNonRetryable, 1},
		"after":         {classify.After(errDown, 50*time.Millisecond), policy.ReasonAttemptsExhausted, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, calls := script(c.err)
				start := time.Now()
				err := executor(t, exact(3)).Do(bg, key, op)
				failure(t, err, c.reason)
				if *calls != c.calls || !errors.Is(err, errDown) {
					t.Errorf("%d calls, %v", *calls, err)
				}
				if took := time.Since(start); name == "after" && took != 100*time.Millisecond {
					t.Errorf("waited %v, want twice the pushback of 50ms", took)
				}
			})
		})
	}
}

func TestD5PushbackTooLongStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, calls := script(classify.After(errDown, time.Hour))
		err := executor(t, exact(3)).Do(bg, key, op)
		failure(t, err, policy.ReasonPushbackTooLong)
		if *calls != 1 {
			t.Errorf("%d calls", *calls)
		}
	})
}

func TestR4ErrorCarriesTheCall(t *testing.T) {
	p := exact(2)
	p.Category = policy.APIRequest
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, p)})
	op, _ := script(errDown)
	err := e.Do(bg, key, op, retry.WithOperation("load user 7"))
	got := failure(t, err, policy.ReasonAttemptsExhausted)
	want := &retry.Error{
		Key: key, Category: "RETRY_API_REQUEST", Operation: "load user 7", PolicyID: "rev-1", Attempts: 2,
		Reason: policy.ReasonAttemptsExhausted, Last: errDown,
		Outcome: classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError},
	}
	if diff := cmp.Diff(*want, *got, cmpopts.EquateErrors()); diff != "" {
		t.Error(diff)
	}
	if text := err.Error(); text != "tenet: user-service.GetUser: load user 7: attempts_exhausted after 2 attempts: down" {
		t.Errorf("text %q", text)
	}
}

func TestR6AttemptFromContext(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(3))})
	var seen []retry.Attempt
	ids := map[string]bool{}
	_ = e.Do(bg, key, func(ctx context.Context) error {
		a, ok := retry.AttemptFromContext(ctx)
		if !ok {
			t.Fatal("no attempt in the context")
		}
		seen = append(seen, a)
		ids[a.CallID()] = true
		return errDown
	}, retry.WithIdempotencyKey("k"), retry.WithTenant("t"), retry.WithCorrelation("c"), retry.WithTrace("tr"))
	for i, a := range seen {
		if a.Number != i+1 || a.RetryIndex != i || a.Key != key || a.MaxAttempts != 3 || a.IdempotencyKey != "k" ||
			a.TenantID != "t" || a.CorrelationID != "c" || a.TraceID != "tr" || a.PolicyID != "rev-1" {
			t.Errorf("attempt %d is %+v", i, a)
		}
	}
	if len(seen) != 3 || len(ids) != 1 {
		t.Errorf("%d attempts, %d call IDs", len(seen), len(ids))
	}
	if _, ok := retry.AttemptFromContext(bg); ok {
		t.Error("an attempt outside a call")
	}
}

func TestR6RecordedTimelineDoesNotLeakIntoNestedCalls(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(3))})
	ctx, capture := observe.RecordTimeline(bg)
	inner := policy.ParseKey("inner.Call")
	err := e.Do(ctx, key, func(ctx context.Context) error {
		return e.Do(ctx, inner, func(context.Context) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	timeline, ok := capture.Timeline()
	if !ok || timeline.Key != key || len(timeline.Attempts) != 1 {
		t.Errorf("captured %v, %v", timeline.Key, ok)
	}
}

func TestDoValueReturnsTheValue(t *testing.T) {
	v, err := retry.DoValue(bg, executor(t, exact(3)), key, func(context.Context) (string, error) { return "ada", nil })
	if v != "ada" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	v, timeline, err := retry.DoValueWithTimeline(bg, executor(t, exact(1)), key, func(context.Context) (string, error) { return "partial", errDown })
	if v != "partial" || err == nil || len(timeline.Attempts) != 1 {
		t.Errorf("%q, %v, %d attempts", v, err, len(timeline.Attempts))
	}
}

func TestDoValueKeepsTheLastValueWhenTheNextAttemptIsRefused(t *testing.T) {
	for _, hedge := range []bool{false, true} {
		for _, launch := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := exact(3)
				p.Hedge.Enabled = hedge
				e := withBudget(t, p, &counting{allow: 1, launch: launch})
				v, err := retry.DoValue(bg, e, key, func(context.Context) (string, error) { return "partial", errDown })
				if failure(t, err, policy.ReasonBudgetDenied); v != "partial" {
					t.Errorf("hedged %v, asked at launch %v: value %q", hedge, launch, v)
				}
			})
		}
	}
}

func TestP12PerCallPolicyWinsFieldByField(t *testing.T) {
	e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(5))})
	op, calls := script(errDown)
	edit := retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 2 })
	timeline, err := e.DoWithTimeline(bg, key, op, edit)
	failure(t, err, policy.ReasonAttemptsExhausted)
	if *calls != 2 || waits.Total() != 10*time.Millisecond {
		t.Errorf("%d calls, waited %v: the other fields must stay", *calls, waits.Total())
	}
	if source := timeline.Attributes.Get(observe.AttrPolicySource); source != "option" {
		t.Errorf("policy_source %q", source)
	}
	*calls = 0
	_ = e.Do(bg, key, op)
	if *calls != 5 {
		t.Errorf("the next call made %d attempts: a call's own policy leaked", *calls)
	}
}

func TestP7APerCallPolicyIsClampedAndReported(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{})
	op, calls := script(errDown)
	timeline, _ := e.DoWithTimeline(bg, key, op, retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 5000 }))
	if *calls != 10 {
		t.Errorf("%d calls, want the limit of 10", *calls)
	}
	if fields := timeline.Attributes.Get(observe.AttrPolicyClampedFields); !strings.Contains(fields, "retry.max_attempts") {
		t.Errorf("clamped fields %q", fields)
	}
	if timeline.Attributes.Get(observe.AttrPolicyNormalized) != "true" {
		t.Error("policy_normalized is not set")
	}
}

func TestP11CategorySuppliesTheDefaults(t *testing.T) {
	e, waits := tenettest.NewExecutor(retry.ExecutorOptions{})
	op, calls := script(errDown)
	err := e.Do(bg, key, op, retry.WithCategory(policy.NATSConnect), retry.WithSeed(1))
	if got := failure(t, err, policy.ReasonAttemptsExhausted); got.Category != "RETRY_NATS_CONNECT" || *calls != 5 {
		t.Errorf("category %q, %d calls", got.Category, *calls)
	}
	if first := waits.All()[0]; first < 900*time.Millisecond || first > 1100*time.Millisecond {
		t.Errorf("first wait %v, want 1s ±10 %%", first)
	}
}
