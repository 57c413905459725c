package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Fault is what the endpoint does with a request.
type Fault string

// The faults. None is a proper answer.
const (
	None        Fault = "none"
	ServerError Fault = "error_500"
	Unavailable Fault = "unavailable_503"
	Throttled   Fault = "throttled_429"       // Retry-After: 1
	Closed      Fault = "throttled_for_hours" // 429, Retry-After: 7200
	Rejected    Fault = "rejected_422"        // whatever is sent, and however often
	Broken      Fault = "always_500"          // for this delivery, however often it is sent
	Hang        Fault = "hang"                // no answer at all
	Slow        Fault = "slow_answer"
	SlowBody    Fault = "slow_body" // the headers at once, the body bit by bit
	Reset       Fault = "connection_reset"
)

// share is a fault with how often it happens.
type share struct {
	fault Fault
	part  float64
}

// Schedule decides what happens to every request. It is a pure value: the same seed means the same faults.
type Schedule struct{ Seed uint64 }

// fates strike a delivery as a whole, requests each request by itself, and flaky each request to one destination, whose
// breaker has to open.
var (
	fates    = [...]share{{Rejected, 0.004}, {Broken, 0.004}, {Closed, 0.003}}
	requests = [...]share{
		{ServerError, 0.03}, {Unavailable, 0.02}, {Throttled, 0.012}, {Hang, 0.012}, {Slow, 0.015}, {SlowBody, 0.02}, {Reset, 0.015},
	}
	flaky = [...]share{{Unavailable, 0.55}, {Reset, 0.15}}
)

// FlakyQueue is the destination that fails more often than not.
const FlakyQueue = "sensors"

// Fault is what happens to request n (from 1) of a delivery.
func (s Schedule) Fault(queue, id string, n int) Fault {
	if f := pick(fates[:], s.draw(id, 0, "fate")); f != None {
		return f
	}
	if queue == FlakyQueue {
		return pick(flaky[:], s.draw(id, n, "fault"))
	}
	return pick(requests[:], s.draw(id, n, "fault"))
}

// Latency is how long the endpoint thinks about a request before it answers: 1 to 12 ms, mostly little.
func (s Schedule) Latency(id string, n int) time.Duration {
	u := s.draw(id, n, "latency")
	return time.Millisecond + time.Duration(u*u*float64(11*time.Millisecond))
}

// draw is a number in [0, 1).
func (s Schedule) draw(id string, n int, purpose string) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d/%s", s.Seed, id, n, purpose))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}

func pick(shares []share, u float64) Fault {
	for _, s := range shares {
		if u < s.part {
			return s.fault
		}
		u -= s.part
	}
	return None
}
