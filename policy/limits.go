package policy

import (
	"math"
	"time"
)

// Limits are the defaults and bounds of one surface. A document may tighten them (see [Limits.Tighten]); a program may pass
// wider ones.
type Limits struct {
	Surface  Surface              `json:"surface"`
	Attempts Range[int]           `json:"max_attempts"`
	Backoff  Range[time.Duration] `json:"backoff"`
	// A Default of 0 means no cap.
	Cap        Range[time.Duration] `json:"backoff_cap"`
	Multiplier Range[float64]       `json:"backoff_multiplier"`
	// Jitter and JitterFactor replace an absent jitter; JitterFactor also replaces an absent factor.
	Jitter       Jitter        `json:"jitter"`
	JitterFactor float64       `json:"jitter_factor"`
	MinTimeout   time.Duration `json:"min_timeout"`
	// Pushback replaces an absent max_pushback, or the cap does if it is higher.
	Pushback    time.Duration        `json:"max_pushback"`
	Hedges      Range[int]           `json:"max_hedges"`
	HedgeDelay  Range[time.Duration] `json:"hedge_delay"`
	Circuit     Circuit              `json:"circuit"` // the values for absent circuit fields
	MinCooldown time.Duration        `json:"min_cooldown"`
	MaxWindow   time.Duration        `json:"max_window"`
}

// Range is a default with the lowest and highest value allowed.
type Range[T int | float64 | time.Duration] struct {
	Default T `json:"default"`
	Min     T `json:"min"`
	Max     T `json:"max"`
}

const (
	minute = time.Minute
	day    = 24 * time.Hour
)

// CallLimits are the limits of in-process calls: at most 10 attempts, delays from 1 ms to 60 s.
func CallLimits() Limits {
	return Limits{
		Surface:      SurfaceCall,
		Attempts:     Range[int]{Default: 3, Min: 1, Max: 10},
		Backoff:      Range[time.Duration]{Default: 10 * time.Millisecond, Min: time.Millisecond, Max: minute},
		Cap:          Range[time.Duration]{Default: 250 * time.Millisecond, Min: time.Millisecond, Max: minute},
		Multiplier:   Range[float64]{Default: 2, Min: 1, Max: 10},
		Jitter:       JitterFull,
		JitterFactor: 0.1,
		MinTimeout:   time.Millisecond,
		Pushback:     minute,
		Hedges:       Range[int]{Default: 1, Min: 1, Max: 3},
		HedgeDelay:   Range[time.Duration]{Default: 200 * time.Millisecond, Min: 10 * time.Millisecond, Max: minute},
		Circuit: Circuit{
			Failures: 5, FailureRate: 0.5, SlowRate: 0.5, SlowAfter: time.Second, MinimumCalls: 20,
			Window: 10 * time.Second, Cooldown: 10 * time.Second, Probes: 1,
		},
		MinCooldown: 100 * time.Millisecond,
		MaxWindow:   time.Hour,
	}
}

// JobLimits are the limits of durable jobs: 25 attempts unless said otherwise, at most 1,000; delays up to 7 days.
func JobLimits() Limits {
	l := CallLimits()
	l.Surface = SurfaceJob
	l.Attempts = Range[int]{Default: 25, Min: 1, Max: 1000}
	l.Backoff = Range[time.Duration]{Default: 200 * time.Millisecond, Min: time.Millisecond, Max: 7 * day}
	l.Cap = Range[time.Duration]{Default: 5 * time.Second, Min: time.Millisecond, Max: 7 * day}
	l.Jitter, l.JitterFactor = JitterProportional, 0.2
	l.Pushback = 7 * day
	return l
}

// Unbounded is 100 years. In Go it represents a duration without a bound in a document: max_pushback: null, and the
// backoff_cap: 0 of an empty queue.
const Unbounded = 100 * 365 * day

// StepLimits are the limits of pipeline steps: one attempt unless said otherwise, at most 1,000; neither a wait nor a cap
// unless given; an unbounded multiplier.
func StepLimits() Limits {
	l := CallLimits()
	l.Surface = SurfaceStep
	l.Attempts = Range[int]{Default: 1, Min: 1, Max: 1000}
	l.Backoff = Range[time.Duration]{Max: math.MaxInt64}
	l.Cap = Range[time.Duration]{Max: math.MaxInt64}
	l.Multiplier.Max = math.MaxFloat64
	l.Jitter = JitterNone
	return l
}

// LimitsFor returns the built-in limits of a surface.
func LimitsFor(s Surface) Limits {
	switch s {
	case SurfaceJob:
		return JobLimits()
	case SurfaceStep:
		return StepLimits()
	}
	return CallLimits()
}

// Tightening tightens the limits of one surface. A zero field leaves its limit unchanged.
type Tightening struct {
	// MaxAttempts is the highest max_attempts.
	MaxAttempts int `json:"max_attempts" check:"min=1"`
	// MinBackoff is the shortest backoff, in seconds.
	MinBackoff time.Duration `json:"min_backoff" check:"positive"`
	// MaxBackoffCap is the longest backoff_cap, in seconds.
	MaxBackoffCap time.Duration `json:"max_backoff_cap" check:"positive"`
	// MaxMultiplier is the highest backoff_multiplier.
	MaxMultiplier float64 `json:"max_backoff_multiplier" check:"min=1"`
	// MaxHedges is the highest max_hedges.
	MaxHedges int `json:"max_hedges" check:"min=1"`
	// MinHedgeDelay is the shortest hedge delay, in seconds.
	MinHedgeDelay time.Duration `json:"min_hedge_delay" check:"positive"`
}

// Tighten narrows l by t. It ignores each field of t that would widen a limit, and reports it as a violation. Defaults move
// with the bounds.
func (l Limits) Tighten(t Tightening) (Limits, []Violation) {
	var v violations
	lower(&l.Attempts, t.MaxAttempts, "max_attempts", &v)
	raise(&l.Backoff, t.MinBackoff, "min_backoff", &v)
	lower(&l.Cap, t.MaxBackoffCap, "max_backoff_cap", &v)
	lower(&l.Multiplier, t.MaxMultiplier, "max_backoff_multiplier", &v)
	lower(&l.Hedges, t.MaxHedges, "max_hedges", &v)
	raise(&l.HedgeDelay, t.MinHedgeDelay, "min_hedge_delay", &v)
	l.Backoff.Max = min(l.Backoff.Max, l.Cap.Max)
	l.Cap.Min = max(l.Cap.Min, l.Backoff.Min)
	if l.Backoff.Min > l.Cap.Max {
		v.add("min_backoff", "is above max_backoff_cap", "lower min_backoff or raise max_backoff_cap")
	}
	l.Backoff.Default = min(l.Backoff.Default, l.Backoff.Max)
	if l.Cap.Default > 0 {
		l.Cap.Default = max(l.Cap.Default, l.Cap.Min)
	}
	return l, v
}

func lower[T int | float64 | time.Duration](r *Range[T], limit T, path string, v *violations) {
	switch {
	case limit == 0:
	case limit > r.Max:
		v.add(path, "would widen the limit of "+show(r.Max), "limits in a document may only tighten; write "+show(r.Max)+" or less")
	case limit < r.Min:
		v.add(path, "is below the lowest allowed value "+show(r.Min), "write "+show(r.Min)+" or more")
	default:
		r.Max = limit
		r.Default = min(r.Default, limit)
	}
}

func raise[T int | float64 | time.Duration](r *Range[T], limit T, path string, v *violations) {
	switch {
	case limit == 0:
	case limit < r.Min:
		v.add(path, "would widen the limit of "+show(r.Min), "limits in a document may only tighten; write "+show(r.Min)+" or more")
	case limit > r.Max:
		v.add(path, "is above the highest allowed value "+show(r.Max), "write "+show(r.Max)+" or less")
	default:
		r.Min = limit
		r.Default = max(r.Default, limit)
	}
}
