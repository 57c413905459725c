package memory

import "github.com/tenetdev/tenet/idempotency"

// Colliding is an empty store in which the hashes of half of all IDs are the same.
func Colliding() *Idempotency {
	s := newIdempotency()
	spread := s.hash
	s.hash = func(id idempotency.ID) uint64 {
		h := spread(id)
		return h * (h & 1)
	}
	return s
}
