package rollout

import (
	"fmt"
	"math"
	"time"
)

// Counters count calls: of one client since its last report, or of all clients on one revision since the step began. The zero
// value is empty and ready to use. A copy shares the buckets of Latency with the original (see [Sketch]).
type Counters struct {
	// Calls that ended, however many attempts they took.
	Calls int64 `json:"calls,omitempty"`
	// Failures are the calls that ended with a failure.
	Failures int64 `json:"failures,omitempty"`
	// ExtraAttempts are the attempts beyond the first of each call: retries and hedges.
	ExtraAttempts int64 `json:"extra_attempts,omitempty"`
	// Openings say how often a breaker opened.
	Openings int64 `json:"openings,omitempty"`
	// Latency of whole calls.
	Latency Sketch `json:"latency,omitzero"`
	// Spread says how much clients differ. Clients do not report it; [Counters.AddClient] fills it.
	Spread Spread `json:"spread,omitzero"`
}

// Spread holds sums over clients, from which follows how much the clients differ.
type Spread struct {
	// Clients with at least one call, or reports if those were added.
	Clients int64 `json:"clients"`
	// CallsSquared is the sum of the squares of each client's calls.
	CallsSquared  float64 `json:"calls_squared"`
	Failures      Moments `json:"failures"`
	ExtraAttempts Moments `json:"extra_attempts"`
	Openings      Moments `json:"openings"`
	Latency       Logs    `json:"latency"`
}

// Moments are sums over clients for one counter.
type Moments struct {
	// Squared is the sum of the squares of each client's count.
	Squared float64 `json:"squared"`
	// TimesCalls is the sum of each client's count times its calls.
	TimesCalls float64 `json:"times_calls"`
}

// Logs are sums over clients of the natural logarithm of each client's 95th percentile in seconds. A client with fewer than
// 20 measured calls is left out: it has no 95th percentile yet.
type Logs struct {
	Clients int64   `json:"clients"`
	Sum     float64 `json:"sum"`
	Squared float64 `json:"squared"`
}

const leastTimedCalls = 20

// Add adds d, for example the next report of the same client. Counts stay at the largest int64 instead of overflowing.
func (c *Counters) Add(d Counters) {
	c.Calls = addSaturated(c.Calls, d.Calls)
	c.Failures = addSaturated(c.Failures, d.Failures)
	c.ExtraAttempts = addSaturated(c.ExtraAttempts, d.ExtraAttempts)
	c.Openings = addSaturated(c.Openings, d.Openings)
	c.Latency.Merge(d.Latency)
	c.Spread.add(d.Spread)
}

// AddClient adds everything that one client counted since the step began, as one member of the group. Call it once for each
// client, on empty counters, before each judgement: without it [Judge] cannot tell how much clients differ, and never advances.
// The Spread of client is ignored.
//
// A fleet of fewer than about 20 clients is too small for a variance over clients. Add each single report instead: the variance
// is then over reports, and the judgement assumes that the clients would fare alike under one revision.
func (c *Counters) AddClient(client Counters) {
	client.Spread = client.asSpread()
	c.Add(client)
}

func (c Counters) asSpread() Spread {
	if c.Calls <= 0 {
		return Spread{}
	}
	calls := float64(c.Calls)
	moments := func(count int64) Moments {
		return Moments{Squared: float64(count) * float64(count), TimesCalls: float64(count) * calls}
	}
	s := Spread{
		Clients:       1,
		CallsSquared:  calls * calls,
		Failures:      moments(c.Failures),
		ExtraAttempts: moments(c.ExtraAttempts),
		Openings:      moments(c.Openings),
	}
	if c.Latency.Count() >= leastTimedCalls {
		x := math.Log(c.Latency.Quantile(0.95).Seconds())
		s.Latency = Logs{Clients: 1, Sum: x, Squared: x * x}
	}
	return s
}

func (s *Spread) add(t Spread) {
	s.Clients = addSaturated(s.Clients, t.Clients)
	s.CallsSquared += t.CallsSquared
	s.Failures.add(t.Failures)
	s.ExtraAttempts.add(t.ExtraAttempts)
	s.Openings.add(t.Openings)
	s.Latency.Clients = addSaturated(s.Latency.Clients, t.Latency.Clients)
	s.Latency.Sum += t.Latency.Sum
	s.Latency.Squared += t.Latency.Squared
}

func (m *Moments) add(n Moments) {
	m.Squared += n.Squared
	m.TimesCalls += n.TimesCalls
}

// Observe counts one call that took extra attempts and d in total.
func (c *Counters) Observe(d time.Duration, extra int, failed bool) {
	c.Calls = addSaturated(c.Calls, 1)
	c.ExtraAttempts = addSaturated(c.ExtraAttempts, int64(max(extra, 0)))
	if failed {
		c.Failures = addSaturated(c.Failures, 1)
	}
	c.Latency.Observe(d)
}

// Validate refuses counts that no calls can produce: negative ones, and more failures than calls. A server calls it on each
// report.
func (c Counters) Validate() error {
	for _, count := range []struct {
		name  string
		value int64
	}{{"calls", c.Calls}, {"failures", c.Failures}, {"extra_attempts", c.ExtraAttempts}, {"openings", c.Openings}} {
		if count.value < 0 {
			return fmt.Errorf("rollout: %s: %d is negative", count.name, count.value)
		}
	}
	if c.Failures > c.Calls {
		return fmt.Errorf("rollout: failures: %d of %d calls", c.Failures, c.Calls)
	}
	return nil
}
