package retry

import (
	"context"
	"math"
	"time"

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
	verdict decision.Verdict // the last
	plain   bool             // a success needs neither classifier, record nor digest
	once    *once            // one attempt only; nil for a call
}

// once is what a single attempt of stored work has beside a call: the verdict goes to whoever asked.
type once struct {
	before    int                            // attempts of earlier turns
	age       time.Duration                  // of the work when the attempt began
	nextDelay func(failed int) time.Duration // delays computed in code; nil for the policy's
	outcome   classify.Outcome               // of the attempt
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

// begin prepares a call: what its options change, its deadline and its recorder.
func (r *run) begin(timeline bool) {
	o := r.options
	if o.edit != nil || o.category != "" && r.plan.policy.Category == "" {
		r.plan = r.e.edited(r.plan, o)
		o.plan = r.plan
	}
	r.seed, r.seeded = o.seed, o.seeded
	if overall := r.plan.policy.Retry.OverallTimeout; overall > 0 && overall < never {
		r.deadline = time.Since(epoch) + overall
		if r.once != nil {
			r.deadline -= r.once.age
		}
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

// settle decides what follows an attempt's or a group's outcome. A retry that breaker, budget or journal refuse becomes
// a stop before anybody waits for it.
func (r *run) settle(j *judgement, ended []int, deciding int) decision.Action {
	r.ended++
	s := decision.State{Surface: r.plan.surface, Attempt: r.ended, MaxAttempts: r.options.limit, Left: decision.Unbounded}
	if j.outcome.Kind == classify.Success {
		r.verdict = decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess}
	} else {
		r.verdict = r.next(&s, j.outcome)
	}
	if r.once != nil {
		r.once.outcome = j.outcome
	}
	if r.rec != nil {
		r.verdict = r.rec.decided(r, j, s, r.verdict, ended, deciding)
	}
	return r.verdict.Action
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
	external := r.once != nil && r.once.nextDelay != nil
	if external {
		asked.Left = decision.Unbounded // whether the policy's own delay would fit does not matter
	}
	v := decision.Next(retry, asked, o)
	if v.Action == decision.Retry && external {
		v = decision.External(r.once.nextDelay(r.ended), *s, o, retry.MaxPushback)
		v.External = true // a stop too: it cannot be derived without the delay
	}
	if v.Action == decision.Retry && r.once == nil {
		v = r.permit(v)
	}
	if v.Action == decision.Stop && r.cause == nil {
		r.cause = causeOf(v.Reason)
	}
	return v
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
		id := r.root.callID()
		if r.options.step != "" {
			id += "/" + r.options.step
		}
		r.seed, r.seeded = decision.Seed(id), true
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
			r.dropGrant()
			r.cause = context.Canceled
			return policy.ReasonCanceled
		}
	case d >= shortest:
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
	p, attempts := r.plan, r.ran
	if r.once != nil {
		attempts += r.once.before
	}
	return &Error{
		Key: p.key, Category: p.policy.Category.Code(), Operation: r.options.operation, PolicyID: p.policy.ID,
		Attempts: attempts, Reason: reason, Last: r.last, Cause: r.cause,
	}
}
