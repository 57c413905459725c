package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// Names of the attributes of log lines. A line has those that apply to it; empty ones are left out.
const (
	LogKey           = "key"
	LogSurface       = "surface"
	LogWorkID        = "work_id"
	LogOperation     = "operation"
	LogTenantID      = "tenant_id"
	LogCorrelationID = "correlation_id"
	LogTraceID       = "trace_id"
	LogSpanID        = "span_id"
	LogStep          = "step"        // of a pipeline
	LogTransaction   = "transaction" // the transaction's ID, in place of work_id
	LogPolicyID      = "policy_id"
	LogReason        = "reason"
	LogDetail        = "detail"
	LogError         = "error"
	LogDuration      = "duration"
	LogAttempts      = "attempts"
	LogAttempt       = "attempt"
	LogRetryIndex    = "retry_index"
	LogHedgeIndex    = "hedge_index"
	LogOutcome       = "outcome"
	LogCategory      = "category"
	LogClass         = "class"
	LogBackoff       = "backoff"
	LogBudget        = "budget_reason"
	LogCircuit       = "circuit"
	LogLimitWait     = "limit_wait"
	LogAction        = "action"
	LogDelay         = "delay"
	// Of the policy under trial, where it decides differently.
	LogShadowAction   = "shadow_action"
	LogShadowReason   = "shadow_reason"
	LogShadowDelay    = "shadow_delay"
	LogShadowRevision = "shadow_revision"

	LogElapsed = "elapsed"
	LogFrom    = "from"
	LogTo      = "to"
	LogPanic   = "panic"
	LogStack   = "stack"
)

// Slog returns an Observer that writes log lines: the final outcome of every piece of work at Info, or at Warn where it
// failed; attempts, decisions and changes of adaptive limits at Debug, but decisions from which a policy under trial differs at
// Info; changes of breakers and reports at Warn. A nil logger is slog.Default() at the time of the event.
//
// Lines carry the time of the event and the names above. Durations are slog durations and errors are text. Payloads,
// results and idempotency keys are never written; the texts of errors are, as the operation made them. An event whose
// level is disabled costs no allocation.
//
// If a [Starter] before it has started a span ([SpanOf]), the attributes trace_id and span_id are those of that span.
func Slog(logger *slog.Logger) Observer { return logObserver{logger} }

type logObserver struct{ logger *slog.Logger }

// Observe writes the event's line.
func (o logObserver) Observe(ctx context.Context, e *Event) {
	level, told := logLevel(e)
	if !told {
		return
	}
	logger := cmp.Or(o.logger, slog.Default())
	handler := logger.Handler()
	if !handler.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(e.Time, level, logMessage(e), 0)
	line.AddAttrs(slog.String(LogKey, e.Work.Key.String()))
	addText(&line, LogSurface, string(e.Work.Surface))
	switch e.Type {
	case AttemptEnded:
		addAttempt(&line, e.Attempt)
	case Decided:
		addDecision(&line, e.Decision)
	case CallEnded:
		addTimeline(&line, e.Timeline)
	case LimitChanged:
		line.AddAttrs(slog.Int(LogFrom, e.Limit.From), slog.Int(LogTo, e.Limit.To))
	case CircuitChanged:
		line.AddAttrs(slog.String(LogFrom, e.Circuit.From), slog.String(LogTo, e.Circuit.To))
	case Reported:
		addReport(&line, e.Report)
	}
	addWork(ctx, &line, e)
	_ = handler.Handle(ctx, line) // ignored: an observer cannot fail the work
}

func logLevel(e *Event) (level slog.Level, told bool) {
	switch e.Type {
	case AttemptEnded, Decided, LimitChanged:
		if e.Decision != nil && e.Decision.Shadow != nil {
			return slog.LevelInfo, true
		}
		return slog.LevelDebug, true
	case CallEnded:
		if e.Timeline.Failed() {
			return slog.LevelWarn, true
		}
		return slog.LevelInfo, true
	case CircuitChanged, Reported:
		return slog.LevelWarn, true
	}
	return 0, false
}

func logMessage(e *Event) string {
	switch e.Type {
	case AttemptEnded:
		if e.Attempt.Denied {
			return "attempt denied"
		}
		return "attempt ended"
	case Decided:
		if e.Decision.Shadow != nil {
			return "decided; the policy under trial decides differently"
		}
		return "decided"
	case CallEnded:
		if e.Timeline.Failed() {
			return "work failed"
		}
		return "work succeeded"
	case CircuitChanged:
		return "circuit changed"
	case LimitChanged:
		return "limit changed"
	}
	return "report"
}

func addAttempt(line *slog.Record, a *AttemptRecord) {
	line.AddAttrs(
		slog.Int(LogAttempt, a.Attempt),
		slog.Int(LogRetryIndex, a.RetryIndex),
		slog.Int(LogHedgeIndex, a.HedgeIndex),
		slog.String(LogOutcome, a.Outcome.Kind.String()),
		slog.Duration(LogDuration, a.End.Sub(a.Start)),
		slog.Duration(LogBackoff, a.Backoff),
	)
	addText(line, LogReason, string(a.Outcome.Reason))
	addText(line, LogCategory, a.Outcome.Category.String())
	addText(line, LogClass, string(a.Outcome.Class))
	addText(line, LogBudget, string(a.BudgetReason))
	addText(line, LogDetail, a.Outcome.Attributes[AttrDetail])
	addText(line, LogCircuit, a.Circuit)
	addText(line, LogLimitWait, a.Outcome.Attributes[AttrLimitWait])
	addText(line, LogError, text(a.Err))
}

func addDecision(line *slog.Record, d *Decision) {
	line.AddAttrs(
		slog.Int(LogAttempt, d.Attempt),
		slog.String(LogAction, d.Verdict.Action.String()),
		slog.String(LogReason, string(d.Verdict.Reason)),
		slog.Duration(LogElapsed, d.Elapsed),
	)
	if d.Verdict.Action == decision.Retry {
		line.AddAttrs(slog.Duration(LogDelay, d.Verdict.Delay))
	}
	addText(line, LogError, text(d.Err))
	if s := d.Shadow; s != nil {
		line.AddAttrs(slog.String(LogShadowAction, s.Verdict.Action.String()), slog.String(LogShadowReason, string(s.Verdict.Reason)))
		if s.Verdict.Action == decision.Retry {
			line.AddAttrs(slog.Duration(LogShadowDelay, s.Verdict.Delay))
		}
		addText(line, LogShadowRevision, s.Revision)
	}
}

func addTimeline(line *slog.Record, t *Timeline) {
	line.AddAttrs(
		slog.String(LogReason, string(t.Reason)),
		slog.Int(LogAttempts, t.Ran()),
		slog.Duration(LogDuration, t.End.Sub(t.Start)),
	)
	addText(line, LogError, text(t.FinalError))
}

func addReport(line *slog.Record, r *Report) {
	line.AddAttrs(slog.String(LogReason, string(r.Reason)))
	addText(line, LogDetail, r.Detail)
	if r.Attempt > 0 {
		line.AddAttrs(slog.Int(LogAttempt, r.Attempt))
	}
	if r.Panic != nil {
		line.AddAttrs(slog.String(LogPanic, fmt.Sprint(r.Panic)))
	}
	addText(line, LogStack, string(r.Stack))
}

func addWork(ctx context.Context, line *slog.Record, e *Event) {
	addID(line, &e.Work)
	addText(line, LogOperation, e.Work.Operation)
	addText(line, LogTenantID, e.Work.TenantID)
	addText(line, LogCorrelationID, e.Work.CorrelationID)
	if span, ok := SpanOf(ctx); ok {
		line.AddAttrs(slog.String(LogTraceID, span.Trace()), slog.String(LogSpanID, span.ID()))
	} else {
		addText(line, LogTraceID, e.Work.TraceID)
	}
	if e.Policy != nil {
		addText(line, LogPolicyID, e.Policy.ID)
	}
}

// addID adds the ID of the line's work. Fetches and runs have their own IDs, other steps have their transaction's.
func addID(line *slog.Record, w *Work) {
	if w.Surface != policy.SurfaceStep {
		addText(line, LogWorkID, w.ID)
		return
	}
	addText(line, LogStep, w.Key.Name)
	if w.Key.Name == StepFetch || w.Key.Name == StepRun {
		addText(line, LogWorkID, w.ID)
		return
	}
	addText(line, LogTransaction, w.ID)
}

func addText(line *slog.Record, name, value string) {
	if value != "" {
		line.AddAttrs(slog.String(name, value))
	}
}
