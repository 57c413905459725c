package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// inside runs check as an operation under a policy with the given timeout.
func inside(t *testing.T, ctx context.Context, timeout time.Duration, check func(ctx context.Context)) {
	t.Helper()
	p := exact(1)
	p.Retry.TimeoutPerAttempt = timeout
	_ = executor(t, p).Do(ctx, key, func(ctx context.Context) error { check(ctx); return nil })
}

func TestR9AttemptContextEndsWhenTheCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early, late context.Context
		inside(t, bg, 0, func(ctx context.Context) { early = ctx; _ = ctx.Done() })
		inside(t, bg, 0, func(ctx context.Context) { late = ctx })
		for _, ctx := range []context.Context{early, late} {
			<-ctx.Done()
			if ctx.Err() != context.Canceled {
				t.Errorf("Err is %v", ctx.Err())
			}
		}
	})
}

func TestAttemptContextKeepsTheContractOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		parent, cancel := context.WithCancelCause(context.WithValue(bg, valueKey{}, "v"))
		gone := errors.New("gone")
		inside(t, parent, time.Minute, func(ctx context.Context) {
			if ctx.Value(valueKey{}) != "v" || ctx.Err() != nil {
				t.Errorf("value %v, err %v", ctx.Value(valueKey{}), ctx.Err())
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Minute {
				t.Errorf("deadline in %v", time.Until(at))
			}
			child, stop := context.WithCancel(ctx)
			defer stop()
			called := make(chan struct{})
			context.AfterFunc(ctx, func() { close(called) })
			stopped := context.AfterFunc(ctx, func() { t.Error("a stopped function ran") })
			if !stopped() || stopped() {
				t.Error("stop must be true once")
			}
			cancel(gone)
			<-child.Done()
			<-called
			if child.Err() != context.Canceled || !errors.Is(context.Cause(child), gone) || ctx.Err() != context.Canceled {
				t.Errorf("child %v, cause %v, own %v", child.Err(), context.Cause(child), ctx.Err())
			}
			context.AfterFunc(ctx, func() {}) // after the end, the function runs at once
		})
	})
}

func TestAttemptTimeoutReachesChildrenAsDeadlineExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, bg, time.Second, func(ctx context.Context) {
			child, stop := context.WithCancel(ctx)
			defer stop()
			<-child.Done()
			if child.Err() != context.DeadlineExceeded {
				t.Errorf("child ended with %v", child.Err())
			}
		})
		inside(t, bg, time.Second, func(ctx context.Context) { // without a call of Done
			time.Sleep(time.Second)
			if ctx.Err() != context.DeadlineExceeded {
				t.Errorf("Err is %v after the deadline", ctx.Err())
			}
		})
	})
}

func TestParentsEarlierDeadlineIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		inside(t, parent, time.Minute, func(ctx context.Context) {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
				t.Errorf("deadline in %v", time.Until(at))
			}
		})
	})
}

func TestR9DetachedContextOutlivesTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept context.Context
		var release func()
		parent, cancel := context.WithCancel(bg)
		defer cancel()
		inside(t, parent, time.Second, func(ctx context.Context) {
			_ = ctx.Done()
			release = retry.Detach(ctx)
			kept = ctx
		})
		time.Sleep(time.Minute) // longer than the attempt's timeout
		if kept.Err() != nil {
			t.Fatalf("ended with %v", kept.Err())
		}
		release()
		<-kept.Done()
		retry.Detach(bg)() // has no effect outside an attempt

		inside(t, parent, 0, func(ctx context.Context) { retry.Detach(ctx); kept = ctx })
		cancel()
		<-kept.Done()
	})
}

func TestR9DetachedLoserEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, hedged(1, 1))
		ended := make(chan struct{})
		op, _ := racing(func(ctx context.Context) error {
			defer retry.Detach(ctx)()
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}, after(0, nil))
		if err := e.Do(bg, key, op); err != nil {
			t.Fatal(err)
		}
		<-ended
		_ = e.Wait(bg)
	})
}

func TestOnceRunsOneAttemptAndReturnsTheNextStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, exact(3))
		work := retry.Work{Key: key, ID: "job-1"}
		for attempt, want := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 0} {
			work.Attempts = attempt
			start := time.Now()
			op, calls := script(errDown)
			r := e.Once(bg, work, op)
			if *calls != 1 || r.Verdict.Delay != want || time.Since(start) != 0 || r.Denied || !errors.Is(r.Err, errDown) {
				t.Errorf("after %d attempts: %+v, %d calls", attempt, r, *calls)
			}
		}
		work.Attempts, work.MaxAttempts = 0, 1
		op, _ := script(errDown)
		if r := e.Once(bg, work, op); r.Verdict.Reason != policy.ReasonAttemptsExhausted {
			t.Errorf("an effective maximum of 1: %+v", r.Verdict)
		}
		op, _ = script(nil)
		if r := e.Once(bg, work, op); r.Err != nil || r.Verdict.Reason != policy.ReasonSuccess {
			t.Errorf("success: %+v", r)
		}
	})
}

func TestJ17OverallTimeoutCountsFromTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(3)
		p.Retry.OverallTimeout = time.Minute
		op, calls := script(errDown)
		r := executor(t, p).Once(bg, retry.Work{Key: key, ID: "j", Age: time.Hour}, op)
		if *calls != 0 || r.Verdict.Reason != policy.ReasonOverallTimeout || r.Denied {
			t.Errorf("%d calls, %+v", *calls, r)
		}
	})
}

func TestJ16RefusedAttemptUsesUpNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, tripping(1))
		_ = e.Do(bg, key, func(context.Context) error { return errDown })
		op, calls := script(nil)
		r := e.Once(bg, retry.Work{Key: key, ID: "j", Attempts: 1, MaxAttempts: 5}, op)
		if *calls != 0 || !r.Denied || r.Wait != time.Minute || r.Verdict.Reason != policy.ReasonCircuitOpen {
			t.Errorf("%d calls, %+v", *calls, r)
		}
	})
}

// TestJ16ARefusedAttemptWaitsUntilItsBudgetHasRefilled: the backoff alone would be too short.
func TestJ16ARefusedAttemptWaitsUntilItsBudgetHasRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := budget.New(policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: 1, RefillPerSecond: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		e := withBudget(t, exact(3), b)
		op, calls := script(nil)
		for i, want := range []time.Duration{0, 100 * time.Second} {
			r := e.Once(bg, retry.Work{Key: key, ID: "j"}, op)
			if *calls != 1 || r.Denied != (i == 1) || r.Wait.Round(time.Millisecond) != want {
				t.Errorf("%d: %d calls, %+v; want a wait of %s", i, *calls, r, want)
			}
		}
	})
}

func TestCallIDsAreUUIDv7(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		timeline, _ := executor(t, exact(1)).DoWithTimeline(bg, key, func(context.Context) error { return nil })
		id, err := uuid.Parse(timeline.CallID)
		if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 || seen[timeline.CallID] {
			t.Fatalf("%q: %v, version %d, variant %v", timeline.CallID, err, id.Version(), id.Variant())
		}
		seconds, _ := id.Time().UnixTime()
		if age := time.Since(time.Unix(seconds, 0)); age < -time.Second || age > time.Minute {
			t.Fatalf("%q is %v old", timeline.CallID, age)
		}
		seen[timeline.CallID] = true
	}
}

func TestAttemptContextSeesItsParentsEndWithoutDone(t *testing.T) {
	parent, cancel := context.WithCancel(bg)
	inside(t, parent, 0, func(ctx context.Context) {
		cancel()
		if ctx.Err() != context.Canceled {
			t.Errorf("Err is %v", ctx.Err())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		inside(t, parent, 0, func(ctx context.Context) {
			time.Sleep(2 * time.Second)
			if ctx.Err() != context.DeadlineExceeded {
				t.Errorf("Err is %v", ctx.Err())
			}
		})
	})
}

func TestAttemptContextThatHasEndedCallsAtOnce(t *testing.T) {
	var kept context.Context
	inside(t, bg, 0, func(ctx context.Context) { kept = ctx })
	called := make(chan struct{})
	stop := kept.(interface { // as package context does
		AfterFunc(f func()) (stop func() bool)
	}).AfterFunc(func() { close(called) })
	<-called
	if stop() {
		t.Error("stop reported true after the function was called")
	}
}
