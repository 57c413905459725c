package audit

import (
	"maps"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// begin sets the fields that every event has.
func (e *Event) begin(t Type, now time.Time) {
	e.SchemaVersion, e.ID, e.Type, e.Time = SchemaVersion, uuidv7.New(now), t, microseconds(now)
}

// from sets the fields that events take from an observed event.
func (e *Event) from(t Type, o *observe.Event) {
	now := o.Time
	if now.IsZero() {
		now = time.Now()
	}
	e.begin(t, now)
	w := &o.Work
	e.Surface, e.Key, e.WorkID, e.WorkSeq = string(w.Surface), clean(w.Key.String()), clean(w.ID), o.Seq
	e.Parent = clean(w.Parent.String())
	e.Operation, e.Category, e.TenantID = raw(w.Operation), clean(w.Category.Code()), raw(w.TenantID)
	e.CorrelationID, e.TraceID, e.IdempotencyKey = raw(w.CorrelationID), raw(w.TraceID), raw(w.IdempotencyKey)
	if w.Attributes.Len() > 0 {
		e.Attributes = rawAll(maps.Collect(w.Attributes.All()))
	}
	if o.Policy != nil {
		e.PolicyID = clean(o.Policy.ID)
	}
}

// note adds attributes to the work's own.
func (e *Event) note(attributes map[string]string) {
	if len(e.Attributes) == 0 {
		e.Attributes = rawAll(attributes)
	} else if len(attributes) > 0 {
		both := maps.Clone(e.Attributes)
		maps.Copy(both, attributes)
		e.Attributes = rawAll(both)
	}
}

// decided makes e the event of a decision. total is the number of attempts that ran, ended the record of the deciding attempt,
// and denied that of the refused attempt; both records may be nil.
func (e *Event) decided(o *observe.Event, total int, ended, denied *observe.AttemptRecord) {
	d := o.Decision
	e.from(typeOf(d.Verdict), o)
	e.CoreVersion = CoreVersion
	e.Attempt, e.MaxAttempts, e.ElapsedNS = d.Attempt, d.State.MaxAttempts, Nanos(d.Elapsed)
	if e.MaxAttempts <= 0 && o.Policy != nil {
		e.MaxAttempts = o.Policy.Retry.MaxAttempts
	}
	e.RetryIndex = max(d.State.Attempt-1, 0)
	if d.Group != nil {
		e.Group, e.Deciding = d.Group, d.Attempt
	}
	e.judged(d.Outcome, d.Rule, d.Facts)
	e.decision(d.State, d.Verdict)
	if s := d.Shadow; s != nil {
		e.Shadow = &Shadow{
			Decision: s.Verdict.Action.String(), DelayNS: Nanos(s.Verdict.Delay), PolicyRevision: clean(s.Revision), Reason: s.Verdict.Reason,
		}
	}
	if ended != nil {
		e.admitted(ended)
		e.note(ended.Outcome.Attributes)
	}
	if denied != nil {
		e.admitted(denied)
		e.Denied, e.Detail = true, raw(denied.Outcome.Attributes[observe.AttrDetail])
		if own := denied.Outcome.Attributes[observe.AttrBudgetReason]; own != "" {
			e.note(map[string]string{observe.AttrBudgetReason: own})
		}
		if denied.Attempt == d.Attempt {
			e.RetryIndex = denied.RetryIndex
		}
	}
	if d.Verdict.Action == decision.Retry {
		e.ExceptionType, e.ExceptionMessage = describe(d.Err)
		return
	}
	e.TotalAttempts = total
	if d.Verdict.Action == decision.Stop {
		e.FinalExceptionType, e.FinalExceptionMessage = describe(d.Err)
	}
}

func typeOf(v decision.Verdict) Type {
	switch {
	case v.Action == decision.Retry:
		return RetryAttempt
	case v.Action == decision.Done:
		return CallSucceeded
	case v.Reason == policy.ReasonAttemptsExhausted:
		return RetryExhausted
	}
	return CallStopped
}

// judged sets the outcome, and the facts from which a rule derived it.
func (e *Event) judged(o classify.Outcome, rule decision.Rule, f decision.Facts) {
	e.OutcomeKind, e.OutcomeCategory = o.Kind.String(), o.Category.String()
	e.OutcomeClass, e.OutcomeReason, e.PushbackNS = o.Class, o.Reason, Nanos(o.Pushback)
	e.MatchedRule = rule
	e.note(o.Attributes)
	for _, m := range f.Classes {
		e.OutcomeClasses = append(e.OutcomeClasses, m.Class)
	}
	if rule == "" || !f.Failed && f.Classified == nil {
		return
	}
	e.Facts = &Facts{
		Failed: f.Failed, Ended: f.Ended, TimedOut: f.TimedOut, Mark: marks[f.Mark], PushbackNS: Nanos(f.Pushback), Classes: f.Classes,
	}
	if c := f.Classified; c != nil {
		e.Facts.Classified = &Outcome{
			Kind: c.Kind.String(), Category: c.Category.String(), Class: c.Class, Reason: c.Reason, PushbackNS: Nanos(c.Pushback),
			Attributes: rawAll(c.Attributes),
		}
	}
}

// decision sets the verdict and the state that led to it.
func (e *Event) decision(s decision.State, v decision.Verdict) {
	e.Surface, e.StateNumber, e.StateLimit, e.LeftReason, e.Seed = string(s.Surface), s.Attempt, s.MaxAttempts, s.LeftReason, s.Seed
	if s.Left != decision.Unbounded {
		left := Nanos(s.Left)
		e.LeftNS = &left
	}
	e.Decision, e.Reason, e.External = v.Action.String(), v.Reason, v.External
	e.Delay, e.DelayNS = v.Delay.Seconds(), Nanos(v.Delay)
}

// admitted sets the answers of budget and breaker to an attempt.
func (e *Event) admitted(a *observe.AttemptRecord) {
	e.HedgeIndex, e.TookNS = a.HedgeIndex, Nanos(a.End.Sub(a.Start))
	e.BudgetAllowed, e.BudgetReason, e.Circuit = &a.BudgetAllowed, a.BudgetReason, a.Circuit
}

// hedged makes e the event of one attempt of a hedged group.
func (e *Event) hedged(o *observe.Event) {
	a := o.Attempt
	e.from(Hedge, o)
	e.Attempt, e.RetryIndex, e.Denied = a.Attempt, a.RetryIndex, a.Denied
	var facts decision.Facts
	if a.Facts != nil {
		facts = *a.Facts
	}
	e.judged(a.Outcome, a.Rule, facts)
	e.admitted(a)
	e.ExceptionType, e.ExceptionMessage = describe(a.Err)
}

// panicked makes e the end of work whose operation panicked, so that there was no decision.
func (e *Event) panicked(o *observe.Event, total int) {
	t := o.Timeline
	e.from(CallStopped, o)
	e.CoreVersion, e.Decision, e.Reason = CoreVersion, decision.Stop.String(), t.Reason
	e.OutcomeKind, e.OutcomeCategory, e.OutcomeReason = classify.Abort.String(), classify.CategorySystem.String(), t.Reason
	e.ElapsedNS, e.TotalAttempts = Nanos(t.End.Sub(t.Start)), total
	if n := len(t.Attempts); n > 0 {
		e.Attempt, e.RetryIndex = t.Attempts[n-1].Attempt, t.Attempts[n-1].RetryIndex
	}
	e.FinalExceptionType, e.FinalExceptionMessage = describe(t.FinalError)
}

func (e *Event) idempotent(o *observe.Event) {
	a := o.Idempotency
	e.from(Idempotency, o)
	e.IdempotencyKey, e.Action, e.Fence, e.TotalAttempts = raw(a.Key), a.Action, a.Fence, a.Attempts
	e.Detail = raw(a.Detail)
	if a.Tenant != "" {
		e.TenantID = raw(a.Tenant)
	}
	if a.Operation != "" {
		e.Operation = raw(a.Operation)
	}
}

func (e *Event) moved(o *observe.Event) {
	t := o.Transition
	e.from(JobTransition, o)
	e.From, e.To, e.Reason, e.TotalAttempts, e.Actor = t.From, t.To, t.Reason, t.Attempts, raw(t.Worker)
}

func (e *Event) circuitChanged(o *observe.Event) {
	e.from(CircuitChanged, o)
	e.From, e.To = o.Circuit.From, o.Circuit.To
}
