package retry

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// overrun is how long an operation may run on after its timeout, or a loser after its cancellation, before it is
// reported.
const overrun = time.Second

// recorder writes a call down: the timeline, and the events for observer and journal. Only the goroutine of the call
// touches it.
type recorder struct {
	capture  *observe.Capture
	timeline observe.Timeline
	seq      int
	opening
}

// opening is what every record of a call begins with. It is the parent of the attempts' contexts, through which they find
// the call's ID.
type opening struct {
	context.Context // the caller's
	id              string
	first           attemptCtx
	attempt         [1]observe.AttemptRecord
}

// openingKey is under which the first attempt of a recorded call finds the call's ID.
type openingKey struct{}

// Value implements context.Context.
func (o *opening) Value(key any) any {
	if _, ok := key.(openingKey); ok {
		return o
	}
	return o.Context.Value(key)
}

// AfterFunc lets package context attach children without a goroutine each, where the caller's context does.
func (o *opening) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(o.Context, f) }

// record makes the call's recorder if anybody watches.
func (r *run) record(timeline bool) {
	capture, _ := r.ctx.Value(observe.CaptureKey{}).(*observe.Capture)
	if !timeline && capture == nil && r.e.options.Observer == nil && r.e.options.Journal == nil {
		return
	}
	rec := &recorder{capture: capture}
	if turn := r.options.turn; turn > 0 {
		rec.seq = turn*SeqPerTurn - 1
	}
	rec.open(r.ctx, r.e, &rec.timeline, r.options)
	for name, value := range r.options.attributes.All() {
		rec.timeline.Attributes = rec.timeline.Attributes.With(name, value)
	}
	r.rec, r.ctx = rec, &rec.opening
	if r.e.starter != nil {
		r.ctx = rec.startOf(r, r.ctx, &observe.Event{Type: observe.CallStarted, Time: rec.timeline.Start})
	}
}

// open begins a timeline.
func (o *opening) open(ctx context.Context, e *Executor, t *observe.Timeline, options *callOptions) {
	p := options.plan
	t.Start = e.now()
	o.Context, o.id = ctx, options.id
	if o.id == "" {
		o.id = uuidv7.New(t.Start)
	}
	t.Key, t.PolicyID, t.CallID, t.Attributes, t.Attempts = p.key, p.policy.ID, o.id, p.attributes, o.attempt[:0]
}

// alone completes the timeline of a call that succeeded with its only attempt, and without admission.
func (e *Executor) alone(t *observe.Timeline, reason policy.Reason) {
	t.End, t.Reason = e.since(t.Start), policy.ReasonSuccess
	t.Attempts = t.Attempts[:1]
	a := &t.Attempts[0]
	a.Attempt, a.Start, a.End, a.Outcome, a.Rule = 1, t.Start, t.End, decision.Succeeded(), decision.RuleSuccess
	a.BudgetAllowed, a.BudgetReason = true, reason
}

// startOf tells the observer of a beginning and returns the context that it made of ctx.
func (rec *recorder) startOf(r *run, ctx context.Context, e *observe.Event) (started context.Context) {
	rec.stamp(r, e)
	started = ctx //nolint:wastedassign // what is returned where Start panics
	if r.e.options.RecoverPanics {
		defer r.e.survive(ctx, e.Work)
	}
	return r.e.starter.Start(ctx, e)
}

func (rec *recorder) stamp(r *run, e *observe.Event) {
	rec.seq++
	e.Seq, e.Work, e.Policy = rec.seq, rec.work(r), r.plan.policy
}

func (rec *recorder) work(r *run) observe.Work { return r.options.work(rec.timeline.CallID) }

// tell sends an event to the observer.
func (rec *recorder) tell(r *run, ctx context.Context, e *observe.Event) {
	if r.e.options.Observer != nil {
		r.e.tell(ctx, e)
	}
}

// start is the time at which an attempt starts; the first starts with its call.
func (rec *recorder) start(e *Executor, number int) time.Time {
	if number == 1 {
		return rec.timeline.Start
	}
	return rec.now(e)
}

// now is the time of a record.
func (rec *recorder) now(e *Executor) time.Time { return e.since(rec.timeline.Start) }

// since is the time. Without a clock of its own it counts from start, which is cheaper than asking for the time of day.
func (e *Executor) since(start time.Time) time.Time {
	if e.options.Clock != nil {
		return e.options.Clock()
	}
	return start.Add(time.Since(start))
}

// begin tells of a launched attempt and watches it for an overrun. It returns the context for the operation.
func (rec *recorder) begin(r *run, l *launch, ctx context.Context, deadline time.Duration) context.Context {
	if r.e.options.Observer == nil {
		return ctx
	}
	if r.e.starter != nil {
		ctx = rec.startOf(r, ctx, &observe.Event{Type: observe.AttemptStarted, Time: l.started, Attempt: &observe.AttemptRecord{
			Attempt: l.number, RetryIndex: r.retry, HedgeIndex: l.hedge, Start: l.started, Backoff: r.backoff,
		}})
	}
	if deadline != 0 {
		e, w, number := r.e, rec.work(r), l.number
		l.watch = time.AfterFunc(deadline-time.Since(epoch)+overrun, func() {
			e.report(ctx, w, &observe.Report{
				Reason: policy.ReasonAttemptOverrun, Attempt: number,
				Detail: "the operation runs on more than a second after its timeout; it should obey its context",
			})
		})
	}
	return ctx
}

// ended puts an attempt on record.
func (rec *recorder) ended(r *run, l *launch, j *judgement, err error) {
	a := rec.add(r, l)
	a.End, a.Outcome, a.Rule, a.Err = rec.now(r.e), j.outcome, j.rule, err
	if j.facts.Failed || j.facts.Classified != nil {
		facts := j.facts // here, so that a plain success needs none
		a.Facts = &facts
	}
	a.BudgetAllowed, a.BudgetReason = true, l.grant.reason
	l.grant.tell(&a.Outcome)
	rec.tellAttempt(r, l, a)
}

// denied puts an attempt on record that was not admitted.
func (rec *recorder) denied(r *run, l *launch, reason policy.Reason) {
	a := rec.add(r, l)
	a.End, a.Denied = l.started, true
	a.Outcome = classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: reason}
	a.BudgetAllowed, a.BudgetReason = l.grant.given, l.grant.reason
	l.grant.tell(&a.Outcome)
	rec.tellAttempt(r, l, a)
}

// add makes an attempt's record, in its place in the timeline.
func (rec *recorder) add(r *run, l *launch) *observe.AttemptRecord {
	t := &rec.timeline
	if n := len(t.Attempts); n < cap(t.Attempts) {
		t.Attempts = t.Attempts[:n+1] // still zero: records are never taken away
	} else {
		t.Attempts = append(t.Attempts, observe.AttemptRecord{})
	}
	a := &t.Attempts[len(t.Attempts)-1]
	a.Attempt, a.RetryIndex, a.HedgeIndex, a.Start, a.Backoff = l.number, r.retry, l.hedge, l.started, r.backoff
	if r.plan.breaker != nil {
		a.Circuit = l.circuit.String()
	}
	return a
}

// tellAttempt tells the observer of an attempt's record, which is complete.
func (rec *recorder) tellAttempt(r *run, l *launch, a *observe.AttemptRecord) {
	if r.e.options.Observer == nil {
		return
	}
	ctx := r.ctx
	if l.ctx != nil {
		ctx = l.ctx.parent
	}
	kept := *a // timelines are sorted at their end
	e := &observe.Event{Type: observe.AttemptEnded, Time: a.End, Attempt: &kept}
	rec.stamp(r, e)
	rec.tell(r, ctx, e)
}

// decided tells what follows. A journal that refuses stops whatever would be started next.
func (rec *recorder) decided(r *run, j *judgement, s decision.State, v decision.Verdict, ended []int, deciding int) decision.Verdict {
	journal := r.e.options.Journal
	if r.e.options.Observer == nil && journal == nil {
		return v
	}
	now := rec.now(r.e)
	e := &observe.Event{Type: observe.Decided, Time: now, Decision: &observe.Decision{
		Outcome: j.outcome, Rule: j.rule, Facts: j.facts, State: s, Verdict: v, Elapsed: now.Sub(rec.timeline.Start),
		Attempt: deciding, Group: ended, Err: r.last,
	}}
	rec.stamp(r, e)
	if journal != nil {
		ctx := r.ctx
		if ctx.Err() != nil { // how a call ends is on record also where its caller has gone
			ctx = context.WithoutCancel(ctx)
		}
		if reason, err := r.append(ctx, e); err != nil {
			v = rec.refused(r, v, err, reason)
			changed, d := *e, *e.Decision
			d.Verdict = v
			changed.Decision = &d
			e = &changed
		}
	}
	rec.tell(r, r.ctx, e)
	return v
}

// append gives the journal a decision. An error comes with the reason that it gives the work.
func (r *run) append(ctx context.Context, e *observe.Event) (reason policy.Reason, err error) {
	if r.e.options.RecoverPanics {
		defer func() {
			if v := recover(); v != nil {
				reason, err = policy.ReasonPanicInJournal, &PanicError{Part: "journal", Value: v, Stack: debug.Stack()}
			}
		}()
	}
	return policy.ReasonAuditUnavailable, r.e.options.Journal.Append(ctx, e)
}

// refused is the verdict after the journal did not take v. What has succeeded stays a success.
func (rec *recorder) refused(r *run, v decision.Verdict, err error, reason policy.Reason) decision.Verdict {
	if v.Action == decision.Done {
		r.e.report(r.ctx, rec.work(r), &observe.Report{Reason: reason, Detail: err.Error()})
		return v
	}
	r.dropGrant()
	r.cause = errors.Join(r.cause, err)
	return stop(reason)
}

// circuit tells of a breaker's change of state.
func (rec *recorder) circuit(r *run, change circuit.Transition) {
	if !change.Changed() || r.e.options.Observer == nil {
		return
	}
	e := &observe.Event{Type: observe.CircuitChanged, Time: rec.now(r.e), Circuit: &observe.CircuitChange{
		From: change.From.String(), To: change.To.String(),
	}}
	rec.stamp(r, e)
	rec.tell(r, r.ctx, e)
}

// finish closes the timeline. A call does so once: where it returns, or where a panic leaves its last attempt.
func (rec *recorder) finish(r *run, reason policy.Reason, err error) {
	t := &rec.timeline
	t.Reason, t.FinalError = reason, err
	if n := len(t.Attempts); n > 0 && r.backoff == 0 {
		t.End = t.Attempts[n-1].End // nothing has been waited for since
	} else {
		t.End = rec.now(r.e)
	}
	byLaunch := func(a, b observe.AttemptRecord) int { return a.Attempt - b.Attempt }
	if !slices.IsSortedFunc(t.Attempts, byLaunch) { // hedges end in any order
		slices.SortFunc(t.Attempts, byLaunch)
	}
	if rec.capture != nil {
		rec.capture.Record(*t)
	}
	if r.e.options.Observer == nil {
		return
	}
	e := &observe.Event{Type: observe.CallEnded, Time: t.End, Timeline: t}
	rec.stamp(r, e)
	rec.tell(r, r.ctx, e)
}
