package job

import (
	"fmt"
	"math"
	"time"
)

// Bounds of one step, which is one transaction.
const (
	redriveBatch   = 1000   // jobs released, put back or looked at
	redriveDiscard = 20_000 // jobs removed from an ended selection
)

// Times between steps.
const (
	redriveTick = 100 * time.Millisecond // the shortest that a rate asks for
	redrivePoll = 250 * time.Millisecond // for outcomes on which a release waits
	redriveIdle = 2 * time.Second        // for outcomes of a redrive that releases nothing more
	redriveTurn = time.Second            // the longest
)

// RedriveVerdict is what a step of a redrive may do. At most one of Release, Undo, Discard and State is set.
type RedriveVerdict struct {
	Release int // jobs that may be released
	Undo    int // pending jobs to look at, and to put back if they have not been claimed
	Discard int // jobs to remove from an ended selection
	// State is how the redrive must end now, with the reason; "" if it goes on. It ends by RedriveEnd, once somebody has put the
	// judgement on record. Until then it releases nothing.
	State  RedriveState
	Reason string
	Wait   time.Duration // until the next step is worthwhile
}

// Decide returns what may happen at now. It is pure.
func (r *Redrive) Decide(now time.Time) RedriveVerdict {
	switch {
	case r.Undo:
		return RedriveVerdict{Undo: redriveBatch}
	case r.State.Ended() && r.Left() > r.Progress.Discarded:
		return RedriveVerdict{Discard: min(r.Left()-r.Progress.Discarded, redriveDiscard)}
	case r.State != RedriveRunning:
		return RedriveVerdict{Wait: redriveIdle}
	}
	if reason := r.mustStop(); reason != "" {
		return RedriveVerdict{State: RedriveStopped, Reason: reason}
	}
	n := min(r.Left(), redriveBatch)
	switch {
	case n == 0 && r.Pending() == 0:
		return RedriveVerdict{State: RedriveFinished}
	case n == 0:
		return RedriveVerdict{Wait: redrivePoll}
	}
	if r.inCanary() {
		n = min(n, r.Canary-r.Released)
	}
	if r.MaxPending > 0 {
		n = min(n, r.MaxPending-r.Pending())
	}
	if n <= 0 {
		return RedriveVerdict{Wait: redrivePoll}
	}
	if r.Rate == 0 {
		return RedriveVerdict{Release: n}
	}
	next := r.nextAt(now)
	if wait := next.Sub(now); wait > 0 {
		return RedriveVerdict{Wait: min(max(wait, redriveTick), redriveTurn)}
	}
	// The epsilon keeps whole numbers whole: 0.1 s at 50/s are 5 jobs.
	n = min(n, 1+int(math.Min(now.Sub(next).Seconds()*r.Rate+1e-6, redriveBatch)))
	wait := next.Add(r.span(n)).Sub(now)
	return RedriveVerdict{Release: n, Wait: min(max(wait, redriveTick), redriveTurn)}
}

// inCanary reports whether no job behind the canary may be released yet.
func (r *Redrive) inCanary() bool {
	return r.Canary > 0 && r.Released <= r.Canary && r.Completed < r.Canary
}

// nextAt is when the rate allows the next job. What was not released in more than a second is not caught up on.
func (r *Redrive) nextAt(now time.Time) time.Time {
	if earliest := now.Add(-time.Second); r.Progress.NextAt.Before(earliest) {
		if r.Progress.NextAt.IsZero() {
			return now
		}
		return earliest
	}
	// No step leaves it further ahead than one job takes: the clock was put back.
	if r.Progress.NextAt.After(now.Add(r.span(1) + redriveTurn)) {
		return now
	}
	return r.Progress.NextAt
}

// span is the time that the rate takes for n jobs.
func (r *Redrive) span(n int) time.Duration {
	return time.Duration(float64(n) / r.Rate * float64(time.Second))
}

// mustStop returns why a running redrive must stop, or "".
func (r *Redrive) mustStop() string {
	failed := r.Dead + r.Cancelled + r.Removed
	if r.inCanary() && failed > 0 {
		return fmt.Sprintf("canary: of %d jobs %d died again, %d were cancelled and %d were removed before their outcome was seen", r.Released, r.Dead, r.Cancelled, r.Removed)
	}
	ended := r.ended()
	if r.StopShare > 0 && r.Dead >= max(r.StopLeast, 1) && float64(r.Dead) >= r.StopShare*float64(ended) {
		return fmt.Sprintf("%d of %d jobs that have ended died again: %.3g %%, with a threshold of %.3g %% and at least %d jobs",
			r.Dead, ended, 100*float64(r.Dead)/float64(ended), 100*r.StopShare, max(r.StopLeast, 1))
	}
	return ""
}

// RedrivePhase is what a redrive does now.
type RedrivePhase string

// The phases.
const (
	PhaseCanary    RedrivePhase = "canary"    // releasing the canary, or waiting for it
	PhaseReleasing RedrivePhase = "releasing" // releasing the others
	PhaseSettling  RedrivePhase = "settling"  // nothing is left to release; some released jobs have not ended
	PhaseUndoing   RedrivePhase = "undoing"   // putting jobs back
	PhaseIdle      RedrivePhase = "idle"      // paused, or over
)

// Phase returns what the redrive does now.
func (r *Redrive) Phase() RedrivePhase {
	switch {
	case r.Undo:
		return PhaseUndoing
	case r.State == RedrivePaused:
		return PhaseIdle
	case r.State == RedriveRunning && r.inCanary():
		return PhaseCanary
	case r.State == RedriveRunning && r.Left() > 0:
		return PhaseReleasing
	case r.Pending() > 0:
		return PhaseSettling
	}
	return PhaseIdle
}

// Active reports whether a runner has something to do for the redrive.
func (r *Redrive) Active() bool {
	return r.Undo || r.State == RedriveRunning || r.Pending() > 0 || r.State.Ended() && r.Left() > r.Progress.Discarded
}

// RedriveEnded is a released job that has ended.
type RedriveEnded struct {
	ID    string
	State State // completed, dead or cancelled; "" for a job that was removed
}

// RedriveSelection is the part of a store that a step works on, in its transaction.
type RedriveSelection interface {
	// Settled looks at the first n pending jobs behind a position. It takes those that have ended out of the selection and
	// returns them, and the position of the last job that it looked at, or 0 if there are no more pending jobs behind it.
	Settled(after, n int) (ended []RedriveEnded, last int, err error)
	// Release runs the n jobs behind a position again, as ActionRetry does, and makes them pending. It leaves out, and takes out
	// of the selection, those that are not dead, that have been claimed since the selection was made, or whose unique key
	// another job holds. It returns how many it released.
	Release(after, n int) (released int, err error)
	// Undo looks at the first n pending jobs behind a position, as Settled does, and puts back those that have not been claimed
	// since they were released.
	Undo(after, n int) (undone, last int, err error)
	// Discard takes the n jobs behind a position out of the selection.
	Discard(after, n int) error
}

// Step takes one step at now: it counts outcomes, decides, and does what the verdict says, except for ending the redrive.
// Stores call it in a transaction that holds the redrive, and then store it. With an error nothing may be stored.
func (r *Redrive) Step(now time.Time, hold time.Duration, s RedriveSelection) (v RedriveVerdict, err error) {
	p := &r.Progress
	if hold <= 0 && now.Before(p.HeldUntil) {
		return RedriveVerdict{Wait: min(p.HeldUntil.Sub(now), redriveTurn)}, nil
	}
	if hold > 0 && p.HeldUntil.Before(now.Add(hold/2)) {
		p.HeldUntil = Stamp(now.Add(hold))
	}
	if r.Pending() > 0 && !r.Undo {
		ended, last, err := s.Settled(p.Seen, redriveBatch)
		if err != nil {
			return v, err
		}
		p.Seen = last
		r.count(ended)
	}
	v = r.Decide(now)
	switch {
	case v.Release > 0:
		released, err := s.Release(r.consumed(), v.Release)
		if err != nil {
			return v, err
		}
		if r.Rate > 0 {
			p.NextAt = Stamp(r.nextAt(now).Add(r.span(released)))
		}
		r.Released += released
		r.Skipped += v.Release - released
	case v.Undo > 0:
		undone, last, err := s.Undo(p.Seen, v.Undo)
		if err != nil {
			return v, err
		}
		r.Undone += undone
		p.Seen = last
		r.Undo = last > 0
	case v.Discard > 0:
		if err := s.Discard(r.consumed()+p.Discarded, v.Discard); err != nil {
			return v, err
		}
		p.Discarded += v.Discard
	}
	return v, nil
}

// maxDeadJobs is how many jobs that died again a redrive names.
const maxDeadJobs = 10

func (r *Redrive) count(ended []RedriveEnded) {
	for _, e := range ended {
		switch e.State {
		case Completed:
			r.Completed++
		case Dead:
			r.Dead++
			if len(r.DeadJobs) < maxDeadJobs {
				r.DeadJobs = append(r.DeadJobs, e.ID)
			}
		case Cancelled:
			r.Cancelled++
		default:
			r.Removed++
		}
	}
}
