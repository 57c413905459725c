package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestD7OnlyTheExternalDelayCountsAgainstTheDeadline: the policy's own delay does not matter, and a stop because of a delay
// computed in code is marked as external, as a retry is.
func TestD7OnlyTheExternalDelayCountsAgainstTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		delay time.Duration
		want  decision.Verdict
	}{
		"fits":     {time.Second, decision.Verdict{Action: decision.Retry, Delay: time.Second, Reason: policy.ReasonRetry, External: true}},
		"too long": {time.Hour, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonOverallTimeout, External: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := exact(3)
			p.Retry.InitialBackoff, p.Retry.MaxBackoff, p.Retry.OverallTimeout = time.Minute, time.Minute, 10*time.Second
			op, _ := script(errDown)
			w := retry.Work{Key: key, ID: "w", NextDelay: func(int) time.Duration { return c.delay }}
			if got := executor(t, p).Once(bg, w, op).Verdict; got != c.want {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		})
	}
}

func TestR14OnceReturnsTheSameOutcomeObservedOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		allow int
		want  classify.Outcome
	}{
		"success": {nil, 1, decision.Succeeded()},
		"failure": {errDown, 1, classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}},
		"denied":  {nil, 0, classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonBudgetDenied}},
	} {
		for _, observer := range []observe.Observer{nil, &log{}} {
			e := withBudget(t, exact(3), &counting{allow: c.allow}, func(o *retry.ExecutorOptions) { o.Observer = observer })
			got := e.Once(bg, retry.Work{Key: key, ID: "w"}, func(context.Context) error { return c.err })
			if diff := cmp.Diff(c.want, got.Outcome); diff != "" || got.Denied != (c.allow == 0) {
				t.Errorf("%s, observed %v: %s", name, observer != nil, diff)
			}
		}
	}
}

func TestR6AnAttemptHasTheEffectiveMaximum(t *testing.T) {
	e := executor(t, exact(3))
	for limit, want := range map[int]int{0: 3, 7: 7} {
		e.Once(bg, retry.Work{Key: key, ID: "w", Attempts: 1, MaxAttempts: limit}, func(ctx context.Context) error {
			a, ok := retry.AttemptFromContext(ctx)
			if !ok || a.MaxAttempts != want || a.Number != 2 || a.CallID() != "w" {
				t.Errorf("maximum %d: %+v", limit, a)
			}
			return nil
		})
	}
	if a, ok := retry.AttemptFromContext(bg); ok || a.CallID() != "" {
		t.Error("an attempt outside of any operation")
	}
}
