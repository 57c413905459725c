package retry

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// epoch is where the monotonic readings of the mechanisms count from: cheaper than time.Now.
var epoch = time.Now()

// never is from when on a timeout is none: 146 years, which keeps sums of times since epoch in range.
const never = time.Duration(math.MaxInt64 / 2)

// run is one call in progress. It lives on the caller's stack and is touched by the caller's goroutine only.
type run struct {
	e       *Executor
	plan    *plan
	ctx     context.Context
	options *callOptions
	rec     *recorder // nil while nobody watches
	root    *attemptCtx

	deadline time.Duration // of the call, since epoch; 0 without an overall timeout
	launches int           // attempts admitted or denied so far
	retry    int           // index of the running attempt or group
	ended    int           // attempts or groups that ended
	ran      int           // attempts whose operation was started
	backoff  time.Duration
	seed     uint64
	seeded   bool
	timer    *time.Timer
	grant    grant // what the budget said when the coming retry was decided

	last    error // of the operation
	cause   error // from outside the operation
	broken  policy.Reason
	outcome classify.Outcome // of the last attempt or group
	plain   bool             // a success needs neither classifier, record nor digest
	single  bool             // one attempt only; the verdict goes to whoever asked
	limit   int              // effective maximum of attempts; 0 for the policy's
	age     time.Duration    // of the work when this run began

	nextDelay func(failed int) time.Duration // delays computed in code; nil for the policy's
}

// grant is a budget's answer.
type grant struct {
	given   bool
	reason  policy.Reason
	detail  string
	release func()
}

// launch is one admitted attempt.
type launch struct {
	ctx     *attemptCtx
	number  int
	hedge   int
	grant   grant
	ticket  circuit.Ticket
	ticked  bool // the ticket is held
	circuit circuit.State
	settled bool
	over    bool          // nothing can panic any more
	began   time.Duration // since epoch; only where the plan is timed
	started time.Time     // of the record
	watch   *time.Timer   // reports an overrun
}

// begin prepares a call: its plan, its deadline and its recorder.
func (r *run) begin(key policy.Key, timeline bool) {
	o := r.options
	r.plan = r.e.planFor(r.ctx, key)
	if o.edit != nil || o.category != "" && r.plan.policy.Category == "" {
		r.plan = r.e.edited(r.plan, o)
	}
	r.seed, r.seeded = o.seed, o.seeded
	if overall := r.plan.policy.Retry.OverallTimeout; overall > 0 && overall < never {
		r.deadline = time.Since(epoch) - r.age + overall
	}
	r.record(timeline)
	r.plain = r.rec == nil && r.plan.classifier == nil && r.plan.digest == nil
}

// over says why the work may not go on, or "" while the caller and the overall timeout are alive.
func (r *run) over() policy.Reason {
	if err := r.ctx.Err(); err != nil {
		r.cause = context.Cause(r.ctx)
		if err == context.DeadlineExceeded {
			return policy.ReasonDeadlineExceeded
		}
		return policy.ReasonCanceled
	}
	if r.deadline != 0 && time.Since(epoch) >= r.deadline {
		r.cause = ErrOverallTimeout
		return policy.ReasonOverallTimeout
	}
	return ""
}

// stop is the verdict of work that ends for a reason from outside the operation.
func stop(reason policy.Reason) decision.Verdict {
	return decision.Verdict{Action: decision.Stop, Reason: reason}
}

// ready returns "" if the first attempt may be made, else the reason against it.
func (r *run) ready() policy.Reason {
	if r.plan.refusal != "" {
		r.cause = r.plan.refusedBy
		return r.plan.refusal
	}
	return r.over()
}

// admit asks the breaker and the budget for one attempt and makes its context. Without admission it returns the reason,
// which is on record.
func (r *run) admit(l *launch, kind budget.AttemptKind) policy.Reason {
	r.launches++
	l.number = r.launches
	if r.plan.timed {
		l.began = time.Since(epoch)
	}
	if r.rec != nil {
		l.started = r.rec.start(r.e, l.number)
	}
	if reason := r.admission(kind, l); reason != "" {
		if r.rec != nil {
			r.rec.denied(r, l, reason)
		}
		return reason
	}
	l.ctx = r.context(l)
	r.ran++
	return ""
}

func (r *run) admission(kind budget.AttemptKind, l *launch) policy.Reason {
	p := r.plan
	if p.breaker != nil {
		if !r.passBreaker(kind, l) {
			r.dropGrant()
			if kind == budget.KindHedge && l.circuit == circuit.HalfOpen {
				return policy.ReasonHalfOpen
			}
			return policy.ReasonCircuitOpen
		}
	}
	g := &p.budget
	if kind == budget.KindHedge {
		g = &p.hedgeGate
	}
	if kind == budget.KindRetry && r.retry > 0 && !g.atLaunch && !r.single {
		l.grant, r.grant = r.grant, grant{}
		return ""
	}
	if g.budget == nil && !g.refused {
		l.grant.given, l.grant.reason = true, g.reason
		return ""
	}
	l.grant = r.ask(g, kind, r.launches-1)
	if l.grant.given {
		return ""
	}
	r.free(l, circuit.Ignored)
	return l.grant.reason
}

// passBreaker takes a ticket from the plan's breaker. A closed one is passed without reading the clock.
func (r *run) passBreaker(kind budget.AttemptKind, l *launch) bool {
	b := r.plan.breaker
	if l.ticket, l.ticked = b.AcquireClosed(); l.ticked {
		return true
	}
	if !r.plan.timed {
		l.began = time.Since(epoch)
	}
	var change circuit.Transition
	l.ticket, change, l.ticked = b.Acquire(l.began, kind == budget.KindHedge)
	if r.rec != nil {
		l.circuit = b.State(l.began)
		r.rec.circuit(r, change)
	}
	return l.ticked
}

// ask asks a budget for an attempt; index is its place in the launch order, from 0.
func (r *run) ask(g *gate, kind budget.AttemptKind, index int) (answer grant) {
	if g.budget == nil {
		return grant{given: !g.refused, reason: g.reason}
	}
	if r.e.options.RecoverPanics {
		defer r.guard("budget", policy.ReasonPanicInBudget, func() { answer = grant{reason: policy.ReasonPanicInBudget} })
	}
	d := g.budget.AllowAttempt(r.ctx, r.plan.key, index, kind, g.ref)
	if d.Allowed {
		return grant{given: true, reason: policy.ReasonAllowed, detail: d.Detail, release: d.Release}
	}
	return grant{reason: policy.ReasonBudgetDenied, detail: d.Detail}
}

// guard is deferred around user code under RecoverPanics: it turns a panic into an abort of the call.
func (r *run) guard(part string, reason policy.Reason, then func()) {
	v := recover()
	if v == nil {
		return
	}
	r.broken = reason
	r.cause = &PanicError{Part: part, Value: v, Stack: debug.Stack()}
	if then != nil {
		then()
	}
}

// context makes the context of an admitted attempt.
func (r *run) context(l *launch) *attemptCtx {
	parent := r.ctx
	c := &attemptCtx{
		plan: r.plan, options: r.options, root: r.root,
		number: int32(l.number), retry: int32(r.retry), hedge: int32(l.hedge), limit: int32(min(max(r.limit, 0), math.MaxInt32)),
	}
	if r.root == nil {
		r.root, c.root = c, c
		if r.rec != nil {
			c.id = &r.rec.id
		}
	}
	if timeout := r.plan.policy.Retry.TimeoutPerAttempt; timeout > 0 && timeout < never {
		c.deadline = time.Since(epoch) + timeout
	}
	if r.deadline != 0 && (c.deadline == 0 || r.deadline < c.deadline) {
		c.deadline, c.overall = r.deadline, true
	}
	if r.rec != nil {
		parent = r.rec.begin(r, l, parent, c.deadline)
	}
	c.parent = parent
	return c
}

// free gives back what an attempt holds; each part once.
func (r *run) free(l *launch, result circuit.Result) {
	if l.watch != nil {
		l.watch.Stop()
	}
	if l.ticked {
		l.ticked = false
		var took, now time.Duration
		if result != circuit.Ignored {
			now = time.Since(epoch)
			if l.began != 0 { // else the plan is not timed, though the breaker may have become a slow one meanwhile
				took = now - l.began
			}
		}
		change := r.plan.breaker.Done(l.ticket, result, took, now)
		if r.rec != nil {
			defer r.rec.circuit(r, change) // after the release, as an observer may panic
		}
	}
	r.release(&l.grant)
}

// dropGrant gives back what was granted to a retry that is not launched.
func (r *run) dropGrant() { r.release(&r.grant) }

// release gives a grant back, once.
func (r *run) release(g *grant) {
	release := g.release
	if release == nil {
		return
	}
	g.release = nil
	if r.e.options.RecoverPanics {
		defer r.guard("budget", policy.ReasonPanicInBudget, nil)
	}
	release()
}

// judgement is what the result of an attempt or group means, and how that was found.
type judgement struct {
	outcome classify.Outcome
	rule    decision.Rule // "" where nothing was judged
	facts   decision.Facts
}

// notJudged is the judgement of what ended for a reason from outside: refused, cancelled or interrupted by a panic.
func notJudged(reason policy.Reason) judgement {
	return judgement{outcome: classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: reason}}
}

// judge classifies an attempt's result.
func (r *run) judge(l *launch, err error, classified *classify.Outcome) judgement {
	f := decision.Facts{Failed: err != nil, Classified: classified}
	if err != nil || classified.Kind != classify.Success {
		f.Ended = r.over()
		f.TimedOut = l.ctx.timedOut()
	}
	if err != nil {
		f.Mark, f.Pushback = classify.MarkOf(err)
		if r.plan.byClass || r.rec != nil {
			f.Classes = r.e.families.Of(err)
		}
	}
	o, rule := decision.Judge(&r.plan.policy.Retry, f)
	if r.broken != "" && o.Kind != classify.Success {
		return notJudged(r.broken)
	}
	return judgement{o, rule, f}
}

// classify asks the policy's classifier.
func (r *run) classify(value any, err error) (o classify.Outcome) {
	if r.e.options.RecoverPanics {
		defer r.guard("classifier", policy.ReasonPanicInClassifier, func() {
			o = classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonPanicInClassifier}
		})
	}
	return r.plan.classifier.Classify(value, err)
}

// conclude ends an attempt: judged, given back, on record.
func (r *run) conclude(l *launch, err error, classified *classify.Outcome) judgement {
	j := judgement{outcome: decision.Succeeded(), rule: decision.RuleSuccess}
	if err != nil || classified != nil {
		j = r.judge(l, err, classified)
	}
	if r.plan.digest != nil && j.outcome.Kind == classify.Success {
		r.plan.digest.Add(time.Since(epoch) - l.began)
	}
	l.settled = true
	if l.watch != nil || l.ticked || l.grant.release != nil {
		r.free(l, resultOf(j.outcome))
	}
	l.ctx.finish()
	if j.outcome.Kind != classify.Success {
		r.last = err
	}
	if r.rec != nil {
		r.rec.ended(r, l, j, err)
	}
	return j
}

// resultOf is what an outcome means to a breaker.
func resultOf(o classify.Outcome) circuit.Result {
	switch {
	case o.Kind == classify.Abort:
		return circuit.Ignored
	case o.Kind == classify.Success, o.Category == classify.CategoryBusiness:
		return circuit.Success
	}
	return circuit.Failure
}

// settle decides what follows an attempt's or a group's outcome. A retry that breaker, budget or journal refuse becomes
// a stop before anybody waits for it.
func (r *run) settle(j judgement, ended []int, deciding int) decision.Verdict {
	r.ended++
	s := decision.State{Surface: r.plan.surface, Attempt: r.ended, MaxAttempts: r.limit, Left: decision.Unbounded}
	v := decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}
	if j.outcome.Kind != classify.Success {
		v = r.next(&s, j.outcome)
	}
	r.outcome = j.outcome
	if r.rec != nil {
		v = r.rec.decided(r, j, s, v, ended, deciding)
	}
	return v
}

// next asks what follows an outcome that is no success, and completes the state that was asked with.
func (r *run) next(s *decision.State, o classify.Outcome) decision.Verdict {
	if r.broken != "" {
		return stop(r.broken)
	}
	retry := &r.plan.policy.Retry
	if o.Kind == classify.Retryable {
		s.Left, s.LeftReason = r.left()
		if decision.Draws(retry.Jitter) {
			s.Seed = r.seedOf()
		}
	}
	asked := *s
	if r.nextDelay != nil {
		asked.Left = decision.Unbounded // whether the policy's own delay would fit does not matter
	}
	v := decision.Next(retry, asked, o)
	if v.Action == decision.Retry && r.nextDelay != nil {
		v = decision.External(r.nextDelay(r.ended), *s, o, retry.MaxPushback)
		v.External = true // a stop too: it cannot be derived without the delay
	}
	if v.Action == decision.Retry && !r.single {
		v = r.permit(v)
	}
	if v.Action == decision.Stop && r.cause == nil {
		r.cause = causeOf(v.Reason)
	}
	return v
}

// permit asks breaker and budget for a retry before the wait for it.
func (r *run) permit(v decision.Verdict) decision.Verdict {
	p := r.plan
	var state circuit.State
	if p.breaker != nil {
		var ok bool
		if state, ok = p.breaker.Look(time.Since(epoch)); !ok {
			r.refuse(policy.ReasonCircuitOpen, state, grant{})
			return stop(policy.ReasonCircuitOpen)
		}
	}
	if p.budget.atLaunch {
		return v
	}
	r.grant = r.ask(&p.budget, budget.KindRetry, r.launches)
	if r.grant.given {
		return v
	}
	r.refuse(r.grant.reason, state, r.grant)
	return stop(r.grant.reason)
}

// refuse puts a retry that was denied when it was decided on record.
func (r *run) refuse(reason policy.Reason, state circuit.State, g grant) {
	r.launches++
	if r.rec == nil {
		return
	}
	l := launch{number: r.launches, grant: g, circuit: state, started: r.rec.now(r.e)}
	waited := r.backoff
	r.retry, r.backoff = r.retry+1, 0 // nothing has been waited for
	r.rec.denied(r, &l, reason)
	r.retry, r.backoff = r.retry-1, waited
}

// left is the time until the work must end, and what ends it.
func (r *run) left() (time.Duration, policy.Reason) {
	left, reason := decision.Unbounded, policy.Reason("")
	if r.deadline != 0 {
		left, reason = r.deadline-time.Since(epoch), policy.ReasonOverallTimeout
	}
	if deadline, ok := r.ctx.Deadline(); ok && time.Until(deadline) < left {
		left, reason = time.Until(deadline), policy.ReasonDeadlineExceeded
	}
	return left, reason
}

// causeOf is the cause behind a reason that does not come from the operation.
func causeOf(reason policy.Reason) error {
	switch reason {
	case policy.ReasonOverallTimeout:
		return ErrOverallTimeout
	case policy.ReasonDeadlineExceeded:
		return context.DeadlineExceeded
	case policy.ReasonCircuitOpen:
		return ErrCircuitOpen
	case policy.ReasonBudgetDenied, policy.ReasonBudgetNotFound:
		return ErrBudgetDenied
	}
	return nil
}

func (r *run) seedOf() uint64 {
	if !r.seeded {
		r.seed, r.seeded = decision.Seed(r.root.callID()), true
	}
	return r.seed
}

// shortest is the shortest wait that is worth a timer: below it, setting one takes longer than the wait.
const shortest = time.Microsecond

// wait waits for the next attempt. It returns "" when it is time, or the reason why there will be none.
func (r *run) wait(d time.Duration) policy.Reason {
	r.backoff = d
	switch {
	case r.e.options.Wait != nil:
		if r.e.options.Wait(r.ctx, d) != nil && r.ctx.Err() == nil {
			r.cause = context.Canceled
			return policy.ReasonCanceled
		}
	case d < shortest:
		runtime.Gosched()
	default:
		if r.timer == nil {
			r.timer = time.NewTimer(d)
		} else {
			r.timer.Reset(d)
		}
		select {
		case <-r.timer.C:
		case <-r.ctx.Done():
			r.timer.Stop()
		}
	}
	reason := r.over()
	if reason != "" {
		r.dropGrant()
	}
	return reason
}

// fail makes the error of a call that did not succeed.
func (r *run) fail(reason policy.Reason) error {
	p := r.plan
	return &Error{
		Key: p.key, Category: p.policy.Category.Code(), Operation: r.options.operation, PolicyID: p.policy.ID,
		Attempts: r.ran, Reason: reason, Last: r.last, Cause: r.cause,
	}
}
