package idempotency

import (
	"errors"
	"fmt"
	"time"
)

// ID names a record: the scope (tenant and operation), and a key within it. Tenant and operation may be empty.
type ID struct {
	Tenant    string `json:"tenant_id"`
	Operation string `json:"operation"`
	Key       string `json:"key"`
}

// State is the state of a record. The package documentation shows the transitions.
type State string

// The states of a record. An absent or expired record has none.
const (
	InFlight  State = "in_flight" // claimed; the effect may be running
	Completed State = "completed" // done, with the result kept
	Failed    State = "failed"    // ended for good, with the error kept
	Released  State = "released"  // ended without an effect worth keeping; the next one runs
	Unknown   State = "unknown"   // the claim lapsed, and it is not known whether the effect happened
)

// Failure is an error as a record keeps it.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Record is the entry of one key in a store. Times are UTC and truncated to microseconds.
type Record struct {
	ID
	Fingerprint string    `json:"fingerprint"`
	State       State     `json:"state"`
	Owner       string    `json:"owner"`
	Fence       int64     `json:"fence"`          // grows with every claim of the key, from the microseconds since 1970 at the first one
	Lease       time.Time `json:"lease,omitzero"` // when the claim lapses; zero unless in flight
	Attempts    int       `json:"attempts"`
	PolicyHash  string    `json:"policy_hash,omitempty"`
	HasResult   bool      `json:"has_result"` // distinguishes an empty result from none
	Result      []byte    `json:"result,omitempty"`
	Failure     *Failure  `json:"failure,omitempty"`
	Created     time.Time `json:"created"`
	Completed   time.Time `json:"completed,omitzero"` // when the record became completed or failed
	Expires     time.Time `json:"expires,omitzero"`   // zero while in flight or unknown: these never expire by themselves
}

// Claim is the right to settle a record. A store checks it before it writes.
type Claim struct {
	ID
	Owner string
	Fence int64
}

// Claim returns the claim of the record.
func (r *Record) Claim() Claim { return Claim{ID: r.ID, Owner: r.Owner, Fence: r.Fence} }

// BeginRequest asks for a claim.
type BeginRequest struct {
	ID
	Fingerprint string
	Owner       string        // unique to this request
	Lease       time.Duration // how long the claim is live without a renewal
	ReplaySafe  bool          // a lapsed claim may be taken over
	PolicyHash  string
}

// Verdict is the answer of a begin.
type Verdict string

// The verdicts of a begin.
const (
	Run         Verdict = "run"       // the claim is granted: run the effect, then settle
	Replay      Verdict = "replay"    // completed: the record holds the result
	Refuse      Verdict = "refuse"    // failed for good: the record holds the failure
	Busy        Verdict = "in_flight" // another caller's claim is live
	Mismatch    Verdict = "mismatch"  // the key was used for another request
	Undecidable Verdict = "unknown"   // the outcome is unknown until an operator resolves it
)

// Begun is the answer to a begin.
type Begun struct {
	Verdict    Verdict
	Record     Record        // a copy of the record after the begin
	RetryAfter time.Duration // with Busy: how long the live claim lasts at most
}

// Settlement ends a claim.
type Settlement struct {
	State     State // Completed, Failed or Released
	HasResult bool
	Result    []byte
	Failure   *Failure
	TTL       time.Duration // how long the record is kept from now on
}

// Errors of stores and guards.
var (
	ErrNotFound = errors.New("idempotency: no such record")
	// ErrFenced: the claim has been superseded or cleared; nothing was written.
	ErrFenced = errors.New("idempotency: the claim has been superseded")
)

// Begin computes a begin: the answer, and whether the store must write the answer's record. current is nil if there is no
// record. Begin is pure; stores make it atomic.
func Begin(current *Record, req BeginRequest, now time.Time) (b Begun, write bool) {
	now = stamp(now)
	if current == nil || current.Expired(now) {
		return Begun{Verdict: Run, Record: current.claimed(req, now)}, true
	}
	b.Record = *current
	if current.Fingerprint != req.Fingerprint {
		b.Verdict = Mismatch
		return b, false
	}
	switch current.State {
	case Completed:
		b.Verdict = Replay
	case Failed:
		b.Verdict = Refuse
	case Released:
		return Begun{Verdict: Run, Record: current.claimed(req, now)}, true
	case Unknown:
		b.Verdict = Undecidable
	case InFlight:
		switch {
		case now.Before(current.Lease):
			b.Verdict, b.RetryAfter = Busy, current.Lease.Sub(now)
		case req.ReplaySafe:
			return Begun{Verdict: Run, Record: current.claimed(req, now)}, true
		default:
			b.Verdict = Undecidable
			b.Record.State, b.Record.Lease = Unknown, time.Time{}
			return b, true
		}
	}
	return b, false
}

// claimed returns the record under a new claim. Attempts go on unless the record has expired. The first fence comes from the clock, so
// that it is above those of a record of the same key that was removed.
func (r *Record) claimed(req BeginRequest, now time.Time) Record {
	next := Record{
		ID: req.ID, Fingerprint: req.Fingerprint, State: InFlight, Owner: req.Owner, Fence: now.UnixMicro(), Attempts: 1,
		Lease: stamp(now.Add(req.Lease)), PolicyHash: req.PolicyHash, Created: now,
	}
	if r == nil {
		return next
	}
	next.Fence = r.Fence + 1
	if !r.Expired(now) {
		next.Attempts, next.Created = r.Attempts+1, r.Created
	}
	return next
}

// Expired reports whether the record counts as absent, which it does from its expiry on, to the microsecond.
func (r *Record) Expired(now time.Time) bool {
	return !r.Expires.IsZero() && !now.Before(r.Expires)
}

// Renew computes a renewal. It sets the end of the lease to exactly now + lease.
func Renew(current *Record, c Claim, lease time.Duration, now time.Time) (Record, error) {
	if current == nil || current.Claim() != c || current.State != InFlight {
		return Record{}, ErrFenced
	}
	next := *current
	next.Lease = stamp(stamp(now).Add(lease))
	return next, nil
}

// Settle computes a settlement. The owner of a lapsed claim that nobody has taken over may still settle, even if the record
// has become unknown since: nobody else knows what happened. Repeating a settlement changes nothing and is not an error;
// write is then false. An invalid settlement is refused.
func Settle(current *Record, c Claim, s Settlement, now time.Time) (next Record, write bool, err error) {
	if err := s.Validate(); err != nil {
		return Record{}, false, err
	}
	if current == nil || current.Claim() != c {
		return Record{}, false, ErrFenced
	}
	switch current.State {
	case InFlight, Unknown:
	case s.State:
		return *current, false, nil
	default:
		return Record{}, false, ErrFenced
	}
	now = stamp(now)
	next = *current
	next.State, next.Lease = s.State, time.Time{}
	next.HasResult, next.Result, next.Failure = s.HasResult, s.Result, s.Failure
	next.Completed, next.Expires = now, stamp(now.Add(s.TTL))
	return next, true, nil
}

// Validate checks a settlement: its state, and that its TTL is more than 0.
func (s Settlement) Validate() error {
	switch s.State {
	case Completed, Failed, Released:
	default:
		return fmt.Errorf("idempotency: a claim cannot be settled as %q; use completed, failed or released", s.State)
	}
	if s.TTL <= 0 {
		return fmt.Errorf("idempotency: ttl %s: must be more than 0", s.TTL)
	}
	return nil
}

// stamp returns a time as stores keep it: in UTC, truncated to microseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
