package memory

import "github.com/tenetdev/tenet/idempotency"

// Colliding makes an empty store in which half of all IDs have the same hash.
func Colliding() *Idempotency {
	s := newIdempotency()
	spread := s.hash
	s.hash = func(id idempotency.ID) uint64 {
		h := spread(id)
		return h * (h & 1)
	}
	return s
}
