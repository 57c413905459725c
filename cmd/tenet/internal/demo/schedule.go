package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Fault is a behaviour of the endpoint.
type Fault string

// The faults. None is a normal response.
const (
	None        Fault = "none"
	ServerError Fault = "error_500"
	Unavailable Fault = "unavailable_503"
	Throttled   Fault = "throttled_429"       // Retry-After: 1
	Closed      Fault = "throttled_for_hours" // 429, Retry-After: 7200
	Rejected    Fault = "rejected_422"        // for every request of a delivery
	Broken      Fault = "always_500"          // for every request of a delivery
	Hang        Fault = "hang"                // no response
	Slow        Fault = "slow_answer"
	SlowBody    Fault = "slow_body" // headers at once, body in pieces
	Reset       Fault = "connection_reset"
)

// share is a fault and its probability.
type share struct {
	fault Fault
	part  float64
}

// Schedule selects the fault of every request. The same seed selects the same faults.
type Schedule struct{ Seed uint64 }

// fates apply to a whole delivery, requests to each request, and flaky to each request to one destination, whose breaker has to
// open.
var (
	fates    = [...]share{{Rejected, 0.004}, {Broken, 0.004}, {Closed, 0.003}}
	requests = [...]share{
		{ServerError, 0.03}, {Unavailable, 0.02}, {Throttled, 0.012}, {Hang, 0.012}, {Slow, 0.015}, {SlowBody, 0.02}, {Reset, 0.015},
	}
	flaky = [...]share{{Unavailable, 0.55}, {Reset, 0.15}}
)

// FlakyQueue is the destination that fails most of the time.
const FlakyQueue = "sensors"

// Fault returns the fault of request n (from 1) of a delivery.
func (s Schedule) Fault(queue, id string, n int) Fault {
	if f := pick(fates[:], s.draw(id, 0, "fate")); f != None {
		return f
	}
	if queue == FlakyQueue {
		return pick(flaky[:], s.draw(id, n, "fault"))
	}
	return pick(requests[:], s.draw(id, n, "fault"))
}

// Latency returns how long the endpoint waits before it answers: 1 to 12 ms, mostly close to 1 ms.
func (s Schedule) Latency(id string, n int) time.Duration {
	u := s.draw(id, n, "latency")
	return time.Millisecond + time.Duration(u*u*float64(11*time.Millisecond))
}

// draw returns a number in [0, 1).
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
