package hedge

import (
	"time"

	"github.com/tenetdev/tenet/policy"
)

// minSamples is how many latencies a percentile needs before it is used.
const minSamples = 50

// Trigger decides when to hedge. Implementations are safe for concurrent use.
type Trigger interface {
	// Delay returns how long after the launch of the latest attempt to launch a hedge, or false for no hedge for now. h
	// is the policy's part about hedging. d holds the latencies of the key's successful attempts; nil where none are
	// kept.
	Delay(h policy.Hedge, d *Digest) (time.Duration, bool)
}

// NeedsDigest reports whether latencies must be kept for t. Those of a trigger are kept unless it has a method
// NeedsDigest() bool that returns false.
func NeedsDigest(t Trigger) bool {
	if n, ok := t.(interface{ NeedsDigest() bool }); ok {
		return n.NeedsDigest()
	}
	return true
}

// Builtin returns the trigger of a built-in name: fixed, p50, p90, p95 or p99.
func Builtin(name string) (Trigger, bool) {
	switch name {
	case policy.TriggerFixed:
		return Fixed, true
	case policy.TriggerP50:
		return Percentile(0.50), true
	case policy.TriggerP90:
		return Percentile(0.90), true
	case policy.TriggerP95:
		return Percentile(0.95), true
	case policy.TriggerP99:
		return Percentile(0.99), true
	}
	return nil, false
}

// Fixed is the trigger that hedges after the policy's delay.
const Fixed fixed = 0

type fixed int

// Delay returns h.HedgeDelay.
func (fixed) Delay(h policy.Hedge, _ *Digest) (time.Duration, bool) { return h.HedgeDelay, true }

// NeedsDigest returns false.
func (fixed) NeedsDigest() bool { return false }

// Percentile is the trigger that hedges an attempt once it is slower than this share of the successful ones: 0.95 hedges
// about one call in twenty. While fewer than 50 latencies are known it hedges after the policy's delay. NaN and values
// outside 0 to 1 are taken as the nearer end, NaN as 1.
type Percentile float64

// Delay returns the percentile of the latencies in d, or h.HedgeDelay.
func (p Percentile) Delay(h policy.Hedge, d *Digest) (time.Duration, bool) {
	if d == nil {
		return h.HedgeDelay, true
	}
	latency, samples := d.Quantile(float64(p))
	if samples < minSamples {
		return h.HedgeDelay, true
	}
	return latency, true
}

// After is the trigger that hedges an attempt after this latency, whatever the policy's delay. It does not have a built-in
// name: register it under a name of your choice.
type After time.Duration

// Delay returns the latency, at least 0.
func (a After) Delay(policy.Hedge, *Digest) (time.Duration, bool) {
	return max(time.Duration(a), 0), true
}

// NeedsDigest returns false.
func (After) NeedsDigest() bool { return false }
