package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

// These calls have nothing beside them: no observer, timeout, budget, breaker or option.

func TestR5AttemptsAndTheirTimelineHaveOneCallID(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(3))})
	var seen []string
	inner := ""
	timeline, err := e.DoWithTimeline(bg, key, func(ctx context.Context) error {
		a, _ := retry.AttemptFromContext(ctx)
		seen = append(seen, a.CallID())
		_ = e.Do(ctx, key, func(ctx context.Context) error {
			a, _ := retry.AttemptFromContext(ctx)
			inner = a.CallID()
			return nil
		})
		if len(seen) < 3 {
			return errDown
		}
		return nil
	})
	if err != nil || len(seen) != 3 || len(timeline.Attempts) != 3 || timeline.Reason != policy.ReasonSuccess {
		t.Fatalf("%v, attempts under %v, timeline %+v", err, seen, timeline)
	}
	for i, id := range seen {
		if id != timeline.CallID || timeline.Attempts[i].Attempt != i+1 {
			t.Errorf("attempt %d ran under the ID %q, the timeline has %q", i+1, id, timeline.CallID)
		}
	}
	if inner == timeline.CallID || inner == "" {
		t.Errorf("the nested call has the ID %q", inner)
	}
}

func TestR14TimelinesOfSuccessDoNotDependOnThePath(t *testing.T) {
	succeed := func(context.Context) error { return nil }
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(3))})
	light, err1 := e.DoWithTimeline(bg, key, succeed)
	full, err2 := e.DoWithTimeline(bg, key, succeed, retry.WithOperation("x"))
	if err1 != nil || err2 != nil || len(light.Attempts) != 1 || len(full.Attempts) != 1 || light.CallID == full.CallID {
		t.Fatalf("%v, %v: %+v, %+v", err1, err2, light, full)
	}
	if !light.End.Equal(light.Attempts[0].End) || !light.Start.Equal(light.Attempts[0].Start) {
		t.Errorf("from %s to %s, the attempt from %s to %s", light.Start, light.End, light.Attempts[0].Start, light.Attempts[0].End)
	}
	for _, t := range []*observe.Timeline{&light, &full} { // what differs from call to call
		t.CallID, t.Start, t.End, t.Attempts[0].Start, t.Attempts[0].End = "", time.Time{}, time.Time{}, time.Time{}, time.Time{}
	}
	if diff := cmp.Diff(full, light, cmp.Comparer(func(a, b observe.Attributes) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
		t.Error(diff)
	}
}

func TestR3ContextsEndWithTheirAttempt(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2))})
	for name, op := range map[string]retry.Operation{
		"success": func(context.Context) error { return nil },
		"failure": func(context.Context) error { return errDown },
		"panic":   func(context.Context) error { panic("boom") },
	} {
		var kept []context.Context
		func() {
			defer func() { _ = recover() }()
			_ = e.Do(bg, key, func(ctx context.Context) error {
				kept = append(kept, ctx)
				return op(ctx)
			})
		}()
		for _, ctx := range kept {
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("%s: the context of an attempt that has ended: %v", name, ctx.Err())
			}
		}
	}
}
