package job

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Admin is implemented by stores that can be inspected and changed by operators.
type Admin interface {
	// Get returns a job with its history, oldest first, or ErrNotFound.
	Get(ctx context.Context, id string) (*Record, []Attempt, error)
	// List returns the jobs that match f with an ID above after, at most limit, in the order of their IDs. Paging with the
	// last ID of each page returns every job that exists throughout exactly once.
	List(ctx context.Context, f Filter, after string, limit int) ([]*Record, error)
	// Stats counts jobs by queue and state.
	Stats(ctx context.Context) (map[string]QueueStats, error)
	// Change applies an action to at most limit of the jobs that match f, oldest first, and returns their IDs. Jobs in a
	// state to which the action does not apply do not match. It returns the error of Action.Check.
	Change(ctx context.Context, action Action, f Filter, limit int) ([]string, error)
	// Queues returns the queues that are or were paused.
	Queues(ctx context.Context) ([]QueueState, error)
	// SetQueue pauses or resumes a queue. It returns a *SettingError for a name that no queue can have.
	SetQueue(ctx context.Context, q QueueState) error
}

// Notifier is implemented by stores that announce new work.
type Notifier interface {
	// Notify returns a channel that receives when work may have become ready or a queue resumed. Signals may be merged and
	// may be false. The channel is closed when ctx ends.
	Notify(ctx context.Context) (<-chan struct{}, error)
}

// CancelNotifier is implemented by stores that notify workers at once of requests to cancel running jobs. Workers of other
// stores learn of such requests when they extend the leases, every third of a lease.
type CancelNotifier interface {
	// NotifyCancel returns a channel that receives when the cancellation of a running job may have been requested, in this
	// process or another; Extend reports which jobs these are. Signals may be merged and may be false. The channel is closed
	// when ctx ends.
	NotifyCancel(ctx context.Context) (<-chan struct{}, error)
}

// Elector is implemented by stores that several workers share: one of them at a time is the leader.
type Elector interface {
	// Lead makes worker the leader for ttl from now if there is none or it is worker itself, and reports whether it is. A worker that stops
	// shortens its lead to 1 ms, so that another leads at once.
	Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error)
}

// Action is an operator's change of jobs.
type Action string

// The actions, and the states that they apply to.
const (
	ActionRetry  Action = "retry"  // all but running and waiting: ready at once, with its attempts counted from 0 again
	ActionCancel Action = "cancel" // waiting, scheduled and ready: cancelled; running: requested of its worker
	ActionDelete Action = "delete" // all but running: removed with its history
)

// Applies reports whether the action can be applied to a job in state s.
func (a Action) Applies(s State) bool {
	switch a {
	case ActionCancel:
		return !s.Finished()
	case ActionRetry:
		return s != Running && s != Waiting // what a waiting job waits for still holds
	case ActionDelete:
		return s != Running
	}
	return false
}

// Check returns an error for an unknown action.
func (a Action) Check() error {
	if !slices.ContainsFunc(States(), a.Applies) {
		return fmt.Errorf("job: unknown action %q", string(a))
	}
	return nil
}

// QueueStats counts the jobs of a queue.
type QueueStats struct {
	Waiting     int           `json:"waiting"`
	Scheduled   int           `json:"scheduled"`
	Ready       int           `json:"ready"`
	Running     int           `json:"running"`
	Completed   int           `json:"completed"`
	Dead        int           `json:"dead"`
	Cancelled   int           `json:"cancelled"`
	OldestReady time.Duration `json:"-"` // since its run_at
	Activity    Activity      `json:"activity"`
}

// Activity counts what has happened in a queue. The counters only grow, until the store forgets a queue that has no jobs: then
// they begin at zero again. The change of a counter between two looks, divided by the time, is a rate.
type Activity struct {
	Enqueued  int64 `json:"enqueued"`  // jobs stored
	Completed int64 `json:"completed"` // jobs that completed; counted again after an operator's retry
	Dead      int64 `json:"dead"`      // jobs that died; undoing a redrive does not count them again
	Cancelled int64 `json:"cancelled"`
	Attempts  int64 `json:"attempts"` // ended by completion, failure, cancellation or a lost lease
	Retries   int64 `json:"retries"`  // failed or lost attempts after which the job runs again
}

// Moved counts a job's transition to a state and the rows that it added to the history. ran says whether the job was running before.
func (a *Activity) Moved(ran bool, to State, rows []Attempt) {
	if to == Cancelled {
		a.Cancelled++
	}
	if !ran || to == Running { // dead again is a redrive that was undone
		return
	}
	switch to {
	case Completed:
		a.Completed++
	case Dead:
		a.Dead++
	case Cancelled, Waiting, Scheduled, Ready, Running:
	}
	for i := range rows {
		switch rows[i].Outcome {
		case AttemptFailed, AttemptLost:
			if !to.Finished() {
				a.Retries++
			}
			a.Attempts++
		case AttemptCompleted, AttemptCancelled:
			a.Attempts++
		case AttemptInterrupted, AttemptRefused, AttemptSnoozed:
		}
	}
}

// Add adds the counters of another.
func (a *Activity) Add(b Activity) {
	a.Enqueued, a.Completed, a.Dead, a.Cancelled = a.Enqueued+b.Enqueued, a.Completed+b.Completed, a.Dead+b.Dead, a.Cancelled+b.Cancelled
	a.Attempts, a.Retries = a.Attempts+b.Attempts, a.Retries+b.Retries
}

// Since returns how the counters have grown since an earlier look. A counter that has become smaller began at zero again.
func (a Activity) Since(before Activity) Activity {
	grown := func(now, before int64) int64 {
		if now < before {
			return now
		}
		return now - before
	}
	return Activity{
		Enqueued: grown(a.Enqueued, before.Enqueued), Completed: grown(a.Completed, before.Completed), Dead: grown(a.Dead, before.Dead),
		Cancelled: grown(a.Cancelled, before.Cancelled), Attempts: grown(a.Attempts, before.Attempts), Retries: grown(a.Retries, before.Retries),
	}
}

// Finisher is implemented by stores that know which jobs have finished last.
type Finisher interface {
	// Finished returns at most limit jobs that completed or died after a time, the newest first.
	Finished(ctx context.Context, after time.Time, limit int) ([]Finish, error)
}

// Finish is the end of a job.
type Finish struct {
	Queue    string
	State    State     // completed or dead
	Due      time.Time // when its last attempt was due
	Finished time.Time
}

// Of returns the counter of a state.
func (q *QueueStats) Of(s State) *int {
	switch s {
	case Waiting:
		return &q.Waiting
	case Scheduled:
		return &q.Scheduled
	case Ready:
		return &q.Ready
	case Running:
		return &q.Running
	case Completed:
		return &q.Completed
	case Dead:
		return &q.Dead
	}
	return &q.Cancelled
}

// Add adds the counters of another queue. OldestReady becomes the longer of both.
func (q *QueueStats) Add(other QueueStats) {
	for _, state := range States() {
		*q.Of(state) += *other.Of(state)
	}
	q.OldestReady = max(q.OldestReady, other.OldestReady)
	q.Activity.Add(other.Activity)
}

// QueueState says whether a queue is paused, and until when.
type QueueState struct {
	Queue  string    `json:"queue"`
	Paused bool      `json:"paused"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`  // when it resumes by itself; zero for never
	Actor  string    `json:"actor,omitempty"` // who switched it last, as the audit log names operators; may be empty
}

// Check returns a *SettingError for a queue that is missing, longer than 128 bytes, not valid UTF-8 or contains NUL, and for an end
// that is not within the years 1 to 9999.
func (q QueueState) Check() error {
	if problem := queueProblem(q.Queue); problem != "" {
		return &SettingError{"queue", problem}
	}
	if problem := yearProblem(q.Until); problem != "" {
		return &SettingError{"until", problem}
	}
	return nil
}

// Holds reports whether the queue is paused at now.
func (q QueueState) Holds(now time.Time) bool {
	return q.Paused && (q.Until.IsZero() || now.Before(q.Until))
}

// Apply applies an operator's action to the record at now and returns the rows to add to the history. It does nothing for a
// deletion, which the store does.
func (r *Record) Apply(a Action, now time.Time) (rows []Attempt) {
	now = Stamp(now)
	switch {
	case a == ActionCancel && r.State == Running:
		if !r.CancelRequested() {
			r.CancelRequestedAt = now
		}
	case a == ActionCancel:
		r.State, r.FinishedAt, r.WaitsFor = Cancelled, now, ""
	case a == ActionRetry:
		rows = r.refusals(now)
		r.State, r.RunAt, r.Failures, r.FinishedAt, r.CancelRequestedAt = Ready, now, 0, time.Time{}, time.Time{}
		r.StartedAt, r.Refusals, r.RefusedReason, r.RefusedAt, r.Cause = time.Time{}, 0, "", time.Time{}, ""
	}
	return rows
}
