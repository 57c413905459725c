package retry

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Work is a piece of work whose attempts are spread over time, such as a stored job. Its state and the waits between its
// attempts are kept elsewhere.
type Work struct {
	Key policy.Key
	// ID is the work's own ID; it seeds the delays.
	ID string
	// Turn counts from 1 how often the work has been started; it orders the events of its attempts.
	Turn int
	// Attempts is how many attempts ended before this one.
	Attempts int
	// MaxAttempts is the effective maximum; 0 takes the policy's.
	MaxAttempts int
	// Age is how long ago the first attempt began; overall_timeout counts from then. It is 0 for the first attempt. It is a
	// duration because a clock other than this process's may have measured the start.
	Age time.Duration
	// Refusals is how many times in a row the work has been refused.
	Refusals int
	// NextDelay, if set, computes the delays instead of the policy, from the number of failed attempts. Verdicts then mark
	// their delay as external.
	NextDelay func(failed int) time.Duration
}

// SeqPerTurn is the distance between the event numbers of two turns: a turn's events have Seq Turn·SeqPerTurn, + 1, + 2 …
const SeqPerTurn = 100

// Result is the result of a single attempt.
type Result struct {
	// Outcome is an abort if no attempt was made.
	Outcome classify.Outcome
	Verdict decision.Verdict
	// Err is nil after a success, else an [*Error].
	Err error
	// Denied is set if a breaker or budget refused the attempt: the operation did not run and no attempt was used up.
	Denied bool
	// Wait is how long denied work should wait: the policy's delay for the number of refusals in a row, but at least until
	// the breaker and the budget may allow the attempt.
	Wait time.Duration
}

// Once runs exactly one attempt of w and returns what should follow. It does not wait or hedge, it asks the breaker and the
// budget at launch, and it leaves idempotency to op.
func (e *Executor) Once(ctx context.Context, w Work, op Operation, options ...CallOption) Result {
	argument.Need(op != nil, "retry: the operation")
	p := e.planFor(ctx, w.Key)
	o := p.with(options)
	if o.id == "" {
		o.id = w.ID
	}
	o.limit, o.turn = max(w.MaxAttempts, 0), w.Turn
	single := once{before: w.Attempts, age: max(w.Age, 0), nextDelay: w.NextDelay}
	r := run{
		e: e, ctx: ctx, plan: p, options: o, once: &single,
		progress: progress{launches: w.Attempts, retry: w.Attempts, ended: w.Attempts},
	}
	r.begin(false)
	loop(&r, op, struct{}{}, nil)
	result := Result{Outcome: r.outcome, Verdict: r.verdict}
	if r.verdict.Action != decision.Done {
		result.Err = r.fail(r.verdict.Reason)
	}
	if r.ran == 0 && r.launches > w.Attempts {
		delay := decision.Delay(&r.plan.policy.Retry, decision.Seed(w.ID), w.Refusals)
		result.Denied, result.Wait = true, max(delay, r.refusedFor())
	}
	if r.recorded() {
		r.rec.finish(&r, r.verdict.Reason, result.Err, nil)
	}
	return result
}

// refusedFor returns how long it takes until the breaker, the budget and the rate limit may allow an attempt.
func (r *run) refusedFor() time.Duration {
	var wait time.Duration
	if b := r.plan.breaker; b != nil {
		wait = b.Wait(r.e.elapsed())
	}
	if b, ok := r.plan.budget.budget.(budget.Waiter); ok {
		wait = max(wait, b.Wait(r.plan.budget.ref))
	}
	if m := r.plan.limiter; m != nil {
		wait = max(wait, m.Wait(r.e.elapsed()))
	}
	return wait
}
