package retry_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

// These calls are plain: without observer, timeout, budget, breaker or option.

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
	for _, t := range []*observe.Timeline{&light, &full} { // the fields that differ between calls
		t.CallID, t.Start, t.End, t.Attempts[0].Start, t.Attempts[0].End = "", time.Time{}, time.Time{}, time.Time{}, time.Time{}
	}
	if diff := cmp.Diff(full, light, cmp.Comparer(func(a, b observe.Attributes) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
		t.Error(diff)
	}
}

func TestR3ContextsEndWithTheirAttempt(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2))})
	for name, op := range map[string]retry.Operation{
		"success":                func(context.Context) error { return nil },
		"failure":                func(context.Context) error { return errDown },
		"panic":                  func(context.Context) error { panic("boom") },
		"panic of its judgement": func(context.Context) error { return explosive{} },
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

// explosive is an error that panics when errors.As inspects it.
type explosive struct{}

func (explosive) Error() string { return "explosive" }
func (explosive) As(any) bool   { panic("boom") }

func TestR6CallsMadeByHooksAreSeparateCalls(t *testing.T) {
	other, id := retry.NewExecutor(retry.ExecutorOptions{}), ""
	wait := func(ctx context.Context, _ time.Duration) error {
		return other.Do(ctx, key, func(ctx context.Context) error {
			a, _ := retry.AttemptFromContext(ctx)
			id = a.CallID()
			return nil
		})
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2)), Wait: wait})
	timeline, err := e.DoWithTimeline(bg, key, func(context.Context) error { return errDown })
	if err == nil || id == "" || id == timeline.CallID {
		t.Errorf("%v: a call made while %s waits has the ID %q", err, timeline.CallID, id)
	}
}

func TestR14RecordedCallsInsideOthersNeedNoGoroutineForTheirContext(t *testing.T) {
	e := retry.NewExecutor(retry.ExecutorOptions{})
	err := e.Do(bg, key, func(ctx context.Context) error {
		_, err := e.DoWithTimeline(ctx, key, func(ctx context.Context) error {
			before := runtime.NumGoroutine()
			_, cancel := context.WithCancel(ctx)
			defer cancel()
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%d goroutines, before %d", after, before)
			}
			return nil
		})
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestR5CallIDsAreUUIDsOnAnyClock(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, at := range []time.Time{{}, time.Unix(-5, -3), time.Unix(0, 0), time.Unix(1<<40, 5)} {
		e := retry.NewExecutor(retry.ExecutorOptions{Clock: func() time.Time { return at }})
		timeline, err := e.DoWithTimeline(bg, key, func(context.Context) error { return nil })
		if err != nil || !form.MatchString(timeline.CallID) {
			t.Errorf("%s: %q, %v", at, timeline.CallID, err)
		}
	}
}

func TestR5KeptCallIDsDoNotKeepTheCallersContext(t *testing.T) {
	var ids []string // IDs of attempts, events and errors, as a log or an index may keep them
	watching := observe.Func(func(_ context.Context, e *observe.Event) { ids = append(ids, e.Work.ID) })
	for name, options := range map[string]retry.ExecutorOptions{"timeline": {}, "observer": {Observer: watching}} {
		e := retry.NewExecutor(options)
		value := &struct{ big [1 << 10]byte }{}
		freed := weak.Make(value)
		_, err := e.DoWithTimeline(context.WithValue(bg, valueKey{}, value), key, func(ctx context.Context) error {
			a, _ := retry.AttemptFromContext(ctx)
			ids = append(ids, a.CallID())
			return nil
		})
		runtime.GC()
		if err != nil || freed.Value() != nil {
			t.Errorf("%s: %v; the context's value is kept", name, err)
		}
	}
	if len(ids) != 5 {
		t.Errorf("IDs %q", ids)
	}
}

type valueKey struct{}
