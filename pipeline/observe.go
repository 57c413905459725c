package pipeline

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// AttrOutcome is the attribute of a transaction's timeline that holds its outcome.
const AttrOutcome = "outcome"

// span is a run or a transaction as observers see it: a piece of work without attempts of its own, whose steps are the work
// below it. It is zero where nobody watches.
type span struct {
	ctx     context.Context
	e       *engine
	work    observe.Work
	started time.Time
}

// begin tells the observer that a piece of work starts. Its steps belong under the span's context.
func (e *engine) begin(ctx context.Context, w observe.Work) (s span) {
	s = span{ctx: ctx}
	if e.observer == nil {
		return s
	}
	w.Surface = policy.SurfaceStep
	s.e, s.work, s.started = e, w, e.now()
	if e.starter == nil {
		return s
	}
	defer func() {
		if recover() != nil { // an observer cannot fail the work
			s.ctx = ctx
		}
	}()
	s.ctx = e.starter.Start(ctx, &observe.Event{Type: observe.CallStarted, Time: s.started, Seq: 1, Work: w})
	return s
}

// end tells the observer how it ended.
func (s span) end(outcome Outcome, err error) {
	if s.e == nil {
		return
	}
	t := &observe.Timeline{
		Key: s.work.Key, CallID: s.work.ID, Start: s.started, End: s.e.now(), FinalError: err, Reason: reasonOf(outcome, err),
	}
	if outcome != "" {
		t.Attributes = t.Attributes.With(AttrOutcome, string(outcome))
	}
	s.e.tell(s.ctx, &observe.Event{Type: observe.CallEnded, Time: t.End, Seq: 2, Work: s.work, Timeline: t})
}

func (e *engine) tell(ctx context.Context, event *observe.Event) {
	defer func() { _ = recover() }() // an observer cannot fail the work
	e.observer.Observe(ctx, event)
}

func (e *engine) now() time.Time {
	if e.options.executor.Clock != nil {
		return e.options.executor.Clock()
	}
	return time.Now()
}

// report tells observers and the log of something that is wrong with a transaction.
func (e *engine) report(t *Transaction, detail string) {
	e.log.Warn("pipeline: "+detail, "pipeline", e.name, "transaction", t.id)
	if e.observer == nil {
		return
	}
	e.tell(context.Background(), &observe.Event{
		Type: observe.Reported, Time: e.now(), Work: e.workOf(t),
		Report: &observe.Report{Reason: policy.ReasonShutdown, Detail: detail},
	})
}

// workOf identifies a transaction.
func (e *engine) workOf(t *Transaction) observe.Work {
	return observe.Work{
		ID: t.id, Key: e.keys.transaction, Surface: policy.SurfaceStep, TenantID: t.metadata[MetaTenant],
		CorrelationID: t.correlation, TraceID: traceOf(t),
	}
}

// traceOf is the trace ID in a transaction's traceparent (W3C Trace Context: version-trace-parent-flags), or "".
func traceOf(t *Transaction) string {
	const version, trace = 3, 32
	parent := t.metadata[MetaTraceParent]
	if len(parent) < version+trace {
		return ""
	}
	return parent[version : version+trace]
}
