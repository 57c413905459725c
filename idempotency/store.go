package idempotency

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/internal/storable"
)

// Store keeps records. Implementations are safe for concurrent use, by many processes if the medium is shared. They judge
// leases and expiry by the store's own clock if it has one, return only copies, and never write part of a step. After an
// error other than [ErrNotFound] and [ErrFenced] it is not known whether the step took place.
//
// Tenant, operation and key hold up to 255 bytes of valid UTF-8 without control characters ([CheckKey]); all other strings
// are valid UTF-8 without NUL. Results are any bytes. [Guard] ensures this.
type Store interface {
	// Begin applies the function [Begin] in one atomic step.
	Begin(ctx context.Context, req BeginRequest) (Begun, error)
	// Renew applies the function [Renew] in one atomic step.
	Renew(ctx context.Context, c Claim, lease time.Duration) error
	// Settle applies the function [Settle] in one atomic step.
	Settle(ctx context.Context, c Claim, s Settlement) error
	// Get returns a stored record, or ErrNotFound; an expired record counts as absent.
	Get(ctx context.Context, id ID) (Record, error)
}

// Admin is implemented by stores whose records operators can list and change.
type Admin interface {
	// List returns up to limit records that a filter selects, in the order of [ID.Compare], from the first one after an ID;
	// the zero ID starts at the beginning. The next page continues after the last record's ID, whatever was written meanwhile.
	// Records come without their results. A page may read every record of the store.
	List(ctx context.Context, f Filter, after ID, limit int) ([]Record, error)
	// Resolve settles a record whose outcome is unknown, or whose claim has lapsed, if it is still under the claim that the
	// operator has seen. Otherwise it returns ErrFenced and writes nothing.
	Resolve(ctx context.Context, c Claim, s Settlement) error
	// Clear removes a record if it is still under the claim and the claim is not live. Otherwise it returns ErrFenced.
	Clear(ctx context.Context, c Claim) error
	// Expire removes up to limit expired records and returns their number. It only frees space: an expired record counts as
	// absent with or without it.
	Expire(ctx context.Context, limit int) (int, error)
}

// Resolve computes an operator's resolution. The texts of its failure become storable everywhere: valid UTF-8 without NUL, at most 16 KiB
// each.
func Resolve(current *Record, c Claim, s Settlement, now time.Time) (next Record, err error) {
	if current == nil || current.Claim() != c || current.Live(now) || current.State != InFlight && current.State != Unknown {
		return Record{}, ErrFenced
	}
	if s.Failure != nil {
		s.Failure = &Failure{storable.Text(s.Failure.Type), storable.Text(s.Failure.Message)}
	}
	next, _, err = Settle(current, c, s, now)
	if err != nil {
		return Record{}, err
	}
	next.Fence++ // so that a late owner cannot settle it again
	return next, nil
}

// Live reports whether the record is under a claim that has not lapsed.
func (r *Record) Live(now time.Time) bool {
	return r.State == InFlight && stamp(now).Before(r.Lease)
}
