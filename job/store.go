package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Store keeps jobs. Implementations are safe for concurrent use by any number of processes if their engine is, and
// pass the suite in package storetest. The store's clock, not the worker's, decides whether a lease is valid.
type Store interface {
	// Enqueue stores jobs, all or none, in one round trip. The receipts are in the order of the inserts.
	Enqueue(ctx context.Context, jobs []Insert) ([]Receipt, error)
	// Claim leases due jobs of the given types: in each queue by priority, then run_at, then ID. A job is due when its run_at
	// has passed, whether or not Maintain has made it ready; a store may limit a claim to 1,000 jobs that Maintain has not made
	// ready. The cost of a claim depends neither on the backlog nor on jobs of other types. Claim does not wait.
	Claim(ctx context.Context, c Claim) ([]*Record, error)
	// Extend sets the expiry of live leases to exactly now + d. The errors are in the order of the refs; nil means that
	// all were extended. A lease whose job is to be cancelled is extended, with ErrCancelRequested.
	Extend(ctx context.Context, leases []Ref, d time.Duration) []error
	// Settle writes the results of attempts, each atomically with its history. The errors are in the order of the
	// settlements; nil means that all were written. If the cancellation of a job was requested, a settlement after which the job
	// would run again cancels it instead. Such a settlement is written, and its error is ErrCancelRequested, also when it is
	// repeated.
	Settle(ctx context.Context, list []Settlement) []error
	// Maintain makes due jobs ready, takes back expired leases and removes finished jobs whose retention is over, at most
	// m.Limit of each. If it fails, it still returns what it has done.
	Maintain(ctx context.Context, m Maintenance) (Maintained, error)
	// Close releases what the store holds.
	Close() error
}

// Insert is a job to be stored: a Request with its defaults filled in.
type Insert struct {
	ID          string
	Type        string
	Queue       string
	Priority    int
	Payload     []byte
	Meta        map[string]string
	Timeout     time.Duration
	MaxAttempts int
	// RunAt is the earliest start; zero means now.
	RunAt time.Time
	// UniqueKey, if set, prevents a second job with the same queue and key: for UniqueFor from now or, if that is 0,
	// until the first job is completed, dead, cancelled or deleted.
	UniqueKey string
	UniqueFor time.Duration
	// WaitsFor, if set, stores the job waiting, for this.
	WaitsFor string
	// Needed is NotInFlow except for jobs of a flow, which only FlowStore stores.
	Needed Needed
}

// Receipt is the result of an insert.
type Receipt struct {
	ID      string // of the stored job, or of the one that existed
	Existed bool   // a job with the same unique key existed; nothing was changed
	// Durability is the store's guarantee for a job that was just stored.
	Durability Durability
}

// Durability is how safe a write is when Enqueue returns.
type Durability string

// The durabilities.
const (
	InMemory       Durability = "memory"          // lost when the process ends
	GroupCommitted Durability = "group_committed" // fsynced together with others
	Fsynced        Durability = "fsynced"
	InTransaction  Durability = "transaction" // as durable as the caller's commit
)

// Claim asks for jobs.
type Claim struct {
	Worker string
	Queues []Slots
	// Types are the types that the worker can run, without duplicates. Empty means every type, at the cost of a query for the
	// existing types.
	Types []string
	Lease time.Duration
}

// Slots is how many jobs of a queue a worker can start at once.
type Slots struct {
	Queue string
	Free  int
}

// Settlement is the result of one attempt. It carries no time of day: the store adds Started to its own time of the claim, so
// that a worker's clock and the store's are never compared.
type Settlement struct {
	Ref
	Kind    Kind
	Delay   time.Duration // until the next attempt: retry, snooze, refuse
	Reason  policy.Reason
	Error   string
	Stack   string
	Output  []byte        // complete only
	Started time.Duration // from the claim to the start of the attempt; below 0 counts as 0
	NotRun  bool          // the handler was not called; implied by KindRefuse and KindBury, ruled out by KindComplete
}

// Ran reports whether the settlement is of an attempt whose handler was called. The first such attempt of a job starts its
// overall_timeout.
func (s *Settlement) Ran() bool {
	return s.Kind == KindComplete || !s.NotRun && s.Kind != KindRefuse && s.Kind != KindBury
}

// made returns the number of attempts that a job has made after the settlement.
func (s *Settlement) made(r *Record) int {
	if s.Kind == KindComplete || s.Kind == KindRetry || s.Kind == KindDead || s.Kind == KindCancel {
		return r.Failures + 1
	}
	return r.Failures
}

// Began returns when the attempt began by the store's clock, between the claim and now.
func (s *Settlement) Began(claimed, now time.Time) time.Time {
	began := Stamp(claimed.Add(max(s.Started, 0)))
	if began.After(now) {
		return now
	}
	return began
}

// Kind is the kind of a settlement.
type Kind string

// The kinds.
const (
	KindComplete Kind = "complete"
	KindRetry    Kind = "retry"   // failed; run again after Delay
	KindDead     Kind = "dead"    // failed for good: to the dead-letter queue
	KindBury     Kind = "bury"    // not run because no attempts are left (after lost leases): dead, without another attempt
	KindRelease  Kind = "release" // interrupted by shutdown: ready at once, no attempt used up
	KindSnooze   Kind = "snooze"  // rescheduled by the handler, no attempt used up
	KindRefuse   Kind = "refuse"  // refused by a budget or breaker, no attempt used up
	KindCancel   Kind = "cancel"
)

// Maintenance bounds the work of Maintain.
type Maintenance struct {
	Limit int // rows of each kind; at least 1
	// Keep is how long finished jobs are kept, by state. Jobs in a state that is not listed are kept forever.
	Keep map[State]time.Duration
}

// Maintained is the result of Maintain.
type Maintained struct {
	Promoted  int // scheduled jobs that became ready
	Reclaimed int // expired leases that were taken back
	Removed   int // finished jobs
	// NextDue is when the next scheduled job or the next place of a limit is due; zero if there is none. Now is the time of the
	// maintenance. Both are by the store's clock, so a worker may use only their difference.
	NextDue, Now time.Time
	// More is set if limits have left work for the next maintenance, which should follow at once.
	More bool
	// Lost lists the leases that were taken back, in no order: as many as Reclaimed.
	Lost []Lost
}

// Lost is an expired lease that was taken back, with the new state of its job.
type Lost struct {
	Ref      // the lease
	Type     string
	Queue    string
	Meta     map[string]string
	Worker   string // the holder of the lease
	State    State  // of the job now: ready, dead or, if cancellation was requested, cancelled
	Attempts int    // made, this one included
}

// Errors of stores.
var (
	ErrNotFound        = errors.New("job: not found")
	ErrNotRunning      = errors.New("job: not running")
	ErrLeaseExpired    = errors.New("job: lease expired")
	ErrFenced          = errors.New("job: fenced: another worker holds the job")
	ErrCancelRequested = errors.New("job: cancellation requested")
	ErrConflict        = errors.New("job: conflict")
	ErrClosed          = errors.New("job: store closed")
)

// NotFoundError names what a store does not have. It wraps ErrNotFound.
type NotFoundError struct {
	What string // a noun, such as "flow"
	ID   string
}

// Error implements error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("%s %q not found", e.What, e.ID) }

// Unwrap returns ErrNotFound.
func (*NotFoundError) Unwrap() error { return ErrNotFound }

// DurationError reports a lease, delay or limit that is out of range.
type DurationError struct {
	Field string
	Value time.Duration
}

// Error implements error.
func (e *DurationError) Error() string {
	return fmt.Sprintf("job: %s: %v is out of range", e.Field, e.Value)
}

// Limits of stored values.
const (
	MaxLease    = 24 * time.Hour
	MaxDelay    = 10 * 365 * 24 * time.Hour
	MaxPriority = 9
)

// CheckLease returns a *DurationError unless the lease is between 1 ms and 24 h.
func CheckLease(d time.Duration) error {
	if d < time.Millisecond || d > MaxLease {
		return &DurationError{Field: "lease", Value: d}
	}
	return nil
}

// Check returns a *DurationError as CheckLease does, and an error that names the field for a worker, queue or type whose name
// has NUL or is not valid UTF-8.
func (c *Claim) Check() error {
	for _, s := range c.Queues {
		if err := checkName("queue", s.Queue); err != nil {
			return err
		}
	}
	for _, t := range c.Types {
		if err := checkName("type", t); err != nil {
			return err
		}
	}
	return cmp.Or(checkName("worker", c.Worker), CheckLease(c.Lease))
}

func checkName(field, name string) error {
	if problem := textProblem(name, len(name)); problem != "" {
		return fmt.Errorf("job: claim: %s %q: %s", field, name, problem)
	}
	return nil
}

// Check returns a *DurationError for a negative delay, and an error that wraps ErrConflict for an unknown kind. Stores cut a
// delay above MaxDelay to MaxDelay.
func (s *Settlement) Check() error {
	if s.Delay < 0 {
		return &DurationError{Field: "delay", Value: s.Delay}
	}
	if _, known := after[s.Kind]; !known {
		return fmt.Errorf("%w: unknown kind of settlement %q", ErrConflict, s.Kind)
	}
	return nil
}
