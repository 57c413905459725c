package retry_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func fails(context.Context) (string, error) { return "partial", errDown }

func TestB4AFallbackStandsInForAFailedCall(t *testing.T) {
	var decided []*observe.Event
	watch := observe.Func(func(_ context.Context, e *observe.Event) {
		if e.Type == observe.Decided {
			decided = append(decided, e)
		}
	})
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2)), Observer: watch})
	value, timeline, err := retry.DoValueWithTimeline(bg, e, key, fails, retry.WithFallbackValue("cached"))
	if value != "cached" || err != nil {
		t.Errorf("%q, %v", value, err)
	}
	if timeline.Reason != policy.ReasonAttemptsExhausted || timeline.Attributes.Get(observe.AttrFallback) != "used" || !errors.Is(timeline.FinalError, errDown) {
		t.Errorf("the timeline hides the failure: %+v", timeline)
	}
	if len(decided) != 2 || decided[0].Decision.Outcome.Attributes[observe.AttrFallback] != "" ||
		decided[1].Decision.Outcome.Attributes[observe.AttrFallback] != "called" {
		t.Errorf("decisions %+v", decided)
	}
	if got := timeline.String(); !strings.Contains(got, "failed after 2 attempts") || !strings.Contains(got, "fallback: used") {
		t.Error(got)
	}
}

func TestB4AFallbackSeesTheFailureAndMayFail(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2))})
	worse := errors.New("no cache")
	var seen *retry.Error
	value, timeline, err := retry.DoValueWithTimeline(bg, e, key, fails, retry.WithFallbackFunc(func(ctx context.Context, failure error) (string, error) {
		if ctx != bg || !errors.As(failure, &seen) {
			t.Errorf("the fallback gets %v and %v", ctx, failure)
		}
		return "", worse
	}))
	if value != "partial" || !errors.Is(err, worse) || !errors.Is(err, errDown) || seen.Attempts != 2 || timeline.Attributes.Get(observe.AttrFallback) != "failed" {
		t.Errorf("%q, %v, %+v", value, err, timeline.Attributes)
	}
}

func TestB4AFallbackKeepsTheAttributesOfTheOutcome(t *testing.T) {
	given := map[string]string{"shard": "7"}
	refuse := classify.Func(func(any, error) classify.Outcome {
		return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: policy.ReasonBusiness, Attributes: given}
	})
	p := exact(2)
	p.Retry.ClassifierName = "refuse"
	l := &log{}
	e := executor(t, p, func(o *retry.ExecutorOptions) {
		o.Observer, o.Classifiers = l, map[string]classify.Classifier{"refuse": refuse}
	})
	if _, err := retry.DoValue(bg, e, key, fails, retry.WithFallbackValue("cached")); err != nil {
		t.Error(err)
	}
	want := map[string]string{"shard": "7", observe.AttrFallback: "called"}
	if diff := cmp.Diff(want, l.of(observe.Decided)[0].Decision.Outcome.Attributes); diff != "" || len(given) != 1 {
		t.Errorf("%s; the classifier's attributes are %v", diff, given)
	}
}

func TestB4AFallbackAfterARefusalOfTheJournalIsRecorded(t *testing.T) {
	called := ""
	watch := observe.Func(func(_ context.Context, e *observe.Event) {
		if e.Type == observe.Decided {
			called = e.Decision.Outcome.Attributes[observe.AttrFallback]
		}
	})
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2)), Observer: watch, Journal: full{}})
	value, timeline, err := retry.DoValueWithTimeline(bg, e, key, fails, retry.WithFallbackValue("cached"))
	if value != "cached" || err != nil || called != "called" || timeline.Reason != policy.ReasonAuditUnavailable {
		t.Errorf("%q, %v, the decision says %q: %+v", value, err, called, timeline)
	}
}

// full is a journal that refuses every decision.
type full struct{}

func (full) Append(context.Context, *observe.Event) error { return errors.New("no space") }

func TestB4AFallbackIsNotCalledAfterASuccess(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(2))})
	err := e.Do(bg, key, func(context.Context) error { return nil }, retry.WithFallback(func(context.Context, error) error {
		t.Error("called")
		return errDown
	}))
	if err != nil {
		t.Error(err)
	}
}

func TestB4AFallbackThatPanicsClosesTheRecord(t *testing.T) {
	ended := 0
	watch := observe.Func(func(_ context.Context, e *observe.Event) {
		if e.Type == observe.CallEnded {
			ended++
		}
	})
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: provide(t, exact(1)), Observer: watch})
	defer func() {
		if v := recover(); v != "boom" || ended != 1 {
			t.Errorf("panic %v, %d recorded ends", v, ended)
		}
	}()
	_ = e.Do(bg, key, func(context.Context) error { return errDown }, retry.WithFallback(func(context.Context, error) error { panic("boom") }))
}

func TestO3AFallbackOfAnotherTypePanics(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "string") || !strings.Contains(v, "int") {
			t.Errorf("panic %q", v)
		}
	}()
	_, _ = retry.DoValue(bg, retry.DefaultExecutor(), key, fails, retry.WithFallbackValue(3))
}

func TestO3TheFallbackOfACallThatReturnsAnInterfaceSaysItsName(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "retry.WithFallbackValue[io.Reader](…)") || !strings.Contains(v, "*strings.Reader") {
			t.Errorf("panic %q", v)
		}
	}()
	op := func(context.Context) (io.Reader, error) { return nil, errDown }
	_, _ = retry.DoValue(bg, retry.DefaultExecutor(), key, op, retry.WithFallbackValue(strings.NewReader("")))
}

func TestO3TheFallbackOfACallWithoutAResultHasNone(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "int") || !strings.HasSuffix(v, "use retry.WithFallback") {
			t.Errorf("panic %q", v)
		}
	}()
	_ = retry.DefaultExecutor().Do(bg, key, func(context.Context) error { return errDown }, retry.WithFallbackValue(3))
}

func TestR1NewRunsEveryKeyUnderOnePolicy(t *testing.T) {
	attempts := 0
	ctx, capture := observe.RecordTimeline(bg)
	err := retry.New(policy.Retry{MaxAttempts: 4, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond}).Do(ctx, key, func(context.Context) error {
		attempts++
		return errDown
	})
	if attempts != 4 || !errors.Is(err, errDown) {
		t.Errorf("%d attempts, %v", attempts, err)
	}
	if got := capture.String(); strings.Count(got, "\n") != 6 || !strings.Contains(got, "failed after 4 attempts") {
		t.Error(got)
	}
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "retry.jitter") {
			t.Errorf("panic %q", v)
		}
	}()
	retry.New(policy.Retry{Jitter: "wild"})
}
