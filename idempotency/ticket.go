package idempotency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/observe"
)

// Ticket is the answer to [Guard.Begin]: a claim that is kept live by renewals, or a stored result. The owner of a ticket
// that is not Replayed settles it exactly once, with Complete, Fail, Release or Abandon. A settlement may be repeated after
// a *[RecordError]. Its methods are safe for concurrent use.
type Ticket struct {
	guard  *Guard
	work   *observe.Work // nil without an observer or journal
	record Record
	ctx    context.Context         // of the effect; nil if replayed
	cancel context.CancelCauseFunc // ends it

	watched watched // guarded by the guard's watch
	brief   bool    // guarded likewise: the ticket left the watch before its first renewal, so that no timer refers to it

	mu       sync.Mutex         // guards all below
	timer    *time.Timer        // of all renewals but the first; nil before the first
	end      time.Time          // the time until which the claim is certain to be live
	settling bool               // renewals have ended
	renewal  chan struct{}      // closed when the running renewal has ended; nil while none runs
	abort    context.CancelFunc // ends it early
}

// A settlement that the store did not take is repeated after pauses that grow between these.
const (
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// ticket makes the ticket of a begin that returned Run or Replay.
func (g *Guard) ticket(ctx context.Context, r *Request, b *Begun, end time.Time) *Ticket {
	t := tickets.Get().(*Ticket)
	t.guard, t.record = g, b.Record
	if g.told() {
		work := r.Work
		t.work = &work
	}
	if b.Verdict != Run {
		return t
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.end = end
	g.watch.add(t, end.Add(-g.options.Lease))
	return t
}

// tickets holds used tickets for reuse. Only tickets that never left [Once] are reused, which is most of them.
var tickets = sync.Pool{New: func() any { return new(Ticket) }}

// recycle puts a settled ticket into tickets. The caller holds the only reference to it.
func (t *Ticket) recycle() {
	if t.brief {
		*t = Ticket{}
		tickets.Put(t)
	}
}

// Replayed reports whether the effect has happened before. If so, Result returns its result, and there is nothing to settle.
func (t *Ticket) Replayed() bool { return t.ctx == nil }

// Result returns a copy of the stored result of a replayed ticket, and whether there is one. A result is never nil.
func (t *Ticket) Result() (result []byte, present bool) {
	if !t.Replayed() || !t.record.HasResult {
		return nil, false
	}
	return append([]byte{}, t.record.Result...), true
}

// Record returns a copy of the record after the begin. To commit effect and record together, pass its claim to the SettleTx
// of an SQL store; complete the ticket all the same.
func (t *Ticket) Record() Record {
	r := t.record
	r.Result = bytes.Clone(r.Result)
	if r.Failure != nil {
		f := *r.Failure
		r.Failure = &f
	}
	return r
}

// Context returns the context of the effect; nil if replayed. It ends with the context of the begin, with the settlement, and
// when the claim is lost. In the last case its cause is ErrFenced, or the error because of which the claim could not be
// renewed before it lapsed.
func (t *Ticket) Context() context.Context { return t.ctx }

// due renews the claim, and ends the effect's context when the claim is lost. It continues after the end of that context,
// since the effect may still be running. During a settlement, it ends the settlement's first attempt instead.
func (t *Ticket) due() {
	lease := t.guard.options.Lease
	t.mu.Lock()
	if t.settling {
		t.mu.Unlock()
		t.cancel(errSlow)
		return
	}
	longest := lease / 3
	if left := time.Until(t.end); left > 0 { // an answer that comes after the lapse is of no use
		longest = min(longest, left)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), longest)
	defer cancel()
	done := make(chan struct{})
	t.renewal, t.abort = done, cancel
	t.mu.Unlock()

	asked := time.Now()
	err := t.guard.store.Renew(ctx, t.record.Claim(), lease)

	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(done)
	t.renewal = nil
	switch left := time.Until(t.end); {
	case t.settling:
	case err == nil:
		t.end = asked.Add(lease)
		t.again(lease / 3)
	case errors.Is(err, ErrFenced):
		t.cancel(ErrFenced)
	case left <= 0:
		t.cancel(fmt.Errorf("idempotency: the claim has lapsed: %w", err))
	default:
		t.again(min(lease/10, left))
	}
}

// again schedules due to run after d.
func (t *Ticket) again(d time.Duration) {
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.due)
		return
	}
	t.timer.Reset(d)
}

var errSlow = errors.New("idempotency: the store takes too long to settle")

// stop ends the renewals, and waits for a running one. It returns the time until which the claim is certain to be live. The
// remaining time of the timer bounds the first attempt to settle.
func (t *Ticket) stop() time.Time {
	t.mu.Lock()
	t.settling = true
	running := t.renewal
	if running != nil {
		t.abort()
	}
	end := t.end
	t.mu.Unlock()
	if running == nil {
		return end
	}
	<-running
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again(t.guard.options.Lease / 3)
	return t.end
}

// leave ends the effect's context, its timer and its place in the watch.
func (t *Ticket) leave() {
	t.guard.watch.remove(t)
	t.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// Complete records that the effect has happened, with its result if present. It returns a *[ResultError] if the result is
// larger than the guard keeps; the effect is then recorded without it. It returns a *[RecordError] if nothing could be
// recorded before the lease ended. It records even if the context has ended.
func (t *Ticket) Complete(ctx context.Context, result []byte, present bool) error {
	limit := t.guard.options.MaxResult
	if !present || len(result) <= limit {
		return classify.Permanent(t.settle(ctx, Settlement{State: Completed, HasResult: present, Result: result}, actionRecord))
	}
	return t.completeWithout(ctx, Failure{
		FailureResultTooLarge, fmt.Sprintf("the result has %d bytes, more than the limit of %d", len(result), limit),
	})
}

// completeWithout records an effect without its result, which cannot be kept.
func (t *Ticket) completeWithout(ctx context.Context, f Failure) error {
	if err := t.settle(ctx, Settlement{State: Completed, Failure: &f}, actionRecord); err != nil {
		return classify.Permanent(err)
	}
	return classify.Permanent(&ResultError{ID: t.record.ID, Failure: f})
}

// Fail records that the effect has failed for good, with its error: later callers get the error and do not run. Errors are
// as for [Ticket.Complete].
func (t *Ticket) Fail(ctx context.Context, cause error) error {
	return t.fail(ctx, failureOf(cause))
}

func (t *Ticket) fail(ctx context.Context, f *Failure) error {
	return t.settle(ctx, Settlement{State: Failed, Failure: f}, actionFailed)
}

// Release records that the effect ended without an outcome to keep, so that the next caller runs. The cause may be nil.
// Errors are as for [Ticket.Complete].
func (t *Ticket) Release(ctx context.Context, cause error) error {
	return t.release(ctx, failureOf(cause))
}

func (t *Ticket) release(ctx context.Context, f *Failure) error {
	return t.settle(ctx, Settlement{State: Released, Failure: f}, actionReleased)
}

// Abandon gives up the claim without a record, because it is not known whether the effect happened. Until the lease ends,
// other callers find the key in flight. Then its outcome is unknown or, if the guard is ReplaySafe, the next caller runs.
func (t *Ticket) Abandon() {
	if t.Replayed() {
		return
	}
	t.stop()
	t.leave()
	t.guard.tellAfter(t.ctx, t.work, &t.record, action{actionUnknown, "abandoned"})
}

// settle records how the effect ended. It repeats the recording, never the effect, until the lease ends.
func (t *Ticket) settle(ctx context.Context, s Settlement, done string) error {
	if t.Replayed() {
		return fmt.Errorf("idempotency: %s was replayed, there is nothing to settle: %w", t.record.ID, ErrFenced)
	}
	s.TTL = t.guard.options.TTL
	end := t.stop()
	defer t.leave()
	// The first attempt runs under the effect's own context, which saves a new one. If that context ends, so does the attempt.
	err := t.ctx.Err()
	if err == nil {
		err = t.guard.store.Settle(t.ctx, t.record.Claim(), s)
	}
	if err != nil && !errors.Is(err, ErrFenced) {
		err = t.settleOn(context.WithoutCancel(ctx), s, end)
	}
	detail := ""
	if s.Failure != nil {
		detail = s.Failure.Type
	}
	switch {
	case err == nil:
		t.guard.tellAfter(ctx, t.work, &t.record, action{done, detail})
		t.guard.sweep(ctx)
		return nil
	case errors.Is(err, ErrFenced):
		t.guard.tellAfter(ctx, t.work, &t.record, action{actionFenced, done})
	default:
		t.guard.tellAfter(ctx, t.work, &t.record, action{actionUnknown, done + " could not be recorded"})
	}
	return &RecordError{t.record.ID, err}
}

// settleOn tries to settle until the lease ends, and at least once.
func (t *Ticket) settleOn(ctx context.Context, s Settlement, end time.Time) error {
	for backoff := (wait.Backoff{Min: firstPause, Max: longPause}); ; {
		err := t.settleOnce(ctx, s)
		left := time.Until(end)
		if err == nil || errors.Is(err, ErrFenced) || left <= 0 {
			return err
		}
		_ = wait.For(ctx, min(backoff.Failed(), left))
	}
}

// settleOnce makes one attempt to settle, with a timeout, so that an attempt that hangs leaves time for others.
func (t *Ticket) settleOnce(ctx context.Context, s Settlement) error {
	ctx, cancel := context.WithTimeout(ctx, t.guard.options.Lease/3)
	defer cancel()
	return t.guard.store.Settle(ctx, t.record.Claim(), s)
}
