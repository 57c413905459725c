package observe_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func TestL12TheInnermostSpanIsUsed(t *testing.T) {
	if _, ok := observe.SpanOf(t.Context()); ok {
		t.Error("a span in an empty context")
	}
	outer := observe.Span{TraceID: [16]byte{0x4b, 15: 0x36}, SpanID: [8]byte{7: 1}}
	ctx := observe.WithSpan(t.Context(), outer)
	ctx = observe.WithSpan(ctx, observe.Span{TraceID: outer.TraceID, SpanID: [8]byte{0xf0, 7: 2}})
	span, ok := observe.SpanOf(context.WithoutCancel(ctx))
	if !ok || span.Trace() != "4b000000000000000000000000000036" || span.ID() != "f000000000000002" {
		t.Error(span.Trace(), span.ID(), ok)
	}
}

func TestP2PipelineLabelsAreClosedSets(t *testing.T) {
	for _, step := range []string{"fetch", "process", "produce", "success", "exception", "transaction", "run"} {
		if got := observe.StepLabel(step); got != step {
			t.Errorf("%s is %s", step, got)
		}
	}
	for _, outcome := range []string{"success", "exception", "failed", "redelivered"} {
		if got := observe.FlowLabel(outcome); got != outcome {
			t.Errorf("%s is %s", outcome, got)
		}
	}
	if step, outcome := observe.StepLabel("order-7"), observe.FlowLabel("order-7"); step != "other" || outcome != "other" {
		t.Error(step, outcome)
	}
}

func TestL12TimedOut(t *testing.T) {
	ended := func(step string, reason policy.Reason) *observe.Event {
		return &observe.Event{
			Type: observe.CallEnded, Work: observe.Work{Key: policy.ConsumerKey("orders", step)}, Timeline: &observe.Timeline{Reason: reason},
		}
	}
	attempt := func(reason policy.Reason) *observe.Event {
		return &observe.Event{Type: observe.AttemptEnded, Attempt: &observe.AttemptRecord{Outcome: outcome(classify.Retryable, reason)}}
	}
	for name, tt := range map[string]struct {
		event *observe.Event
		want  bool
	}{
		"attempt":                          {attempt(policy.ReasonAttemptTimeout), true},
		"attempt that failed":              {attempt(policy.ReasonError), false},
		"attempt cut off by its timeout":   {attempt(policy.ReasonDeadlineExceeded), false},
		"step":                             {ended("process", policy.ReasonOverallTimeout), true},
		"step cut off by a timeout":        {ended("process", policy.ReasonDeadlineExceeded), false},
		"transaction":                      {ended("transaction", policy.ReasonDeadlineExceeded), true},
		"transaction whose step timed out": {ended("transaction", policy.ReasonOverallTimeout), false},
		"loop":                             {ended("run", policy.ReasonOverallTimeout), true},
		"run that exceeded its caller's deadline": {ended("run", policy.ReasonDeadlineExceeded), false},
		"flow": {&observe.Event{Type: observe.Flowed, Flow: &observe.Flow{}}, false},
	} {
		if got := observe.TimedOut(tt.event); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestL12FlowsAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	o := observe.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	o.Observe(t.Context(), &observe.Event{Type: observe.Flowed, Flow: &observe.Flow{InFlight: 1}})
	if strings.TrimSpace(out.String()) != "" {
		t.Error(out.String())
	}
}
