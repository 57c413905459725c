package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/internal/storable"
	"github.com/tenetdev/tenet/policy"
)

// State is the state of a job. The package documentation shows the transitions.
type State string

// The states.
const (
	Waiting   State = "waiting" // stored, but not to be claimed yet: Record.WaitsFor says why
	Scheduled State = "scheduled"
	Ready     State = "ready"
	Running   State = "running"
	Completed State = "completed"
	Dead      State = "dead" // in the dead-letter queue
	Cancelled State = "cancelled"
)

// States lists all states in the order of a job's life.
func States() []State { return []State{Waiting, Scheduled, Ready, Running, Completed, Dead, Cancelled} }

// ParseState returns the state of a name. The error says what to write instead.
func ParseState(name string) (State, error) {
	if slices.Contains(States(), State(name)) {
		return State(name), nil
	}
	names := lists.Texts(States())
	if match := near.Name(name, names); match != "" {
		return "", fmt.Errorf("state %q does not exist; did you mean %s?", name, match)
	}
	return "", fmt.Errorf("state %q does not exist; write one of %s", name, strings.Join(names, ", "))
}

// WaitsForNeeds is Record.WaitsFor of a job of a flow whose needs have not all ended.
const WaitsForNeeds = "needs"

// Finished reports whether the state is final unless an operator changes it.
func (s State) Finished() bool { return s == Completed || s == Dead || s == Cancelled }

// Record is a stored job. Times are UTC with microseconds; the zero time means "not yet" or "not at all".
type Record struct {
	ID          string // UUIDv7
	Type        string
	Queue       string
	State       State
	Flow        string // ID of the flow, for a job of one; only in records from Get and List
	Node        string // the job's name in the flow; also only in records from Get and List
	WaitsFor    string // of a waiting job: why it cannot be claimed yet, such as WaitsForNeeds
	Priority    int    // 0 is the highest, 9 the lowest
	Payload     []byte
	Meta        map[string]string // for example trace context, tenant, correlation
	Timeout     time.Duration     // of one attempt; 0 for the policy's
	MaxAttempts int               // 0 for the policy's
	UniqueKey   string
	CreatedAt   time.Time
	RunAt       time.Time

	Failures   int       // failed and lost attempts, which count against the maximum; see Attempts for all attempts made
	StartedAt  time.Time // of the first attempt that ran, known once it is settled or lost; overall_timeout counts from it
	FinishedAt time.Time
	FailedAt   time.Time
	LastError  string
	Reason     policy.Reason // why the job is dead, or why it last failed
	Output     []byte        // set by the completed attempt
	Cause      string        // of a dead job: the same for jobs that died of the same cause, as CauseOf returns it

	Worker     string
	Fence      int64 // of the claim that returned the record; it grows with every claim and is 0 in records from Get and List
	LeaseUntil time.Time
	ClaimedAt  time.Time
	// CancelRequestedAt is when the cancellation of the job was requested while it ran. It is kept, whether or not the job
	// was cancelled, until an operator retries the job.
	CancelRequestedAt time.Time

	Refusals      int // in a row, by budgets and breakers
	RefusedReason policy.Reason
	RefusedAt     time.Time // of the first in the row
}

// Ref names a lease between a worker and its store: a job and the token under which it was claimed.
type Ref struct {
	ID    string
	Fence int64
}

// Ref returns the lease under which the record was claimed. Stores refuse the Ref of a record from Get or List.
func (r *Record) Ref() Ref { return Ref{ID: r.ID, Fence: r.Fence} }

// Lease is a handler's right to complete its own job in a transaction, with CompleteTx of a SQL store. Only [Job.Lease]
// makes one that stores accept; they refuse the zero Lease with ErrNotFound.
type Lease struct{ ref Ref }

// Ref returns the job and the token, by which a store checks the lease.
func (l Lease) Ref() Ref { return l.ref }

// Attempts returns the number of attempts made since the job was enqueued or last retried by an operator: the failed ones
// and the one that completed or cancelled it. It does not count the running attempt, nor those that were snoozed,
// interrupted or refused.
func (r *Record) Attempts() int {
	switch {
	case r.State == Completed:
		return r.Failures + 1
	case r.State == Cancelled && !r.StartedAt.IsZero() && (r.Reason == policy.ReasonOperator || r.Reason == policy.ReasonCanceled) && !r.RunAt.After(r.ClaimedAt):
		return r.Failures + 1 // while it waited for another attempt, its reason would be that of an earlier execution
	}
	return r.Failures
}

// CancelRequested reports whether the job was running when an operator asked for its cancellation.
func (r *Record) CancelRequested() bool { return !r.CancelRequestedAt.IsZero() }

// AttemptOutcome is how an attempt ended.
type AttemptOutcome string

// The outcomes. Only failed and lost use up an attempt.
const (
	AttemptCompleted   AttemptOutcome = "completed"
	AttemptFailed      AttemptOutcome = "failed"
	AttemptLost        AttemptOutcome = "lost"        // its lease expired
	AttemptInterrupted AttemptOutcome = "interrupted" // by the worker's shutdown
	AttemptRefused     AttemptOutcome = "refused"     // by a budget or breaker; one row counts refusals in a row
	AttemptSnoozed     AttemptOutcome = "snoozed"
	AttemptCancelled   AttemptOutcome = "cancelled"
)

// Attempt is a row of a job's history.
type Attempt struct {
	Number   int // from 1; interrupted, refused and snoozed attempts carry the number of the attempt that follows
	Fence    int64
	Kind     Kind // of the settlement; "" for a lost lease
	Worker   string
	Started  time.Time
	Finished time.Time
	Outcome  AttemptOutcome
	Reason   policy.Reason
	Error    string
	Stack    string
	Delay    time.Duration // until the next attempt
	Count    int           // of refusals; otherwise 1
}

// CleanText makes error text storable everywhere: valid UTF-8, no NUL, at most 16 KiB.
func CleanText(s string) string { return storable.Text(s) }

// Stamp returns t as stores keep it: in UTC, truncated to microseconds.
func Stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
