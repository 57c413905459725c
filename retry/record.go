package retry

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"
	"unsafe"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// overrun is how long an operation may continue after its timeout, or a losing hedge after its cancellation, before it is
// reported.
const overrun = time.Second

// recorder records a call: its timeline, and the events for the observer and the journal.
type recorder struct {
	call     *recordedCall // nil for a call that is not recorded
	id       string        // of the call
	started  time.Time
	attempts []observe.AttemptRecord // of the timeline
	seq      int                     // of the last event
	capture  *observe.Capture
	parent   *plan // of the attempt that the call runs in, for events; nil outside one
	closed   bool  // after a panic
}

// recordedCall is what outlives a recorded call: its ID, the context of its first attempt and the record of that attempt. They
// are one allocation, kept to 320 bytes.
type recordedCall struct {
	first attemptCtx               // stays the first field: see attemptCtx.callID
	room  [1]observe.AttemptRecord // of the recorder's attempts
	id    [36]byte
}

// record sets up the recorder if the call has a timeline, an observer or a journal.
func (r *run) record(timeline bool) {
	capture := observe.CaptureOf(r.ctx)
	events := r.e.options.Observer != nil || r.e.options.Journal != nil
	if !timeline && capture == nil && !events {
		return
	}
	rec := &r.rec
	if turn := r.options.turn; turn > 0 {
		rec.seq = turn*SeqPerTurn - 1
	}
	rec.started = r.e.now()
	if events {
		if enclosing, ok := r.ctx.Value(attemptKey{}).(*attemptCtx); ok {
			rec.parent = enclosing.options.plan
		}
	}
	call := &recordedCall{}
	if rec.id = r.options.id; rec.id == "" {
		uuidv7.Write(&call.id, rec.started)
		if events || r.options.guard != nil {
			rec.id = string(call.id[:]) // who keeps an event must not keep the caller's context
		} else {
			rec.id = unsafe.String(&call.id[0], len(call.id)) // for the timeline alone, which keeps the allocation anyway; it never changes again
		}
	}
	rec.call, rec.attempts, rec.capture = call, call.room[:0], capture
	if r.e.starter != nil {
		r.ctx = rec.notifyStart(r, r.ctx, &observe.Event{Type: observe.CallStarted, Time: rec.started})
	}
}

// notifyStart sends a start event to the observer and returns the context that the observer derived from ctx.
func (rec *recorder) notifyStart(r *run, ctx context.Context, e *observe.Event) (started context.Context) {
	rec.stamp(r, e)
	started = ctx // the result if Start panics or returns nil
	if r.e.options.RecoverPanics {
		defer r.e.recoverObserver(ctx, e.Work)
	}
	if derived := r.e.starter.Start(ctx, e); derived != nil {
		started = derived
	}
	return started
}

func (rec *recorder) stamp(r *run, e *observe.Event) {
	rec.seq++
	e.Seq, e.Work, e.Policy = rec.seq, rec.work(r), r.plan.policy
}

func (rec *recorder) work(r *run) observe.Work {
	w := r.options.work(rec.id)
	if rec.parent != nil {
		w.Parent = rec.parent.key
	}
	return w
}

// notify sends an event to the observer.
func (rec *recorder) notify(r *run, ctx context.Context, e *observe.Event) {
	if r.e.options.Observer != nil {
		r.e.notify(ctx, e)
	}
}

// start returns the time at which an attempt starts. The first attempt starts with its call.
func (rec *recorder) start(e *Executor, number int) time.Time {
	if number == 1 {
		return rec.started
	}
	return rec.now(e)
}

// now returns the time for a record.
func (rec *recorder) now(e *Executor) time.Time { return e.since(rec.started) }

// since returns the time. Without a clock in the options it counts from start, which is cheaper than reading the time of day.
func (e *Executor) since(start time.Time) time.Time {
	if e.options.Clock != nil || e.options.World != nil {
		return e.now()
	}
	return start.Add(time.Since(start))
}

// begin notifies the observer of a launched attempt and sets a timer that reports an overrun. It returns the operation's context.
func (rec *recorder) begin(r *run, l *launch, deadline time.Duration) context.Context {
	ctx := r.ctx
	if r.e.starter != nil {
		ctx = rec.notifyStart(r, ctx, &observe.Event{Type: observe.AttemptStarted, Time: l.started, Attempt: &observe.AttemptRecord{
			Attempt: l.number, RetryIndex: r.retry, HedgeIndex: l.hedge, Start: l.started, Backoff: r.backoff,
		}})
	}
	if deadline != 0 {
		e, w, number := r.e, rec.work(r), l.number
		l.watch = time.AfterFunc(deadline-time.Since(epoch)+overrun, func() {
			e.report(ctx, w, &observe.Report{
				Reason: policy.ReasonAttemptOverrun, Attempt: number,
				Detail: "the operation is still running more than a second after its timeout; it should obey its context",
			})
		})
	}
	return ctx
}

// ended records an attempt that has ended.
func (rec *recorder) ended(r *run, l *launch, j *judgement, err error) {
	a := rec.add(r, l)
	a.Outcome = j.outcome // a statement of its own: a multiple assignment would copy it twice
	a.End, a.Rule, a.Err = rec.now(r.e), j.rule, err
	if j.facts.Failed || j.facts.Classified != nil {
		facts := j.facts // declared here so that a plain success does not allocate it
		a.Facts = &facts
	}
	a.BudgetAllowed, a.BudgetReason = true, l.grant.reason
	l.annotate(&a.Outcome, r.plan.storeAway())
	if r.e.options.Observer != nil {
		rec.notifyAttempt(r, l, a)
	}
}

// denied records an attempt that was not admitted.
func (rec *recorder) denied(r *run, l *launch, reason policy.Reason) {
	a := rec.add(r, l)
	a.End, a.Denied = l.started, true
	a.Outcome = classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: reason}
	a.BudgetAllowed, a.BudgetReason = l.grant.given, l.grant.reason
	l.annotate(&a.Outcome, r.plan.storeAway())
	if r.e.options.Observer != nil {
		rec.notifyAttempt(r, l, a)
	}
}

// add appends an attempt's record to the timeline.
func (rec *recorder) add(r *run, l *launch) *observe.AttemptRecord {
	if n := len(rec.attempts); n < cap(rec.attempts) {
		rec.attempts = rec.attempts[:n+1] // still zero: records are never removed
	} else {
		rec.attempts = append(rec.attempts, observe.AttemptRecord{})
	}
	a := &rec.attempts[len(rec.attempts)-1]
	a.Attempt, a.RetryIndex, a.HedgeIndex, a.Start, a.Backoff = l.number, r.retry, l.hedge, l.started, r.backoff
	if r.plan.breaker != nil {
		a.Circuit = l.circuit.String()
	}
	return a
}

// notifyAttempt sends an attempt's complete record to the observer.
func (rec *recorder) notifyAttempt(r *run, l *launch, a *observe.AttemptRecord) {
	ctx := r.ctx
	if l.ctx != nil {
		ctx = l.ctx.parent
	}
	record := *a // a copy, because the timeline is sorted at the end
	e := &observe.Event{Type: observe.AttemptEnded, Time: a.End, Attempt: &record}
	rec.stamp(r, e)
	rec.notify(r, ctx, e)
}

// basis is what a decision was made from, in addition to the judgement.
type basis struct {
	state   decision.State
	attempt int   // that decided
	group   []int // the attempts of its group, in the order in which they ended
}

// decided records the run's verdict. A journal that refuses it turns it into a stop.
func (rec *recorder) decided(r *run, j *judgement, b *basis) {
	now := rec.now(r.e)
	e := &observe.Event{Type: observe.Decided, Time: now, Decision: &observe.Decision{
		Outcome: j.outcome, Rule: j.rule, Facts: j.facts, State: b.state, Verdict: r.verdict, Elapsed: now.Sub(rec.started),
		Attempt: b.attempt, Group: b.group, Err: r.last,
	}}
	rec.stamp(r, e)
	if r.e.options.Shadow != nil {
		e.Decision.Shadow = r.shadow(j, b)
	}
	r.noteFallback(e.Decision)
	if r.e.options.Journal != nil {
		ctx := r.ctx
		if ctx.Err() != nil { // the end of a call is recorded even if its caller is gone
			ctx = context.WithoutCancel(ctx)
		}
		if reason, err := r.append(ctx, e); err != nil {
			r.verdict = rec.refused(r, err, reason)
			changed, d := *e, *e.Decision
			d.Verdict = r.verdict
			r.noteFallback(&d)
			changed.Decision = &d
			e = &changed
		}
	}
	rec.notify(r, r.ctx, e)
}

// append appends a decision to the journal. On failure it returns the reason with which the work stops.
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

// refused is the verdict after the journal refused the run's. A success stays a success.
func (rec *recorder) refused(r *run, err error, reason policy.Reason) decision.Verdict {
	if r.verdict.Action == decision.Done {
		r.e.report(r.ctx, rec.work(r), &observe.Report{Reason: reason, Detail: err.Error()})
		return r.verdict
	}
	r.dropGrant()
	r.cause = errors.Join(r.cause, err)
	return stop(reason)
}

// circuit notifies the observer of a breaker's change of state.
func (rec *recorder) circuit(r *run, change circuit.Transition) {
	if !change.Changed() || r.e.options.Observer == nil {
		return
	}
	e := &observe.Event{Type: observe.CircuitChanged, Time: rec.now(r.e), Circuit: &observe.CircuitChange{
		From: change.From.String(), To: change.To.String(),
	}}
	rec.stamp(r, e)
	rec.notify(r, r.ctx, e)
}

// limit notifies the observer of a change of an adaptive limit.
func (rec *recorder) limit(r *run, change limit.Change) {
	if !change.Changed() || r.e.options.Observer == nil {
		return
	}
	e := &observe.Event{Type: observe.LimitChanged, Time: rec.now(r.e), Limit: &observe.LimitChange{From: change.From, To: change.To}}
	rec.stamp(r, e)
	rec.notify(r, r.ctx, e)
}

// finish completes the timeline and writes it into t unless t is nil. It is called once per call: when the call returns, or
// when a panic leaves its last attempt.
func (rec *recorder) finish(r *run, reason policy.Reason, err error, t *observe.Timeline) {
	byLaunch := func(a, b observe.AttemptRecord) int { return a.Attempt - b.Attempt }
	var end time.Time
	if n := len(rec.attempts); n > 0 && r.backoff == 0 && r.fellBack == "" && r.options.guard == nil {
		end = rec.attempts[n-1].End // the call has not waited since
	} else {
		end = rec.now(r.e)
	}
	if len(rec.attempts) > 1 && !slices.IsSortedFunc(rec.attempts, byLaunch) { // hedges end in any order
		slices.SortFunc(rec.attempts, byLaunch)
	}
	p := r.plan
	if t == nil {
		t = &observe.Timeline{}
	}
	t.Key, t.PolicyID, t.CallID, t.Start, t.End = p.key, p.policy.ID, rec.id, rec.started, end
	t.Attributes, t.Attempts, t.FinalError, t.Reason = p.attributes, rec.attempts, err, reason
	for name, value := range r.options.attributes.All() {
		t.Attributes = t.Attributes.With(name, value)
	}
	if r.fellBack != "" {
		t.Attributes = t.Attributes.With(observe.AttrFallback, r.fellBack)
	}
	if rec.capture != nil {
		rec.capture.Record(*t)
	}
	if r.e.options.Observer != nil {
		ended := &struct {
			observe.Event
			timeline observe.Timeline
		}{Event: observe.Event{Type: observe.CallEnded, Time: end}, timeline: *t}
		ended.Timeline = &ended.timeline
		rec.stamp(r, &ended.Event)
		rec.notify(r, r.ctx, &ended.Event)
	}
}
