package pipeline

import (
	"context"
	"errors"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// AttrOutcome is the attribute of a transaction's timeline that holds its outcome.
const AttrOutcome = "outcome"

// span is a run or a transaction as observers see it: a piece of work without attempts of its own, with steps as its
// children. It is zero without an observer.
type span struct {
	ctx     context.Context
	e       *engine
	work    observe.Work
	started time.Time
}

// begin notifies the observer of the start of a piece of work, with the work's own trace if it has one. The work's steps use
// the span's context.
func (e *engine) begin(ctx context.Context, w observe.Work, trace *observe.Trace) span {
	if e.observer == nil {
		return span{ctx: ctx}
	}
	w.Surface = policy.SurfaceStep
	s := span{ctx: ctx, e: e, work: w, started: e.now()}
	if e.starter == nil {
		return s
	}
	s.ctx = e.startOf(ctx, &observe.Event{Type: observe.CallStarted, Time: s.started, Seq: 1, Work: w, Trace: trace})
	outer, _ := observe.SpanOf(ctx)
	if own, ok := observe.SpanOf(s.ctx); ok && own != outer {
		s.work.TraceID = own.Trace() // records then carry the same trace ID as the spans
	}
	return s
}

// startOf returns the context that the observer derived from ctx.
func (e *engine) startOf(ctx context.Context, event *observe.Event) (started context.Context) {
	started = ctx
	defer func() {
		if recover() != nil { // an observer cannot fail the work
			started = ctx
		}
	}()
	if derived := e.starter.Start(ctx, event); derived != nil {
		started = derived
	}
	return started
}

// end notifies the observer of the work's outcome.
func (s *span) end(outcome Outcome, err error) {
	if s.e == nil {
		return
	}
	t := &observe.Timeline{
		Key: s.work.Key, CallID: s.work.ID, Start: s.started, End: s.e.now(), FinalError: err, Reason: reasonOf(outcome, err),
	}
	if outcome != "" {
		t.Attributes = t.Attributes.With(AttrOutcome, string(outcome))
	}
	s.e.notify(s.ctx, &observe.Event{Type: observe.CallEnded, Time: t.End, Seq: 2, Work: s.work, Timeline: t})
}

func (e *engine) notify(ctx context.Context, event *observe.Event) {
	defer func() { _ = recover() }() // an observer cannot fail the work
	e.observer.Observe(ctx, event)
}

func (e *engine) now() time.Time {
	if e.options.executor.Clock != nil {
		return e.options.executor.Clock()
	}
	return time.Now()
}

// placeOf returns the kind of a source or sink: the name of its type's package, or "".
func placeOf(end any) string {
	if isNil(end) {
		return ""
	}
	t := reflect.TypeOf(end)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path.Base("/" + t.PkgPath())
}

// flow notifies the observer of transactions that were fetched, started or ended.
func (r *run) flow(f observe.Flow) {
	if r.observer == nil {
		return
	}
	heap := f // a copy, so that f is allocated only with an observer
	r.notify(r.span.ctx, &observe.Event{Type: observe.Flowed, Time: r.now(), Work: r.span.work, Flow: &heap})
}

// report notifies the observer and the log of a problem with a transaction. The context has the transaction's span.
func (e *engine) report(ctx context.Context, t *Transaction, detail string) {
	e.log.Warn("pipeline: "+detail, e.about(ctx, t)...)
	if e.observer == nil {
		return
	}
	e.notify(ctx, &observe.Event{
		Type: observe.Reported, Time: e.now(), Work: e.workOf(t),
		Report: &observe.Report{Reason: policy.ReasonShutdown, Detail: detail},
	})
}

// about returns the log attributes of a transaction, followed by more.
func (e *engine) about(ctx context.Context, t *Transaction, more ...any) []any {
	list := []any{"pipeline", e.name, observe.LogTransaction, t.id}
	if span, ok := observe.SpanOf(ctx); ok && e.starter != nil {
		list = append(list, observe.LogTraceID, span.Trace(), observe.LogSpanID, span.ID())
	} else if trace := traceOf(t); trace != "" {
		list = append(list, observe.LogTraceID, trace)
	}
	return append(list, more...)
}

// workOf returns the work that identifies a transaction.
func (e *engine) workOf(t *Transaction) observe.Work {
	return observe.Work{
		ID: t.id, Key: e.steps.keys.transaction, Surface: policy.SurfaceStep, Operation: e.steps.operation[stepTransaction],
		Category: e.policies.loop().category, TenantID: t.metadata[MetaTenant], CorrelationID: t.correlation, TraceID: traceOf(t),
	}
}

// traceOf returns the trace ID in a transaction's traceparent (W3C Trace Context: version-trace-parent-flags), or "" if the
// traceparent is not valid.
func traceOf(t *Transaction) string {
	const begin, end, least = 3, 3 + 32, 55
	parent := t.metadata[MetaTraceParent]
	if len(parent) < least || parent[begin-1] != '-' || parent[end] != '-' {
		return ""
	}
	trace := parent[begin:end]
	if strings.Trim(trace, "0") == "" || strings.Trim(trace, "0123456789abcdef") != "" {
		return ""
	}
	return trace
}

// reasonOf returns the reason recorded for the end of a transaction or a run.
func reasonOf(outcome Outcome, err error) policy.Reason {
	failed, ok := errors.AsType[*retry.Error](err)
	refused, unclaimed := errors.AsType[*idempotency.RefusedError](err)
	switch {
	case err == nil:
		return policy.ReasonSuccess
	case outcome == Redelivered && errors.Is(err, ErrShutdown):
		return policy.ReasonShutdown
	case ok:
		return failed.Reason
	case unclaimed:
		return refused.Reason
	case loopTimeout(err) && outcome == Redelivered:
		return policy.ReasonShutdown
	case loopTimeout(err):
		return policy.ReasonOverallTimeout
	case errors.Is(err, context.DeadlineExceeded):
		return policy.ReasonDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return policy.ReasonCanceled
	}
	return policy.ReasonAborted
}

func loopTimeout(err error) bool {
	_, consumers := errors.AsType[*ConsumerLoopTimeoutError](err)
	_, producers := errors.AsType[*ProducerLoopTimeoutError](err)
	return consumers || producers
}
