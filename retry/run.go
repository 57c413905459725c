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

// epoch is the start of the monotonic readings that the mechanisms take, which are cheaper than time.Now.
var epoch = time.Now()

// noTimeout is the shortest timeout that counts as no timeout, 146 years. It keeps sums of times since epoch in range.
const noTimeout = time.Duration(math.MaxInt64 / 2)

// run is one call in progress. It lives on the caller's stack, and only the caller's goroutine uses it.
type run struct {
	e       *Executor
	plan    *plan
	ctx     context.Context
	options *callOptions
	once    *once // one attempt only; nil for a call
	rec     recorder
	root    *attemptCtx
	seed    seed

	progress
	pause
	faults
	nextGrant grant // of the next retry, which the budget granted when the retry was decided
	launch    launch
	verdict   decision.Verdict // the last

	returned bool // the loop returned: nothing panicked
}

// progress counts how far a call has come.
type progress struct {
	launches int // attempts admitted or denied so far
	ran      int // attempts whose operation was started
	retry    int // index of the running attempt or group
	ended    int // attempts or groups that ended
}

// pause is the wait before an attempt, and what bounds it.
type pause struct {
	backoff  time.Duration
	timer    *time.Timer   // made for the first wait of minTimerWait or more
	deadline time.Duration // of the call, since epoch; 0 without an overall timeout
}

// faults are the errors of a call.
type faults struct {
	last        error            // of the operation
	outcome     classify.Outcome // of the attempt or group judged last
	cause       error            // from outside the operation
	panicReason policy.Reason    // names the user code that panicked, or ""
	fellBack    string           // the result of the fallback: used, failed, or "" if it did not run
}

// seed is the seed of the delays' jitter.
type seed struct {
	value uint64
	known bool // false until the seed has been set, or derived from the call's ID
}

// recorded reports whether the call is recorded.
func (r *run) recorded() bool { return r.rec.call != nil }

// watched reports whether an observer or a journal receives the call's decisions.
func (r *run) watched() bool {
	return r.recorded() && (r.e.options.Observer != nil || r.e.options.Journal != nil)
}

// once holds what only a single attempt of stored work has.
type once struct {
	before    int                            // attempts of earlier turns
	age       time.Duration                  // of the work when the attempt began
	nextDelay func(failed int) time.Duration // computes delays in code; nil for the policy's
}

// launch is one admitted attempt.
type launch struct {
	ctx       *attemptCtx
	number    int
	hedge     int
	grant     grant
	ticket    circuit.Ticket
	hasTicket bool // the breaker has not got the ticket back yet
	place     place
	circuit   circuit.State
	settled   bool
	began     time.Duration // since epoch, after any wait for a place; only where the plan is timed
	started   time.Time     // of the record
	watch     *time.Timer   // reports an overrun
}

// left returns the time until the work must end, and the reason why it must.
func (r *run) left() (time.Duration, policy.Reason) { return r.leftUntil(r.deadline) }

// leftUntil is left with another deadline of the call, 0 for none.
func (r *run) leftUntil(deadline time.Duration) (time.Duration, policy.Reason) {
	left, reason := decision.Unbounded, policy.Reason("")
	if deadline != 0 {
		left, reason = deadline-r.e.elapsed(), policy.ReasonOverallTimeout
	}
	if deadline, ok := r.ctx.Deadline(); ok && r.e.until(deadline) < left {
		left, reason = r.e.until(deadline), policy.ReasonDeadlineExceeded
	}
	return left, reason
}

// seedOf returns the seed of the delays' jitter.
func (r *run) seedOf() uint64 {
	switch w := r.e.options.World; {
	case r.seed.known:
	case w != nil && r.options.id == "":
		r.seed = seed{w.Seed(), true}
	default:
		id := r.root.callID()
		if r.options.step != "" {
			id += "/" + r.options.step
		}
		r.seed = seed{decision.Seed(id), true}
	}
	return r.seed.value
}

// hedged reports whether attempts are made as hedged groups.
func (r *run) hedged() bool {
	return r.plan.hedge.trigger != nil && r.once == nil && r.options.hedgeable()
}
