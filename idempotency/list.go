package idempotency

import (
	"cmp"
	"fmt"
	"time"
)

// Filter selects records. A zero field selects all.
type Filter struct {
	// State is the state of the records. [Unknown] also selects lapsed claims, whose outcome is unknown too; [InFlight]
	// selects only live claims.
	State State
	// Tenant and Operation are the scope.
	Tenant, Operation string
}

// Validate returns an error for a state that records do not have.
func (f Filter) Validate() error {
	switch f.State {
	case "", InFlight, Completed, Failed, Released, Unknown:
		return nil
	}
	return fmt.Errorf("idempotency: state %q: use %s, %s, %s, %s or %s", f.State, InFlight, Completed, Failed, Released, Unknown)
}

// Match reports whether the filter selects a record. It does not select one that has expired.
func (f Filter) Match(r *Record, now time.Time) bool {
	if r.Expired(now) || f.Tenant != "" && f.Tenant != r.Tenant || f.Operation != "" && f.Operation != r.Operation {
		return false
	}
	lapsed := r.State == InFlight && !r.Live(now)
	switch f.State {
	case "":
		return true
	case Unknown:
		return r.State == Unknown || lapsed
	}
	return r.State == f.State && !lapsed
}

// Compare orders IDs by tenant, operation and key, byte by byte. It returns -1 if id comes first, 0 if both are equal, and 1
// otherwise.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Tenant, other.Tenant), cmp.Compare(id.Operation, other.Operation), cmp.Compare(id.Key, other.Key))
}
