package job

import (
	"slices"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// The functions of this file are the state machine. They are pure. Stores that keep whole records call them; stores that
// update rows in SQL do the same in SQL, which package storetest checks.

// Due reports whether the job may be claimed at now.
func (r *Record) Due(now time.Time) bool {
	return (r.State == Ready || r.State == Scheduled) && !r.RunAt.After(now)
}

// Before reports whether r comes before other in the order in which jobs of a queue are claimed: priority, then run_at, then ID.
func (r *Record) Before(other *Record) bool {
	if r.Priority != other.Priority {
		return r.Priority < other.Priority
	}
	if !r.RunAt.Equal(other.RunAt) {
		return r.RunAt.Before(other.RunAt)
	}
	return r.ID < other.ID
}

// New returns the record of an insert at now.
func New(in Insert, now time.Time) *Record {
	now = Stamp(now)
	r := &Record{
		ID: in.ID, Type: in.Type, Queue: in.Queue, State: Ready, Priority: in.Priority, Payload: in.Payload, Meta: in.Meta,
		Timeout: in.Timeout, MaxAttempts: in.MaxAttempts, UniqueKey: in.UniqueKey, CreatedAt: now, RunAt: Stamp(in.RunAt),
	}
	if r.RunAt.IsZero() {
		r.RunAt = now
	}
	if r.RunAt.After(now) {
		r.State = Scheduled
	}
	if in.WaitsFor != "" {
		r.State, r.WaitsFor = Waiting, in.WaitsFor
	}
	return r
}

// Claim leases the job.
func (r *Record) Claim(worker string, lease time.Duration, now time.Time) {
	now = Stamp(now)
	r.State, r.Worker, r.LeaseUntil, r.ClaimedAt = Running, worker, Stamp(now.Add(lease)), now
	r.Fence++
}

// Holds returns nil if a lease is valid for the job at now, or else, in this order of precedence, ErrNotRunning,
// ErrLeaseExpired or ErrFenced.
func (r *Record) Holds(lease Ref, now time.Time) error {
	switch {
	case r.State != Running:
		return ErrNotRunning
	case !Stamp(now).Before(r.LeaseUntil):
		return ErrLeaseExpired
	case r.Fence != lease.Fence:
		return ErrFenced
	}
	return nil
}

// Repeats reports whether s repeats a settlement under the same token, as the record and its history show.
func (r *Record) Repeats(history []Attempt, s Settlement) bool {
	if s.Kind == KindRefuse { // refusals in a row are not in the history; each had the next token
		last := r.Fence
		if r.State == Running || r.State == Dead { // the last token is another claim's, or the burial's
			last--
		}
		return s.Fence <= last && s.Fence > last-int64(r.Refusals)
	}
	if s.Kind == KindBury {
		return r.State == Dead && r.Fence == s.Fence // leaves no row in the history
	}
	return slices.ContainsFunc(history, func(a Attempt) bool { return a.Fence == s.Fence && a.Kind == s.Kind })
}

// CancelledBy reports whether a settlement after which the job would have run again has cancelled it, because an operator had asked for
// that.
func (r *Record) CancelledBy(s Settlement) bool {
	return r.State == Cancelled && r.CancelRequested() && r.Fence == s.Fence && s.Kind != KindCancel
}

// Outcome returns the outcome that the history shows for a settlement of this kind.
func (k Kind) Outcome() AttemptOutcome {
	switch k {
	case KindComplete:
		return AttemptCompleted
	case KindRelease:
		return AttemptInterrupted
	case KindSnooze:
		return AttemptSnoozed
	case KindRefuse:
		return AttemptRefused
	case KindCancel:
		return AttemptCancelled
	}
	return AttemptFailed
}

// Settle applies a settlement by the holder of the lease at now and returns the rows to add to the history. Consecutive
// refusals stay on the record and become one row with a count when another settlement follows.
func (r *Record) Settle(s Settlement, now time.Time) []Attempt {
	now, s.Delay = Stamp(now), min(s.Delay, MaxDelay)
	a := Attempt{
		Number: r.Failures + 1, Fence: s.Fence, Kind: s.Kind, Worker: r.Worker, Started: s.Began(r.ClaimedAt, now), Finished: now,
		Outcome: s.Kind.Outcome(), Reason: s.Reason, Error: CleanText(s.Error), Stack: CleanText(s.Stack), Delay: s.Delay, Count: 1,
	}
	if s.Ran() {
		r.start(a.Started)
	}
	r.free()
	if s.Kind == KindRefuse {
		if r.Refusals == 0 {
			r.RefusedAt = now
		}
		r.Refusals++
		r.RefusedReason = s.Reason
		r.reschedule(now, s.Delay)
		if r.CancelRequested() {
			r.State, r.FinishedAt = Cancelled, now
		}
		return nil
	}
	if s.Kind == KindBury {
		r.State, r.FinishedAt, r.Reason, r.Cause = Dead, now, s.Reason, s.Cause()
		return nil
	}
	rows := append(r.refusals(now), a)
	r.Refusals, r.RefusedReason, r.RefusedAt = 0, "", time.Time{}
	switch s.Kind {
	case KindComplete:
		r.State, r.FinishedAt, r.Output, r.Reason = Completed, now, s.Output, s.Reason
	case KindCancel:
		r.State, r.FinishedAt, r.Reason = Cancelled, now, s.Reason
	case KindRelease:
		r.reschedule(now, 0)
	case KindSnooze:
		r.reschedule(now, s.Delay)
	case KindRetry:
		r.failed(a)
		r.reschedule(now, s.Delay)
	case KindDead:
		r.failed(a)
		r.State, r.FinishedAt, r.Cause = Dead, now, s.Cause()
	}
	if r.CancelRequested() && !r.State.Finished() {
		r.State, r.FinishedAt = Cancelled, now
	}
	return rows
}

// Cause returns the cause of death that a settlement of KindDead or KindBury gives its job, and "" for other kinds.
func (s *Settlement) Cause() string {
	switch s.Kind {
	case KindDead:
		return CauseOf(CleanText(s.Error), s.Reason)
	case KindBury:
		return CauseOf("", s.Reason)
	}
	return ""
}

// Lose reclaims an expired lease: the attempt counts as failed. A job that has reached its own maximum of attempts is dead;
// for a maximum in the policy, the next worker that claims the job decides.
func (r *Record) Lose(now time.Time) []Attempt {
	now = Stamp(now)
	a := Attempt{
		Number: r.Failures + 1, Fence: r.Fence, Worker: r.Worker, Started: r.ClaimedAt, Finished: now,
		Outcome: AttemptLost, Reason: policy.ReasonLeaseExpired, Error: "the lease expired before the attempt was settled", Count: 1,
	}
	r.start(a.Started)
	r.free()
	rows := append(r.refusals(now), a)
	r.Refusals, r.RefusedReason, r.RefusedAt = 0, "", time.Time{}
	r.failed(a)
	switch {
	case r.CancelRequested():
		r.State, r.FinishedAt = Cancelled, now
	case r.MaxAttempts > 0 && r.Failures >= r.MaxAttempts:
		r.State, r.FinishedAt, r.Cause = Dead, now, CauseOf(a.Error, a.Reason)
	default:
		r.reschedule(now, 0)
	}
	return rows
}

// refusals returns the history row of the consecutive refusals so far, if any.
func (r *Record) refusals(now time.Time) []Attempt {
	if r.Refusals == 0 {
		return nil
	}
	return []Attempt{{
		Number: r.Failures + 1, Worker: r.Worker, Started: r.RefusedAt, Finished: now,
		Outcome: AttemptRefused, Reason: r.RefusedReason, Count: r.Refusals,
	}}
}

// History returns the stored history with the refusals that are still on the record.
func (r *Record) History(stored []Attempt) []Attempt {
	return append(stored, r.refusals(r.RefusedAt)...)
}

// start notes when the first attempt that ran began.
func (r *Record) start(at time.Time) {
	if r.StartedAt.IsZero() {
		r.StartedAt = at
	}
}

func (r *Record) free() { r.LeaseUntil = time.Time{} }

func (r *Record) reschedule(now time.Time, delay time.Duration) {
	r.RunAt = Stamp(now.Add(delay))
	r.State = Ready
	if r.RunAt.After(now) {
		r.State = Scheduled
	}
}

func (r *Record) failed(a Attempt) {
	r.Failures++
	r.LastError, r.FailedAt, r.Reason = a.Error, a.Finished, a.Reason
}
