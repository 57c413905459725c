package otel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// begun is a span of this package in a context. The trace API may find another one there: a denied attempt has the context of
// its call, and a call within an operation the context of the outer attempt.
type begun struct {
	span    trace.Span
	attempt bool
}

type begunKey struct{}

func spanOf(ctx context.Context) (begun, bool) {
	b, ok := ctx.Value(begunKey{}).(begun)
	return b, ok
}

// Start implements observe.Starter: it begins the span of a call or attempt and puts it into the context.
func (o *Observer) Start(ctx context.Context, e *observe.Event) context.Context {
	var name string
	var attributes []attribute.KeyValue
	switch e.Type {
	case observe.CallStarted:
		name, attributes = workName(&e.Work), workAttributes(e)
	case observe.AttemptStarted:
		name, attributes = spanAttempt+" "+e.Work.Key.String(), attemptAttributes(e)
	default:
		return ctx
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(e.Time), trace.WithAttributes(attributes...)}
	if e.Trace != nil {
		ctx, options = ownTrace(ctx, e.Trace, options)
	}
	ctx, span := o.tracer.Start(ctx, valid(name), options...)
	if s := span.SpanContext(); s.IsValid() {
		ctx = observe.WithSpan(ctx, observe.Span{TraceID: s.TraceID(), SpanID: s.SpanID(), Sampled: s.IsSampled()})
	}
	return context.WithValue(ctx, begunKey{}, begun{span: span, attempt: e.Type == observe.AttemptStarted})
}

// ownTrace links the new span to the one in the context, and continues the trace of the work's metadata or starts a new one.
func ownTrace(ctx context.Context, t *observe.Trace, options []trace.SpanStartOption) (context.Context, []trace.SpanStartOption) {
	if around := trace.SpanContextFromContext(ctx); around.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: around}))
	}
	carrier := propagation.MapCarrier{"traceparent": t.Parent, "tracestate": t.State}
	came := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if came.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, came), options
	}
	return ctx, append(options, trace.WithNewRoot())
}

// workName is the name of a piece of work's span.
func workName(w *observe.Work) string {
	kind, name, _ := strings.Cut(w.Key.Namespace, "/")
	if w.Surface == policy.SurfaceStep {
		if does := pipelineSpan(w.Key.Name, kind == "producer"); does != "" {
			return does + " " + name
		}
	}
	return string(w.Surface) + " " + w.Key.String()
}

func workAttributes(e *observe.Event) []attribute.KeyValue {
	list := []attribute.KeyValue{attrKey.String(valid(e.Work.Key.String())), attrSurface.String(string(e.Work.Surface))}
	if e.Work.Surface == policy.SurfaceStep {
		list = append(list, attrPipeline.String(valid(e.Work.Key.Namespace)), attrStep.String(valid(e.Work.Key.Name)))
	}
	list = addText(list, attrWorkID, e.Work.ID)
	list = addText(list, attrOperation, e.Work.Operation)
	list = addText(list, attrTenantID, e.Work.TenantID)
	list = addText(list, attrCorrelationID, e.Work.CorrelationID)
	if e.Policy != nil {
		list = addText(list, attrPolicyID, e.Policy.ID)
	}
	return list
}

func attemptAttributes(e *observe.Event) []attribute.KeyValue {
	a := e.Attempt
	return []attribute.KeyValue{
		attrKey.String(valid(e.Work.Key.String())),
		attrAttempt.Int(a.Attempt), attrRetryIndex.Int(a.RetryIndex), attrHedgeIndex.Int(a.HedgeIndex),
		attrBackoff.Float64(a.Backoff.Seconds()),
	}
}

// endAttempt ends the span of an attempt, or notes a denied one at its call.
func endAttempt(ctx context.Context, a *observe.AttemptRecord) {
	b, ok := spanOf(ctx)
	if !ok {
		return
	}
	if a.Denied {
		b.span.AddEvent(eventDenied, trace.WithTimestamp(a.End), trace.WithAttributes(append(resultOf(a),
			attrAttempt.Int(a.Attempt), attrRetryIndex.Int(a.RetryIndex), attrHedgeIndex.Int(a.HedgeIndex))...))
		return
	}
	if !b.attempt {
		return
	}
	b.span.SetAttributes(resultOf(a)...)
	if failed(a) {
		fail(b.span, a.Err, a.Outcome.Reason)
	}
	b.span.End(trace.WithTimestamp(a.End))
}

// failed is false for a losing hedge, which is not an error.
func failed(a *observe.AttemptRecord) bool {
	return a.Outcome.Kind != classify.Success && a.Outcome.Reason != policy.ReasonCanceledInternal
}

func resultOf(a *observe.AttemptRecord) []attribute.KeyValue {
	list := []attribute.KeyValue{attrOutcome.String(a.Outcome.Kind.String())}
	list = addText(list, attrReason, string(a.Outcome.Reason))
	list = addText(list, attrCategory, a.Outcome.Category.String())
	list = addText(list, attrClass, string(a.Outcome.Class))
	list = addText(list, attrBudgetReason, string(a.BudgetReason))
	list = addText(list, attrCircuit, a.Circuit)
	list = addText(list, attrLimitWait, a.Outcome.Attributes[observe.AttrLimitWait])
	return addText(list, attrDetail, a.Outcome.Attributes[observe.AttrDetail])
}

// endCall ends the span of a call. It does nothing if Start did not begin one: the context then carries no span of this package,
// or only that of an attempt.
func endCall(ctx context.Context, e *observe.Event) {
	b, ok := spanOf(ctx)
	if !ok || b.attempt {
		return
	}
	t := e.Timeline
	attributes := addText([]attribute.KeyValue{attrAttempts.Int(t.Ran())}, attrReason, string(t.Reason))
	for name, value := range t.Attributes.All() {
		attributes = append(attributes, attribute.String(valid(prefixTimeline+name), valid(value)))
	}
	b.span.SetAttributes(attributes...)
	if t.Failed() {
		fail(b.span, t.FinalError, t.Reason)
	}
	b.span.End(trace.WithTimestamp(t.End))
}

func fail(span trace.Span, err error, reason policy.Reason) {
	if err == nil {
		span.SetStatus(codes.Error, string(reason))
		return
	}
	span.SetStatus(codes.Error, valid(err.Error()))
}

func addCircuit(ctx context.Context, e *observe.Event) {
	if b, ok := spanOf(ctx); ok {
		b.span.AddEvent(eventCircuit, trace.WithTimestamp(e.Time), trace.WithAttributes(
			attrCircuitFrom.String(e.Circuit.From), attrCircuitTo.String(e.Circuit.To)))
	}
}

func addReport(ctx context.Context, e *observe.Event) {
	b, ok := spanOf(ctx)
	if !ok {
		return
	}
	attributes := addText(nil, attrReason, string(e.Report.Reason))
	attributes = addText(attributes, attrDetail, e.Report.Detail)
	if e.Report.Attempt > 0 {
		attributes = append(attributes, attrAttempt.Int(e.Report.Attempt))
	}
	b.span.AddEvent(eventReport, trace.WithTimestamp(e.Time), trace.WithAttributes(attributes...))
}

func addText(list []attribute.KeyValue, key attribute.Key, value string) []attribute.KeyValue {
	if value == "" {
		return list
	}
	return append(list, key.String(valid(value)))
}

// valid replaces invalid UTF-8: exporters refuse a whole batch of spans for one such text.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
