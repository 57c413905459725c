package simulate

import "time"

// strength returns how strong a fault is at a time, from 0 to 1.
func (f *Fault) strength(now time.Duration) float64 {
	since := now - f.At
	if since < 0 {
		return 0
	}
	part := float64(since) / float64(f.For)
	switch {
	case f.Shape == Ramp:
		return min(part, 1)
	case part >= 1:
		return 0
	case f.Shape == Spike:
		return 1 - max(2*part-1, 1-2*part)
	}
	return 1
}

// factor returns the factor of a fault at a time: 1 without the fault, full at its strongest.
func (f *Fault) factor(full float64, now time.Duration) float64 {
	if full == 0 {
		return 1
	}
	return 1 + (full-1)*f.strength(now)
}

// condition is what faults make of a service for one request.
type condition struct {
	errors  float64 // share
	latency float64 // factor
	down    bool
}

// conditionOf returns the condition for a request that arrives or is served now. A fault with a share hits a request on both
// occasions or on neither.
func (s *service) conditionOf(r *request) condition {
	c := condition{errors: s.spec.Errors, latency: 1}
	now, hits := s.world.now, r.hits // a copy, which draws the same each time
	for i := range s.faults {
		f := &s.faults[i]
		strength := f.strength(now)
		if f.Share < 1 && !hits.chance(f.Share) || strength == 0 {
			continue
		}
		c.errors = 1 - (1-c.errors)*(1-f.Errors*strength)
		c.latency *= f.factor(f.Latency, now)
		c.down = c.down || f.Down
	}
	return c
}

// slowdown returns by how much the service's capacity and concurrency are divided.
func (s *service) slowdown(now time.Duration) float64 {
	factor := 1.0
	for i := range s.faults {
		factor *= s.faults[i].factor(s.faults[i].Slowdown, now)
	}
	return factor
}
