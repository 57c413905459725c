package otel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenetdev/tenet/internal/testobserve"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// engines runs pipelines in the span of their caller.
func engines(t *testing.T, f *fixture, process func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, caller := f.tracers.Tracer("main").Start(t.Context(), "main")
		defer caller.End()
		testobserve.Pipelines(ctx, t, f, process)
	})
}

func TestL12PipelinesBecomeMetrics(t *testing.T) {
	f := newFixture(t, 0)
	engines(t, f, func() {
		if got := samples(t, f); !slices.Contains(got, `tenet.pipeline.in_flight{tenet.pipeline="consumer/orders"} 1`) {
			t.Errorf("nothing is in flight:\n%s", strings.Join(got, "\n"))
		}
	})
	got := slices.DeleteFunc(samples(t, f), func(s string) bool { return !strings.HasPrefix(s, "tenet.pipeline.") })
	want := []string{
		`tenet.pipeline.backoff{tenet.pipeline="consumer/orders",tenet.step="process"} 3 in 3s`,
		`tenet.pipeline.deliveries{tenet.outcome="exception",tenet.pipeline="consumer/orders"} 3`,
		`tenet.pipeline.deliveries{tenet.outcome="success",tenet.pipeline="consumer/orders"} 1`,
		`tenet.pipeline.deliveries{tenet.outcome="success",tenet.pipeline="producer/orders"} 4`,
		`tenet.pipeline.empty_wait{tenet.pipeline="consumer/orders"} 3 in 60s`,
		`tenet.pipeline.fetch.size{tenet.pipeline="consumer/orders"} 4 of 4`,
		`tenet.pipeline.fetch.size{tenet.pipeline="producer/orders"} 4 of 4`,
		`tenet.pipeline.in_flight{tenet.pipeline="consumer/orders"} 0`,
		`tenet.pipeline.in_flight{tenet.pipeline="producer/orders"} 0`,
		`tenet.pipeline.processed{tenet.pipeline="consumer/orders"} 2`,
		`tenet.pipeline.processed{tenet.pipeline="producer/orders"} 4`,
		`tenet.pipeline.retries{tenet.pipeline="consumer/orders",tenet.step="process"} 3`,
		`tenet.pipeline.run.duration{tenet.pipeline="consumer/orders"} 1 in 60s`,
		`tenet.pipeline.run.duration{tenet.pipeline="producer/orders"} 1 in 0s`,
		`tenet.pipeline.step.duration{tenet.pipeline="consumer/orders",tenet.step="exception"} 3 in 0s`,
		`tenet.pipeline.step.duration{tenet.pipeline="consumer/orders",tenet.step="fetch"} 4 in 0s`,
		`tenet.pipeline.step.duration{tenet.pipeline="consumer/orders",tenet.step="process"} 4 in 7s`,
		`tenet.pipeline.step.duration{tenet.pipeline="consumer/orders",tenet.step="success"} 2 in 10s`,
		`tenet.pipeline.step.duration{tenet.pipeline="consumer/orders",tenet.step="transaction"} 4 in 17s`,
		`tenet.pipeline.step.duration{tenet.pipeline="producer/orders",tenet.step="produce"} 4 in 0s`,
		`tenet.pipeline.step.duration{tenet.pipeline="producer/orders",tenet.step="transaction"} 4 in 0s`,
		`tenet.pipeline.timeouts{tenet.pipeline="consumer/orders",tenet.step="process"} 2`,
		`tenet.pipeline.timeouts{tenet.pipeline="consumer/orders",tenet.step="run"} 1`,
		`tenet.pipeline.timeouts{tenet.pipeline="consumer/orders",tenet.step="transaction"} 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// tree lists the spans below one, with their IDs and the attempts' numbers.
func tree(spans []sdktrace.ReadOnlySpan, parent trace.SpanID, indent string) (lines []string) {
	for _, s := range spans {
		if s.Parent().SpanID() != parent {
			continue
		}
		lines = append(lines, indent+s.Name()+value(s.Attributes(), "tenet.work.id")+value(s.Attributes(), "tenet.attempt"))
		lines = append(lines, tree(spans, s.SpanContext().SpanID(), indent+"  ")...)
	}
	return lines
}

func TestL12SpansOfPipelines(t *testing.T) {
	f := newFixture(t, 0)
	engines(t, f, func() {})
	started := f.spans.Started()
	spans := make([]sdktrace.ReadOnlySpan, len(started))
	for i, s := range started {
		spans[i] = s
	}
	if len(f.spans.Ended()) != len(spans) {
		t.Errorf("%d of %d spans ended", len(f.spans.Ended()), len(spans))
	}

	caller, runs, roots := spans[0], map[string]sdktrace.ReadOnlySpan{}, map[string]sdktrace.ReadOnlySpan{}
	var got []string
	for _, s := range spans {
		kind, name, _ := strings.Cut(s.Name(), " ")
		switch kind {
		case "consume", "produce":
			runs[kind] = s
		case "transaction":
			run := "consume"
			if value(s.Attributes(), "tenet.pipeline") == " producer/"+name {
				run = "produce"
			}
			id := strings.TrimSpace(value(s.Attributes(), "tenet.work.id"))
			roots[run+" "+id] = s
			got = append(got, fmt.Sprintf("%s: %s %s %s", run, kind, id, value(s.Attributes(), "tenet.timeline.outcome")))
			got = append(got, tree(spans, s.SpanContext().SpanID(), "  ")...)
		}
	}
	want := []string{
		"consume: transaction a  success",
		"  process orders a",
		"    attempt consumer/orders.process 1",
		"    attempt consumer/orders.process 2",
		"  handle_success orders a",
		"    attempt consumer/orders.success 1",
		"consume: transaction b  exception",
		"  process orders b",
		"    attempt consumer/orders.process 1",
		"    attempt consumer/orders.process 2",
		"  handle_exception orders b",
		"    attempt consumer/orders.exception 1",
		"consume: transaction c  exception",
		"  process orders c",
		"    attempt consumer/orders.process 1",
		"    attempt consumer/orders.process 2",
		"  handle_exception orders c",
		"    attempt consumer/orders.exception 1",
		"consume: transaction d  exception",
		"  process orders d",
		"    attempt consumer/orders.process 1",
		"  handle_success orders d",
		"    attempt consumer/orders.success 1",
		"  handle_exception orders d",
		"    attempt consumer/orders.exception 1",
		"produce: transaction a  success",
		"  dispatch orders a",
		"    attempt producer/orders.produce 1",
		"produce: transaction b  success",
		"  dispatch orders b",
		"    attempt producer/orders.produce 1",
		"produce: transaction c  success",
		"  dispatch orders c",
		"    attempt producer/orders.produce 1",
		"produce: transaction d  success",
		"  dispatch orders d",
		"    attempt producer/orders.produce 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans of transactions (-want +got):\n%s", diff)
	}
	wantRun := []string{"fetch orders orders#1", "  attempt consumer/orders.fetch 1"}
	if got := tree(spans, runs["consume"].SpanContext().SpanID(), ""); len(got) != 8 || !slices.Equal(got[:2], wantRun) {
		t.Errorf("spans of the run %q, want four fetches: %q", got, wantRun)
	}

	traces := map[trace.TraceID]string{caller.SpanContext().TraceID(): "main"}
	for name, root := range roots {
		run, id, _ := strings.Cut(name, " ")
		if links := root.Links(); len(links) != 1 || !links[0].SpanContext.Equal(runs[run].SpanContext()) {
			t.Errorf("%s links to %v, want to its run alone", name, links)
		}
		if runs[run].Parent().SpanID() != caller.SpanContext().SpanID() {
			t.Errorf("the %s span is not its caller's", run)
		}
		own := root.SpanContext().TraceID()
		if id == "a" {
			if own.String() != testobserve.ParentTrace || root.Parent().SpanID().String() != testobserve.ParentSpan || !root.Parent().IsRemote() ||
				root.SpanContext().TraceState().String() != "vendor=1" {
				t.Errorf("%s is in trace %s below %s, want it to continue the trace of its metadata", name, own, root.Parent().SpanID())
			}
			continue
		}
		if other, taken := traces[own]; taken || root.Parent().IsValid() {
			t.Errorf("%s shares the trace of %q or has a parent", name, other)
		}
		traces[own] = name
	}
}

// TestL12AnInvalidTraceparentBeginsATrace checks that invalid metadata of other programs cannot break spans.
func TestL12AnInvalidTraceparentBeginsATrace(t *testing.T) {
	for _, parent := range []string{"", "x", "00-" + testobserve.ParentTrace, "00-" + strings.Repeat("0", 32) + "-" + testobserve.ParentSpan + "-01"} {
		f := newFixture(t, 0)
		ctx, run := f.tracers.Tracer("main").Start(t.Context(), "run")
		e := &observe.Event{Type: observe.CallStarted, Time: start, Trace: &observe.Trace{Parent: parent, State: "\xff"}, Work: observe.Work{
			ID: "a", Key: policy.ConsumerKey("orders", observe.StepTransaction), Surface: policy.SurfaceStep,
		}}
		began := trace.SpanContextFromContext(f.Start(ctx, e))
		if !began.IsValid() || began.TraceID() == run.SpanContext().TraceID() || began.TraceID().String() == testobserve.ParentTrace {
			t.Errorf("%q: trace %s", parent, began.TraceID())
		}
	}
}

// TestL12LogLinesNameTheSpan checks log lines of pipelines and of calls.
func TestL12LogLinesNameTheSpan(t *testing.T) {
	f := newFixture(t, 0)
	c := begin(t.Context(), f.Observer, getUser)
	attempt := c.attempt(observe.AttemptRecord{Attempt: 1})
	for _, ctx := range []context.Context{c.ctx, attempt} {
		span, ok := observe.SpanOf(ctx)
		if want := trace.SpanContextFromContext(ctx); !ok || span.Trace() != want.TraceID().String() || span.ID() != want.SpanID().String() {
			t.Errorf("%s %s %v, want %v", span.Trace(), span.ID(), ok, want)
		}
	}
}

func TestCustomStepsAreNamedByTheirKeys(t *testing.T) {
	f := newFixture(t, 0)
	key := policy.ConsumerKey("orders", "polish")
	f.Start(t.Context(), &observe.Event{Type: observe.CallStarted, Work: observe.Work{Key: key, Surface: policy.SurfaceStep}})
	if got := f.spans.Started()[0].Name(); got != "step consumer/orders.polish" {
		t.Error(got)
	}
}
