package observe_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// story has every kind of event of one failed unit of work, and a success.
func story() []*observe.Event {
	work := observe.Work{
		ID: "0195", Key: getUser, Surface: policy.SurfaceCall, Operation: "get", TenantID: "acme", CorrelationID: "c-1",
		TraceID: "t-1", IdempotencyKey: "secret-key",
	}
	p := &policy.Policy{ID: "rev-17"}
	event := func(typ observe.EventType, d time.Duration) *observe.Event {
		return &observe.Event{Type: typ, Time: at(d), Work: work, Policy: p}
	}
	failed, succeeded := exhausted(), hedged()

	first := event(observe.AttemptEnded, 2*time.Millisecond)
	first.Attempt = &succeeded.Attempts[0]
	first.Attempt.Outcome.Category, first.Attempt.Outcome.Class = classify.CategoryTimeout, policy.ClassTimeout
	denied := event(observe.AttemptEnded, 3*time.Millisecond)
	denied.Attempt = &failed.Attempts[1]
	retry := event(observe.Decided, 4*time.Millisecond)
	retry.Decision = &observe.Decision{
		Attempt: 1, Elapsed: 4 * time.Millisecond, Err: errors.New("refused"),
		Verdict: decision.Verdict{Action: decision.Retry, Delay: 7 * time.Millisecond, Reason: policy.ReasonRetry},
	}
	stop := event(observe.Decided, 5*time.Millisecond)
	stop.Decision = &observe.Decision{
		Attempt: 2, Elapsed: 5 * time.Millisecond, Verdict: decision.Verdict{Action: decision.Stop, Reason: policy.ReasonBudgetDenied},
	}
	trial := event(observe.Decided, 5*time.Millisecond)
	trial.Decision = &observe.Decision{
		Attempt: 2, Elapsed: 5 * time.Millisecond, Verdict: decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAttemptsExhausted},
		Shadow: &observe.ShadowDecision{Revision: "8d1c", Verdict: decision.Verdict{Action: decision.Retry, Delay: 9 * time.Millisecond, Reason: policy.ReasonRetry}},
	}
	lost := event(observe.CallEnded, 6*time.Millisecond)
	lost.Timeline = &failed
	won := event(observe.CallEnded, 7*time.Millisecond)
	won.Timeline = &succeeded
	opened := event(observe.CircuitChanged, 8*time.Millisecond)
	opened.Circuit = &observe.CircuitChange{From: "closed", To: "open"}
	report := event(observe.Reported, 9*time.Millisecond)
	report.Report = &observe.Report{
		Reason: policy.ReasonPanicInOperation, Detail: "late loser", Attempt: 2, Panic: errors.New("boom"), Stack: []byte("goroutine 7"),
	}
	begun := event(observe.CallStarted, 0)
	return []*observe.Event{begun, first, denied, retry, stop, trial, lost, won, opened, report}
}

func TestSlogLines(t *testing.T) {
	var out bytes.Buffer
	o := observe.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, e := range story() {
		o.Observe(t.Context(), e)
	}
	golden(t, "slog.txt", out.String())
	if strings.Contains(out.String(), "secret-key") {
		t.Error("an idempotency key was logged")
	}
}

func TestSlogLevels(t *testing.T) {
	for level, want := range map[slog.Level][]string{
		slog.LevelInfo: {"the policy under trial decides differently", "work failed", "work succeeded", "circuit changed", "report"},
		slog.LevelWarn: {"work failed", "circuit changed", "report"},
	} {
		var out bytes.Buffer
		o := observe.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
		for _, e := range story() {
			o.Observe(t.Context(), e)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(want) {
			t.Fatalf("%v: %d lines, want %d:\n%s", level, len(lines), len(want), out.String())
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("%v: line %d is %q, want %q", level, i, lines[i], want[i])
			}
		}
	}
}

func TestSlogNilLoggerIsTheCurrentDefault(t *testing.T) {
	o := observe.Slog(nil)
	var out bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	story := story()
	o.Observe(t.Context(), story[len(story)-1])
	if !strings.Contains(out.String(), "panic_in_operation") {
		t.Errorf("got %q", out.String())
	}
}

func TestSlogDisabledLevelAllocatesNothing(t *testing.T) {
	o := observe.Slog(slog.New(slog.NewTextHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: slog.LevelError})))
	events, ctx := story(), context.Background()
	if n := testing.AllocsPerRun(100, func() {
		for _, e := range events {
			o.Observe(ctx, e)
		}
	}); n != 0 {
		t.Errorf("%v allocations for disabled levels, want 0", n)
	}
}

func TestI3AReplayedResultIsLoggedAsASuccess(t *testing.T) {
	replayed := observe.Timeline{Key: getUser, Start: start, End: at(time.Millisecond), Reason: policy.ReasonIdempotencyHit}
	if got, want := replayed.String(), "user-service.GetUser succeeded after 0 attempts in 1ms: idempotency_hit\n"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	var out bytes.Buffer
	o := observe.Slog(slog.New(slog.NewTextHandler(&out, nil)))
	o.Observe(t.Context(), &observe.Event{Type: observe.CallEnded, Timeline: &replayed})
	if got := out.String(); !strings.Contains(got, `level=INFO msg="work succeeded"`) || !strings.Contains(got, "reason=idempotency_hit") {
		t.Error(got)
	}
}

func TestL12LinesOfStepsNameTheirTransaction(t *testing.T) {
	var out bytes.Buffer
	o := observe.Slog(slog.New(slog.NewTextHandler(&out, nil)))
	span := observe.Span{TraceID: [16]byte{0x4b, 15: 0x36}, SpanID: [8]byte{7: 1}}
	for _, step := range []string{observe.StepProcess, observe.StepFetch} {
		o.Observe(observe.WithSpan(t.Context(), span), &observe.Event{
			Type: observe.CallEnded, Timeline: &observe.Timeline{Reason: policy.ReasonSuccess},
			Work: observe.Work{ID: "7", Key: policy.ConsumerKey("orders", step), Surface: policy.SurfaceStep},
		})
	}
	got := out.String()
	for _, want := range []string{
		"step=process transaction=7 trace_id=4b000000000000000000000000000036 span_id=0000000000000001\n", "step=fetch work_id=7 trace_id=",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
