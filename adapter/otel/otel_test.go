package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenetdev/tenet/adapter/otel"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

var (
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	getUser = policy.Key{Namespace: "user-service", Name: "GetUser"}
)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func outcome(k classify.Kind, c classify.Category, r policy.Reason) classify.Outcome {
	return classify.Outcome{Kind: k, Category: c, Reason: r}
}

var (
	_ observe.Observer = (*otel.Observer)(nil)
	_ observe.Starter  = (*otel.Observer)(nil)
)

// fixture is an observer and the exporters that it feeds.
type fixture struct {
	*otel.Observer
	tracers *sdktrace.TracerProvider
	spans   *tracetest.SpanRecorder
	reader  *sdkmetric.ManualReader
}

func newFixture(t *testing.T, maxKeys int) *fixture {
	t.Helper()
	f := &fixture{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	f.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans))
	var err error
	f.Observer, err = otel.New(otel.Options{
		TracerProvider: f.tracers, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.reader)), MaxKeys: maxKeys,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// call drives the observer as an executor does for one call.
type call struct {
	o   *otel.Observer
	ctx context.Context
	key policy.Key
}

func (c *call) event(typ observe.EventType, ms int) *observe.Event {
	return &observe.Event{
		Type: typ, Time: at(ms), Policy: &policy.Policy{ID: "rev-17"},
		Work: observe.Work{
			ID: "0195", Key: c.key, Surface: policy.SurfaceCall, Operation: "get", TenantID: "acme", CorrelationID: "c-1",
			IdempotencyKey: "secret-key",
		},
	}
}

func begin(ctx context.Context, o *otel.Observer, key policy.Key) *call {
	c := &call{o: o, ctx: ctx, key: key}
	c.ctx = o.Start(ctx, c.event(observe.CallStarted, 0))
	return c
}

func (c *call) attempt(a observe.AttemptRecord) context.Context {
	e := c.event(observe.AttemptStarted, 0)
	e.Time, e.Attempt = a.Start, &observe.AttemptRecord{
		Attempt: a.Attempt, RetryIndex: a.RetryIndex, HedgeIndex: a.HedgeIndex, Start: a.Start, Backoff: a.Backoff,
	}
	return c.o.Start(c.ctx, e)
}

func (c *call) ended(ctx context.Context, a observe.AttemptRecord) {
	e := c.event(observe.AttemptEnded, 0)
	e.Time, e.Attempt = a.End, &a
	c.o.Observe(ctx, e)
}

func (c *call) end(t observe.Timeline) {
	e := c.event(observe.CallEnded, 0)
	t.Start = start
	if t.Reason == "" {
		t.Reason = policy.ReasonSuccess
	}
	e.Time, e.Timeline = t.End, &t
	c.o.Observe(c.ctx, e)
}

// story runs one call: its first attempt fails, a retry is hedged and wins, a second hedge is denied, and the loser ends last.
func story(ctx context.Context, f *fixture) {
	c := begin(ctx, f.Observer, getUser)
	first := observe.AttemptRecord{
		Attempt: 1, Start: at(0), End: at(10), Err: errors.New("503 unavailable"), BudgetReason: policy.ReasonNoBudget, Circuit: "closed",
		Outcome: outcome(classify.Retryable, classify.CategorySystem, policy.ReasonHTTPStatus),
	}
	first.Outcome.Class = "http_503"
	first.Outcome.Attributes = map[string]string{observe.AttrLimitWait: "30ms"}
	firstCtx := c.attempt(first)
	_, inner := f.tracers.Tracer("client").Start(firstCtx, "GET", trace.WithTimestamp(at(1)))
	inner.End(trace.WithTimestamp(at(9)))
	opened := c.event(observe.CircuitChanged, 10)
	opened.Circuit = &observe.CircuitChange{From: "closed", To: "open"}
	f.Observe(c.ctx, opened)
	moved := c.event(observe.LimitChanged, 10)
	moved.Limit = &observe.LimitChange{From: 20, To: 24}
	f.Observe(c.ctx, moved)
	c.ended(firstCtx, first)
	decided := c.event(observe.Decided, 10)
	decided.Decision = &observe.Decision{Verdict: decision.Verdict{Action: decision.Retry, Delay: 20 * time.Millisecond, Reason: policy.ReasonRetry}}
	decided.Decision.Shadow = &observe.ShadowDecision{Verdict: decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAttemptsExhausted}}
	f.Observe(c.ctx, decided)

	loser := observe.AttemptRecord{
		Attempt: 2, RetryIndex: 1, Start: at(30), End: at(95), Backoff: 20 * time.Millisecond, Err: context.Canceled,
		Outcome: outcome(classify.Abort, classify.CategorySystem, policy.ReasonCanceledInternal),
	}
	winner := observe.AttemptRecord{
		Attempt: 3, RetryIndex: 1, HedgeIndex: 1, Start: at(50), End: at(80), Backoff: 20 * time.Millisecond,
		Outcome: outcome(classify.Success, classify.CategoryNone, policy.ReasonSuccess),
	}
	denied := observe.AttemptRecord{
		Attempt: 4, RetryIndex: 1, HedgeIndex: 2, Start: at(70), End: at(70), Denied: true, BudgetReason: policy.ReasonBudgetDenied,
		Outcome: outcome(classify.Abort, classify.CategorySystem, policy.ReasonBudgetDenied),
	}
	denied.Outcome.Attributes = map[string]string{observe.AttrDetail: "0.4 tokens left"}
	loserCtx, winnerCtx := c.attempt(loser), c.attempt(winner)
	c.ended(c.ctx, denied)
	c.ended(winnerCtx, winner)
	done := c.event(observe.Decided, 80)
	done.Decision = &observe.Decision{Verdict: decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}}
	f.Observe(c.ctx, done)
	report := c.event(observe.Reported, 81)
	report.Report = &observe.Report{Reason: policy.ReasonHedgeOverrun, Detail: "still running", Attempt: 2}
	f.Observe(c.ctx, report)
	c.end(observe.Timeline{
		End: at(82), Attempts: []observe.AttemptRecord{first, loser, winner, denied},
		Attributes: observe.Attributes{}.With(observe.AttrPolicySource, "file"),
	})
	c.ended(loserCtx, loser)
}

func TestSpansNestByAttempt(t *testing.T) {
	f := newFixture(t, 0)
	ctx, root := f.tracers.Tracer("server").Start(t.Context(), "request")
	story(ctx, f)
	root.End()

	type row struct {
		Span, Parent string
		From, To     int64
		Status       codes.Code
		Text         string
	}
	names := map[trace.SpanID]string{}
	for _, s := range f.spans.Started() {
		names[s.SpanContext().SpanID()] = fmt.Sprint(s.Name(), value(s.Attributes(), "tenet.attempt"))
	}
	var got []row
	for _, s := range f.spans.Ended() {
		if s.Name() == "request" {
			continue
		}
		got = append(got, row{
			names[s.SpanContext().SpanID()], names[s.Parent().SpanID()],
			s.StartTime().Sub(start).Milliseconds(), s.EndTime().Sub(start).Milliseconds(), s.Status().Code, s.Status().Description,
		})
	}
	want := []row{
		{"GET", "attempt user-service.GetUser 1", 1, 9, codes.Unset, ""},
		{"attempt user-service.GetUser 1", "call user-service.GetUser", 0, 10, codes.Error, "503 unavailable"},
		{"attempt user-service.GetUser 3", "call user-service.GetUser", 50, 80, codes.Unset, ""},
		{"call user-service.GetUser", "request", 0, 82, codes.Unset, ""},
		{"attempt user-service.GetUser 2", "call user-service.GetUser", 30, 95, codes.Unset, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ended spans (-want +got):\n%s", diff)
	}
}

func TestSpanAttributes(t *testing.T) {
	f := newFixture(t, 0)
	story(t.Context(), f)
	want := map[string][]string{
		"call": {
			"tenet.attempts=3", "tenet.correlation.id=c-1", "tenet.key=user-service.GetUser", "tenet.operation=get",
			"tenet.policy.id=rev-17", "tenet.reason=success", "tenet.surface=call", "tenet.tenant.id=acme",
			"tenet.timeline.policy_source=file", "tenet.work.id=0195",
		},
		"attempt 1": {
			"tenet.attempt=1", "tenet.backoff=0", "tenet.budget.reason=no_budget", "tenet.category=system", "tenet.circuit=closed",
			"tenet.class=http_503", "tenet.hedge_index=0", "tenet.key=user-service.GetUser",
			"tenet.limit.wait=30ms", "tenet.outcome=retryable", "tenet.reason=http_status", "tenet.retry_index=0",
		},
		"attempt 2": {
			"tenet.attempt=2", "tenet.backoff=0.02", "tenet.category=system", "tenet.hedge_index=0", "tenet.key=user-service.GetUser",
			"tenet.outcome=abort", "tenet.reason=canceled_internal", "tenet.retry_index=1",
		},
		"attempt 3": {
			"tenet.attempt=3", "tenet.backoff=0.02", "tenet.hedge_index=1", "tenet.key=user-service.GetUser", "tenet.outcome=success",
			"tenet.reason=success", "tenet.retry_index=1",
		},
		"tenet.circuit": {"tenet.circuit.from=closed", "tenet.circuit.to=open"},
		"tenet.denied": {
			"tenet.attempt=4", "tenet.budget.reason=budget_denied", "tenet.category=system", "tenet.detail=0.4 tokens left",
			"tenet.hedge_index=2", "tenet.outcome=abort", "tenet.reason=budget_denied", "tenet.retry_index=1",
		},
		"tenet.report": {"tenet.attempt=2", "tenet.detail=still running", "tenet.reason=hedge_overrun"},
	}
	got := map[string][]string{}
	for _, s := range f.spans.Ended() {
		if s.Name() == "GET" {
			continue
		}
		kind, _, _ := strings.Cut(s.Name(), " ")
		got[kind+value(s.Attributes(), "tenet.attempt")] = texts(s.Attributes())
		for _, e := range s.Events() {
			got[e.Name] = texts(e.Attributes)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func texts(attributes []attribute.KeyValue) []string {
	var list []string
	for _, a := range attributes {
		list = append(list, fmt.Sprintf("%s=%v", a.Key, a.Value.AsInterface()))
	}
	slices.Sort(list)
	return list
}

func value(attributes []attribute.KeyValue, key attribute.Key) string {
	for _, a := range attributes {
		if a.Key == key {
			return fmt.Sprintf(" %v", a.Value.AsInterface())
		}
	}
	return ""
}

func TestFailedCallHasErrorStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		timeline observe.Timeline
		want     string
	}{
		"with an error": {observe.Timeline{FinalError: errors.New("caf\xe9 is closed"), Reason: policy.ReasonNonRetryable}, "caf� is closed"},
		"handed over":   {observe.Timeline{Reason: policy.ReasonAttemptsExhausted}, "attempts_exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0)
			tt.timeline.End = at(5)
			begin(t.Context(), f.Observer, getUser).end(tt.timeline)
			if got := f.spans.Ended()[0].Status(); got.Code != codes.Error || got.Description != tt.want {
				t.Errorf("status %v %q, want Error %q", got.Code, got.Description, tt.want)
			}
		})
	}
}

func TestFirstAttemptDeniedEndsTheCallOnce(t *testing.T) {
	f := newFixture(t, 0)
	c := begin(t.Context(), f.Observer, getUser)
	denied := observe.AttemptRecord{Attempt: 1, Denied: true, Outcome: outcome(classify.Abort, classify.CategorySystem, policy.ReasonCircuitOpen)}
	c.ended(c.ctx, denied)
	if n := len(f.spans.Ended()); n != 0 {
		t.Fatalf("%d spans ended by a denied attempt", n)
	}
	c.end(observe.Timeline{End: at(1), Reason: policy.ReasonCircuitOpen})
	if n := len(f.spans.Ended()); n != 1 {
		t.Errorf("%d spans ended, want the call's", n)
	}
}

func TestR6CallInsideAnAttemptHasItsOwnSpans(t *testing.T) {
	f := newFixture(t, 0)
	outer := begin(t.Context(), f.Observer, getUser)
	a := observe.AttemptRecord{Attempt: 1, End: at(1), Outcome: outcome(classify.Success, classify.CategoryNone, policy.ReasonSuccess)}
	attemptCtx := outer.attempt(a)
	inner := begin(attemptCtx, f.Observer, policy.Key{Name: "inner"})
	inner.ended(inner.ctx, observe.AttemptRecord{Attempt: 1, Denied: true})
	inner.end(observe.Timeline{End: at(1)})
	ended := f.spans.Ended()
	if len(ended) != 1 || ended[0].Name() != "call inner" {
		t.Fatalf("the inner call ended %v", ended)
	}
	if ended[0].Parent().SpanID() != trace.SpanContextFromContext(attemptCtx).SpanID() {
		t.Error("the inner call is not a child of the outer attempt")
	}
}

func TestEventsWithoutASpanAreCountedOnly(t *testing.T) {
	f := newFixture(t, 0)
	ctx, span := f.tracers.Tracer("server").Start(t.Context(), "request")
	c := &call{o: f.Observer, ctx: ctx, key: getUser}
	c.ended(ctx, observe.AttemptRecord{Attempt: 1})
	report := c.event(observe.Reported, 0)
	report.Report = &observe.Report{Reason: policy.ReasonKeyEvicted}
	f.Observe(ctx, report)
	changed := c.event(observe.CircuitChanged, 0)
	changed.Circuit = &observe.CircuitChange{From: "open", To: "ajar"}
	f.Observe(ctx, changed)
	c.end(observe.Timeline{End: at(1)})
	if got := f.Start(ctx, c.event(observe.CallEnded, 0)); got != ctx {
		t.Error("an event that begins no work changed the context")
	}
	if !span.IsRecording() || len(f.spans.Ended()) != 0 {
		t.Error("a foreign span was ended")
	}
	if got := samples(t, f); !slices.Contains(got, `tenet.calls{tenet.key="user-service.GetUser",tenet.reason="success",tenet.surface="call"} 1`) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestCallEndedUnderAnAttemptLeavesItAlone(t *testing.T) {
	f := newFixture(t, 0)
	c := begin(t.Context(), f.Observer, getUser)
	c.ctx = c.attempt(observe.AttemptRecord{Attempt: 1})
	c.end(observe.Timeline{End: at(1)})
	if n := len(f.spans.Ended()); n != 0 {
		t.Errorf("%d spans ended", n)
	}
}

func TestAttemptEndedUnderTheCallLeavesItAlone(t *testing.T) {
	f := newFixture(t, 0)
	c := begin(t.Context(), f.Observer, getUser)
	c.ended(c.ctx, observe.AttemptRecord{Attempt: 1})
	if n := len(f.spans.Ended()); n != 0 {
		t.Errorf("%d spans ended", n)
	}
}

func TestGlobalProvidersAreTheDefault(t *testing.T) {
	tracers, meters := api.GetTracerProvider(), api.GetMeterProvider()
	t.Cleanup(func() { api.SetTracerProvider(tracers); api.SetMeterProvider(meters) })
	f := newFixture(t, 0)
	f.reader = sdkmetric.NewManualReader()
	api.SetTracerProvider(f.tracers)
	api.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.reader)))
	var err error
	if f.Observer, err = otel.New(otel.Options{}); err != nil {
		t.Fatal(err)
	}
	story(t.Context(), f)
	if len(f.spans.Ended()) != 5 || len(samples(t, f)) != 14 {
		t.Errorf("%d spans and %d series at the global providers, want 5 and 14", len(f.spans.Ended()), len(samples(t, f)))
	}
}

func TestI3AReplayedResultIsNotAnErrorOfItsSpan(t *testing.T) {
	f := newFixture(t, 0)
	begin(t.Context(), f.Observer, getUser).end(observe.Timeline{End: at(1), Reason: policy.ReasonIdempotencyHit})
	if ended := f.spans.Ended(); len(ended) != 1 || ended[0].Status().Code != codes.Unset {
		t.Errorf("spans %v", ended)
	}
}
