package job

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/policy"
)

// Redriver is implemented by stores that keep redrives. A redrive runs a fixed selection of dead jobs again, a part at a time.
//
// All methods but PreviewRedrive and CreateRedrive cost the same for a selection of any size. They return ErrNotFound for a
// redrive that does not exist.
type Redriver interface {
	// PreviewRedrive counts the dead jobs that a filter selects now, by queue and type.
	PreviewRedrive(ctx context.Context, f Filter) ([]RedriveGroup, error)
	// CreateRedrive selects dead jobs and counts them, in one transaction. It returns ErrNotFound where the filter selects none,
	// and ErrConflict for an ID that exists.
	CreateRedrive(ctx context.Context, n NewRedrive) (Redrive, error)
	// Redrive returns a redrive.
	Redrive(ctx context.Context, id string) (Redrive, error)
	// Redrives lists redrives, newest first.
	Redrives(ctx context.Context, q RedriveQuery) ([]Redrive, error)
	// UpdateRedrive applies a change as Redrive.Apply does.
	UpdateRedrive(ctx context.Context, id string, c RedriveChange) (Redrive, error)
}

// RedriveStepper is implemented by stores whose redrives a [RedriveRunner] can run.
type RedriveStepper interface {
	Redriver
	// StepRedrive counts outcomes, decides and releases jobs in one transaction, as Redrive.Step does. Any number of runners may
	// call it: they take turns. A hold above 0 keeps runners without one from the redrive for this time.
	StepRedrive(ctx context.Context, id string, hold time.Duration) (Redrive, RedriveVerdict, error)
}

// RedriveState is the state of a redrive:
//
//	running ⇄ paused
//	running, paused → aborted (an operator)
//	running → stopped (its canary failed, or too many jobs died again) | finished
type RedriveState string

// The states of redrives.
const (
	RedriveRunning  RedriveState = "running"
	RedrivePaused   RedriveState = "paused"
	RedriveAborted  RedriveState = "aborted"
	RedriveStopped  RedriveState = "stopped"
	RedriveFinished RedriveState = "finished" // every job was released or skipped, and every released one has ended
)

// Ended reports whether no further jobs will be released.
func (s RedriveState) Ended() bool { return s != RedriveRunning && s != RedrivePaused }

// RedrivePlan says how a redrive releases its jobs. The zero value releases them all as fast as the store allows.
type RedrivePlan struct {
	// Rate is the number of jobs that are released per second: 0 for no limit, or 0.001 to 1,000,000. A runner that was away
	// catches up on one second at most.
	Rate float64 `json:"rate,omitempty"`
	// Canary is the number of jobs that are released first. All of them must complete before the others follow.
	Canary int `json:"canary,omitempty"`
	// StopShare stops the redrive when this share (above 0, at most 1) of the released jobs that have ended died again, and
	// these are at least StopLeast. 0 never stops it. The default of StopLeast is 10, or that share of the selection if this is
	// less, but at least 1; it goes with StopShare only.
	StopShare float64 `json:"stop_share,omitempty"`
	StopLeast int     `json:"stop_least,omitempty"`
	// MaxPending bounds the released jobs that have not ended. Default: 1,000 with StopShare, so that there is something left to
	// stop; otherwise there is no bound.
	MaxPending int `json:"max_pending,omitempty"`
}

// NewRedrive asks for a redrive.
type NewRedrive struct {
	ID     string // UUIDv7; required
	Filter Filter // of dead jobs; its States are ignored
	Actor  string // who asks; at most 255 bytes
	RedrivePlan
	// CanaryShare is the canary as a share of the selection, above 0 and at most 1, instead of its number.
	CanaryShare float64
	// HeldFor keeps runners without a hold from the redrive at first: for programs that run redrives themselves.
	HeldFor time.Duration
}

// RedriveGroup counts the jobs of a queue and type in a selection.
type RedriveGroup struct {
	Queue string `json:"queue"`
	Type  string `json:"type"`
	Jobs  int    `json:"jobs"`
}

// RedriveCounts count the jobs of a redrive.
type RedriveCounts struct {
	Total    int `json:"total"`    // selected
	Released int `json:"released"` // run again
	Skipped  int `json:"skipped"`  // not released: they had left the dead state otherwise, or another job holds their unique key
	// Of the released ones:
	Completed int `json:"completed"`
	Dead      int `json:"dead"` // again
	Cancelled int `json:"cancelled"`
	Removed   int `json:"removed"` // before their outcome was seen
	Undone    int `json:"undone"`  // put back before they ran
}

// ended is how many released jobs have ended.
func (c RedriveCounts) ended() int { return c.Completed + c.Dead + c.Cancelled + c.Removed }

// Pending is how many released jobs have not ended.
func (c RedriveCounts) Pending() int { return c.Released - c.ended() - c.Undone }

// Left is how many jobs have been neither released nor skipped.
func (c RedriveCounts) Left() int { return c.Total - c.consumed() }

func (c RedriveCounts) consumed() int { return c.Released + c.Skipped }

// Redrive is a stored redrive. Times are UTC with microseconds.
type Redrive struct {
	ID      string       `json:"id"`
	Filter  string       `json:"filter"`
	Actor   string       `json:"actor"`
	Created time.Time    `json:"created"`
	State   RedriveState `json:"state"`
	Reason  string       `json:"reason,omitempty"` // why it stopped or was aborted
	Ended   time.Time    `json:"ended,omitzero"`
	// Undo says that released jobs which have not run are being put back.
	Undo bool `json:"undo,omitempty"`
	// DeadJobs are the first jobs that died again, at most 10.
	DeadJobs []string       `json:"dead_jobs,omitempty"`
	Groups   []RedriveGroup `json:"groups,omitempty"` // of the selection, the largest first
	RedrivePlan
	RedriveCounts
	Progress RedriveProgress `json:"progress"`
}

// RedriveProgress is what one step of a redrive notes for the next. Positions in the selection count from 1.
type RedriveProgress struct {
	NextAt    time.Time `json:"next_at,omitzero"`    // when the rate allows the next job
	Seen      int       `json:"seen,omitempty"`      // the position of the last pending job that was looked at; 0 at the start
	Discarded int       `json:"discarded,omitempty"` // jobs removed from an ended selection
	HeldUntil time.Time `json:"held_until,omitzero"`
}

// RedriveQuery asks for redrives.
type RedriveQuery struct {
	Below  string // only lower IDs; "" for all
	Limit  int    // default 100
	Active bool   // only redrives that a runner has something to do for
}

// RedriveError says what is wrong with a request for a redrive.
type RedriveError struct {
	Field   string
	Problem string
}

// Error implements error.
func (e *RedriveError) Error() string { return "job: redrive: " + e.Field + ": " + e.Problem }

// Check returns an error of type *RedriveError or *filter.Error for a request that no store accepts.
func (n *NewRedrive) Check() error {
	switch {
	case len(n.ID) != 36:
		return &RedriveError{"id", "it is not a UUID"}
	case len(n.Actor) > 255:
		return &RedriveError{"actor", "it has more than 255 bytes"}
	case n.Canary > 0 && n.CanaryShare > 0:
		return &RedriveError{"canary", "it is a number or a share, not both"}
	case !share(n.CanaryShare):
		return &RedriveError{"canary_share", "write a share above 0 and at most 1"}
	case n.StopLeast > 0 && n.StopShare == 0:
		return &RedriveError{"stop_least", "it needs the share at which the redrive stops: give stop_share (--stop-at) too"}
	case n.HeldFor < 0 || n.HeldFor > time.Hour:
		return &RedriveError{"held_for", "it is not between 0 and 1 h"}
	}
	if err := n.check(); err != nil {
		return err
	}
	return n.Filter.Check()
}

func share(f float64) bool { return f >= 0 && f <= 1 }

func (p *RedrivePlan) check() error {
	switch {
	case p.Rate != 0 && !(p.Rate >= 0.001 && p.Rate <= 1e6):
		return &RedriveError{"rate", "write 0, or 0.001 to 1,000,000 jobs per second"}
	case p.Canary < 0:
		return &RedriveError{"canary", "it is negative"}
	case !share(p.StopShare):
		return &RedriveError{"stop_share", "write a share above 0 and at most 1"}
	case p.StopLeast < 0:
		return &RedriveError{"stop_least", "it is negative"}
	case p.MaxPending < 0:
		return &RedriveError{"max_pending", "it is negative"}
	}
	return nil
}

// Selects returns the filter for the dead jobs of the selection.
func (n *NewRedrive) Selects() Filter { return deadOnly(n.Filter) }

func deadOnly(f Filter) Filter {
	f.States = []State{Dead}
	return f
}

// The defaults of plans.
const (
	defaultStopLeast  = 10
	defaultMaxPending = 1000
)

// Start returns the redrive of a selection, which is not empty, at now.
func (n *NewRedrive) Start(groups []RedriveGroup, now time.Time) Redrive {
	r := Redrive{
		ID: n.ID, Filter: describe(n.Filter), Actor: CleanText(n.Actor), Created: Stamp(now), State: RedriveRunning, Groups: SortGroups(groups), RedrivePlan: n.RedrivePlan,
	}
	for _, g := range groups {
		r.Total += g.Jobs
	}
	if n.CanaryShare > 0 {
		r.Canary = int(math.Ceil(n.CanaryShare * float64(r.Total)))
	}
	r.Canary = min(r.Canary, r.Total)
	if r.StopShare > 0 {
		r.StopLeast = cmp.Or(r.StopLeast, max(1, min(defaultStopLeast, int(math.Ceil(r.StopShare*float64(r.Total))))))
		r.MaxPending = cmp.Or(r.MaxPending, defaultMaxPending)
	}
	if n.HeldFor > 0 {
		r.Progress.HeldUntil = Stamp(now.Add(n.HeldFor))
	}
	return r
}

// describe returns the text of a filter, without secrets and states, and without IDs where they are many.
func describe(f Filter) string {
	f.States, f.Terms = nil, new(secrets.Redaction).Terms(f.Terms)
	many := len(f.IDs)
	if many <= filter.MaxValues {
		return f.String()
	}
	f.IDs = nil
	return strings.TrimSpace(fmt.Sprintf("id:(%d jobs) %s", many, f.String()))
}

// SortGroups sorts groups by size, the largest first, then by name, in place.
func SortGroups(groups []RedriveGroup) []RedriveGroup {
	slices.SortFunc(groups, func(a, b RedriveGroup) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
	})
	return groups
}

// RedriveAction is a change of a redrive.
type RedriveAction string

// The actions. All but RedriveEnd are an operator's.
const (
	RedrivePause   RedriveAction = "pause"
	RedriveResume  RedriveAction = "resume"
	RedriveAbort   RedriveAction = "abort"    // releases no further jobs
	RedriveUndo    RedriveAction = "undo"     // aborts, and puts back the released jobs that have not been claimed
	RedriveSetRate RedriveAction = "set_rate" // to RedriveChange.Rate
	RedriveEnd     RedriveAction = "end"      // as a verdict of Redrive.Decide says
)

// RedriveChange changes a redrive.
type RedriveChange struct {
	Action RedriveAction
	Rate   float64      // of RedriveSetRate
	Actor  string       // of RedriveAbort and RedriveUndo
	State  RedriveState // of RedriveEnd: stopped or finished
	Reason string       // of RedriveEnd
}

// Apply changes the redrive at now. It returns an error that wraps ErrConflict if its state does not allow the change, or a
// *RedriveError. Pausing, resuming and aborting again change nothing.
func (r *Redrive) Apply(c RedriveChange, now time.Time) error {
	refused := fmt.Errorf("%w: the redrive is %s", ErrConflict, r.State)
	switch c.Action {
	case RedrivePause:
		if r.State.Ended() {
			return refused
		}
		r.State = RedrivePaused
	case RedriveResume:
		if r.State.Ended() {
			return refused
		}
		r.State = RedriveRunning
	case RedriveAbort:
		if r.State.Ended() && r.State != RedriveAborted {
			return refused
		}
		r.end(RedriveAborted, "by "+c.Actor, now)
	case RedriveUndo:
		if r.Pending() == 0 && r.State.Ended() {
			return fmt.Errorf("%w: no released job is pending, so nothing can be put back", ErrConflict)
		}
		r.end(RedriveAborted, "by "+c.Actor, now)
		if !r.Undo {
			r.Undo, r.Progress.Seen = true, 0
		}
	case RedriveSetRate:
		plan := r.RedrivePlan
		plan.Rate = c.Rate
		if err := plan.check(); err != nil {
			return err
		}
		if r.State.Ended() {
			return refused
		}
		r.Rate, r.Progress.NextAt = c.Rate, Stamp(now)
	case RedriveEnd:
		if c.State != RedriveStopped && c.State != RedriveFinished {
			return fmt.Errorf("%w: a redrive does not end as %q", ErrConflict, c.State)
		}
		if r.State != RedriveRunning {
			return refused
		}
		r.end(c.State, c.Reason, now)
	default:
		return fmt.Errorf("%w: unknown action %q", ErrConflict, c.Action)
	}
	return nil
}

// end ends the redrive, unless it has ended.
func (r *Redrive) end(as RedriveState, reason string, now time.Time) {
	if !r.State.Ended() {
		r.State, r.Reason, r.Ended = as, CleanText(reason), Stamp(now)
	}
}

// DeadFacts are the facts of a dead job that running it again overwrites.
type DeadFacts struct {
	RunAt           time.Time     `json:"run_at"`
	FinishedAt      time.Time     `json:"finished_at"`
	StartedAt       time.Time     `json:"started_at,omitzero"`
	CancelRequested time.Time     `json:"cancel_requested,omitzero"`
	RefusedAt       time.Time     `json:"refused_at,omitzero"`
	Failures        int           `json:"failures,omitempty"`
	Refusals        int           `json:"refusals,omitempty"`
	RefusedReason   policy.Reason `json:"refused_reason,omitempty"`
	Cause           string        `json:"cause,omitempty"`
}

// DeadFacts returns the facts to keep before the job is run again.
func (r *Record) DeadFacts() DeadFacts {
	return DeadFacts{r.RunAt, r.FinishedAt, r.StartedAt, r.CancelRequestedAt, r.RefusedAt, r.Failures, r.Refusals, r.RefusedReason, r.Cause}
}

// PutBack makes a job that was run again, and has not been claimed since, dead as it was. If f has refusals, the caller
// removes their row, the last one, from the history.
func (r *Record) PutBack(f DeadFacts) {
	r.State, r.RunAt, r.FinishedAt, r.StartedAt, r.CancelRequestedAt = Dead, f.RunAt, f.FinishedAt, f.StartedAt, f.CancelRequested
	r.Failures, r.Refusals, r.RefusedReason, r.RefusedAt, r.Cause, r.WaitsFor = f.Failures, f.Refusals, f.RefusedReason, f.RefusedAt, f.Cause, ""
}
