package idempotency

import (
	"context"
	"time"
)

// Store keeps records. Implementations are safe for concurrent use by many processes where the medium is shared, judge
// leases and expiry by the store's own clock where it has one, hand out copies only, and never write part of a step.
// Their errors mean that it is not known whether the step took place; only [ErrNotFound] and [ErrFenced] are answers.
//
// Tenant, operation and key hold up to 255 bytes of valid UTF-8 without control characters ([CheckKey]); all other strings
// are valid UTF-8 without NUL. Results are any bytes. [Guard] sees to that.
type Store interface {
	// Begin is [Begin] in one atomic step.
	Begin(ctx context.Context, req BeginRequest) (Begun, error)
	// Renew is [Renew] in one atomic step.
	Renew(ctx context.Context, c Claim, lease time.Duration) error
	// Settle is [Settle] in one atomic step.
	Settle(ctx context.Context, c Claim, s Settlement) error
	// Get returns a record as it is stored, or ErrNotFound; an expired record counts as absent.
	Get(ctx context.Context, id ID) (Record, error)
}

// Admin is what operators may do. A [Store] that can implements it too.
type Admin interface {
	// List returns up to limit records that a filter selects, in the order of [ID.Compare], from the first one after an ID; the
	// zero ID begins. The last record's ID is where the next page goes on, whatever was written meanwhile. Records come without
	// their results. A page may read every record of the store.
	List(ctx context.Context, f Filter, after ID, limit int) ([]Record, error)
	// Resolve settles a record whose outcome is unknown, or whose claim has lapsed, if it still stands under the claim that
	// the operator has seen. Otherwise ErrFenced, and nothing is written.
	Resolve(ctx context.Context, c Claim, s Settlement) error
	// Clear removes a record, if it still stands under the claim and that is not live; otherwise ErrFenced.
	Clear(ctx context.Context, c Claim) error
	// Expire removes up to limit expired records and returns how many. It frees space; whether a record counts does not
	// depend on it.
	Expire(ctx context.Context, limit int) (int, error)
}

// Resolve computes an operator's resolution.
func Resolve(current *Record, c Claim, s Settlement, now time.Time) (next Record, err error) {
	if current == nil || current.Claim() != c || current.Live(now) || current.State != InFlight && current.State != Unknown {
		return Record{}, ErrFenced
	}
	next, _, err = Settle(current, c, s, now)
	if err != nil {
		return Record{}, err
	}
	next.Fence++ // a late owner must not settle it once more
	return next, nil
}

// Live reports whether the record stands under a claim whose lease has not lapsed.
func (r *Record) Live(now time.Time) bool {
	return r.State == InFlight && stamp(now).Before(r.Lease)
}
