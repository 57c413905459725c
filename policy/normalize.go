package policy

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
)

// NormalizeError reports a value that cannot be normalised, such as an unknown kind of jitter.
type NormalizeError struct {
	Field string // dotted path
	Value string
	Known []string // the accepted values
}

// Error implements error.
func (e *NormalizeError) Error() string {
	return fmt.Sprintf("policy: %s: unknown value %q (known: %s)", e.Field, e.Value, strings.Join(e.Known, ", "))
}

// Normalize returns a copy of p that is safe to run under limits l. Absent and NaN values take their default, values out of
// range are clamped, and Meta notes each change once under its dotted path, as Defaulted or as Clamped. For an unknown enum
// value it returns a *NormalizeError and a zero policy. Normalizing a normalised policy changes nothing.
func (p Policy) Normalize(l Limits) (Policy, error) {
	p = p.Clone()
	n := notes{meta: &p.Meta}
	if p.Category != "" && !p.Meta.normal {
		n.category(&p.Category, &p.Retry)
	}
	p.Meta.normal = true
	if err := n.retry("retry.", &p.Retry, l); err != nil {
		return Policy{}, err
	}
	n.hedge(&p.Hedge, l)
	if p.Circuit.Kind != "" {
		if err := n.circuit(&p.Circuit, l); err != nil {
			return Policy{}, err
		}
	}
	if p.Circuit != (Circuit{}) {
		n.unused("circuit", reflect.ValueOf(&p.Circuit).Elem())
	}
	n.limit("limit", &p.Limit)
	if err := cmp.Or(p.Circuit.Scope.check("circuit.scope"), p.Limit.Scope.check("limit.scope")); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// check returns an error for an unknown value.
func (s Scope) check(field string) *NormalizeError {
	if s == "" || slices.Contains(s.Values(), string(s)) {
		return nil
	}
	return &NormalizeError{Field: field, Value: string(s), Known: s.Values()}
}

// notes applies defaults and clamps values, and notes the changed fields in meta.
type notes struct{ meta *Meta }

func (n notes) defaulted(path string) { note(&n.meta.Defaulted, &n.meta.Clamped, path) }
func (n notes) clamped(path string)   { note(&n.meta.Clamped, &n.meta.Defaulted, path) }

// note adds a path to one list and removes it from the other, which may have it from an earlier change.
func note(list, other *[]string, path string) {
	*list = once(*list, path)
	*other = slices.DeleteFunc(*other, func(p string) bool { return p == path })
}

func once(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// category fills the fields that the policy does not set from the catalog.
func (n notes) category(c *Category, r *Retry) {
	name, known := ParseCategory(string(*c))
	if !known {
		n.meta.Warnings = once(n.meta.Warnings, fmt.Sprintf("unknown category %q: 3 attempts, 1s to 30s", *c))
	}
	*c = name
	entry, _ := name.Policy()
	r.MaxAttempts = cmp.Or(r.MaxAttempts, entry.MaxAttempts)
	r.InitialBackoff = cmp.Or(r.InitialBackoff, entry.InitialBackoff)
	r.MaxBackoff = cmp.Or(r.MaxBackoff, entry.MaxBackoff)
	r.BackoffMultiplier = cmp.Or(r.BackoffMultiplier, entry.BackoffMultiplier)
	if r.Jitter == "" {
		r.Jitter, r.JitterFactor = entry.Jitter, entry.JitterFactor
	}
	if r.TimeoutPerAttempt == 0 && !slices.Contains(n.meta.None, "retry.timeout") {
		r.TimeoutPerAttempt = entry.TimeoutPerAttempt
	}
}

func (n notes) retry(path string, r *Retry, l Limits) error {
	fill(n, path+"max_attempts", &r.MaxAttempts, l.Attempts)
	steps, capped, negative := l.Surface == SurfaceStep, r.MaxBackoff > 0, r.MaxBackoff < 0
	if steps { // 0 is a value here: no wait, or no cap unless the limits have one
		n.floor(path+"backoff", &r.InitialBackoff, l.Backoff.Min)
		n.floor(path+"backoff_cap", &r.MaxBackoff, 0)
		if r.MaxBackoff == 0 && l.Cap.Max < maxDuration {
			r.MaxBackoff = l.Cap.Max
			if !negative {
				n.defaulted(path + "backoff_cap")
			}
		}
		if r.BackoffMultiplier == 0 && r.InitialBackoff == 0 {
			r.BackoffMultiplier = 1
		}
		ceiling(n, path+"backoff", &r.InitialBackoff, l.Backoff.Max)
		ceiling(n, path+"backoff_cap", &r.MaxBackoff, l.Cap.Max)
	} else {
		fill(n, path+"backoff", &r.InitialBackoff, l.Backoff)
		caps := l.Cap
		caps.Default = max(caps.Default, r.InitialBackoff) // a default cap must not shorten a given backoff
		fill(n, path+"backoff_cap", &r.MaxBackoff, caps)
	}
	fill(n, path+"backoff_multiplier", &r.BackoffMultiplier, l.Multiplier)
	if capped && l.Surface == SurfaceCall && r.MaxBackoff < r.InitialBackoff { // elsewhere the cap wins
		r.MaxBackoff = r.InitialBackoff
		n.clamped(path + "backoff_cap")
	}
	if err := n.jitter(path, r, l); err != nil {
		return err
	}
	n.timeout(path+"timeout", &r.TimeoutPerAttempt, l)
	n.timeout(path+"overall_timeout", &r.OverallTimeout, l)
	if steps && r.OverallTimeout != 0 {
		r.OverallTimeout = 0
		n.clamped(path + "overall_timeout")
	}
	if r.MaxPushback <= 0 {
		r.MaxPushback = max(l.Pushback, r.MaxBackoff)
		n.defaulted(path + "max_pushback")
	}
	n.budget(path+"budget.cost", &r.Budget)
	return nil
}

func (n notes) jitter(path string, r *Retry, l Limits) error {
	if r.Jitter == "" {
		r.Jitter = l.Jitter
		if r.JitterFactor == 0 && r.Jitter == JitterProportional {
			r.JitterFactor = l.JitterFactor
		}
		n.defaulted(path + "jitter")
	}
	if !slices.Contains(r.Jitter.Values(), string(r.Jitter)) {
		return &NormalizeError{Field: path + "jitter", Value: string(r.Jitter), Known: r.Jitter.Values()}
	}
	if r.Jitter != JitterProportional {
		r.JitterFactor = 0
		return nil
	}
	switch f := r.JitterFactor; {
	case f == 0 || math.IsNaN(f):
		r.JitterFactor = l.JitterFactor
		n.defaulted(path + "jitter_factor")
	case f < 0: // means a spread of 0, since a factor of 0 is absent
		r.Jitter, r.JitterFactor = JitterNone, 0
		n.clamped(path + "jitter_factor")
	case f > 1:
		r.JitterFactor = 1
		n.clamped(path + "jitter_factor")
	}
	return nil
}

// hedge fills absent numbers of calls whether or not hedging is on; jobs and steps do not hedge. It clamps values out of
// range in any case.
func (n notes) hedge(h *Hedge, l Limits) {
	absent := l.Surface == SurfaceCall || h.Enabled // absent fields have a default
	if absent || h.MaxHedges != 0 {
		fill(n, "hedge.max_hedges", &h.MaxHedges, l.Hedges)
	}
	if absent || h.HedgeDelay != 0 {
		fill(n, "hedge.delay", &h.HedgeDelay, l.HedgeDelay)
	}
	if h.Enabled && h.TriggerName == "" {
		h.TriggerName = TriggerFixed
		n.defaulted("hedge.trigger")
	}
	switch f := h.MaxExtraLoad; {
	case math.IsNaN(f):
		h.MaxExtraLoad = 0
		n.defaulted("hedge.max_extra_load")
	case f < 0 || f > 1:
		h.MaxExtraLoad = min(max(f, 0), 1)
		n.clamped("hedge.max_extra_load")
	}
	n.budget("hedge.budget.cost", &h.Budget)
}

func (n notes) circuit(c *Circuit, l Limits) error {
	d := l.Circuit
	positive := Range[int]{Min: 1, Max: math.MaxInt32}
	fill(n, "circuit.cooldown", &c.Cooldown, Range[time.Duration]{Default: d.Cooldown, Min: l.MinCooldown, Max: math.MaxInt64})
	positive.Default = d.Probes
	fill(n, "circuit.probes", &c.Probes, positive)
	switch c.Kind {
	case CircuitConsecutive:
		positive.Default = d.Failures
		fill(n, "circuit.failures", &c.Failures, positive)
		return nil
	case CircuitRate:
		n.rate("circuit.failure_rate", &c.FailureRate, d.FailureRate)
	case CircuitSlow:
		n.rate("circuit.slow_rate", &c.SlowRate, d.SlowRate)
		fill(n, "circuit.slow_after", &c.SlowAfter, Range[time.Duration]{Default: d.SlowAfter, Min: 1, Max: math.MaxInt64})
	default:
		return &NormalizeError{Field: "circuit.kind", Value: string(c.Kind), Known: c.Kind.Values()}
	}
	positive.Default = d.MinimumCalls
	fill(n, "circuit.minimum_calls", &c.MinimumCalls, positive)
	fill(n, "circuit.window", &c.Window, Range[time.Duration]{Default: d.Window, Min: l.MinCooldown, Max: l.MaxWindow})
	return nil
}

func (n notes) rate(path string, value *float64, byDefault float64) {
	switch {
	case *value == 0 || math.IsNaN(*value):
		*value = byDefault
		n.defaulted(path)
	case *value < 0:
		*value = byDefault
		n.clamped(path)
	case *value > 1:
		*value = 1
		n.clamped(path)
	}
}

// unused clears invalid values in fields that the policy does not use, so that the policy can be encoded and decoded again.
// Fields in use are in range already.
func (n notes) unused(path string, v reflect.Value) {
	for _, f := range fields.Of(v.Type()) {
		number, ok := numberOf(v.Field(f.Index))
		if problem, _ := f.Rule.Check(number); !ok || problem == "" {
			continue
		}
		v.Field(f.Index).SetZero()
		if math.IsNaN(number) || math.IsInf(number, 0) {
			n.defaulted(path + "." + f.Name)
		} else {
			n.clamped(path + "." + f.Name)
		}
	}
}

func (n notes) timeout(path string, d *time.Duration, l Limits) {
	switch {
	case *d < 0:
		*d = 0
		n.clamped(path)
	case *d > 0 && *d < l.MinTimeout:
		*d = l.MinTimeout
		n.clamped(path)
	}
}

func (n notes) budget(path string, b *BudgetRef) {
	switch {
	case b.Name == "":
		b.Cost = 0
	case b.Cost == 0:
		b.Cost = 1
		n.defaulted(path)
	case b.Cost < 0:
		b.Cost = 1
		n.clamped(path)
	}
}

func (n notes) floor(path string, d *time.Duration, lowest time.Duration) {
	if *d < lowest {
		*d = lowest
		n.clamped(path)
	}
}

func ceiling(n notes, path string, d *time.Duration, highest time.Duration) {
	if *d > highest {
		*d = highest
		n.clamped(path)
	}
}

// fill gives an absent value its default and clamps any other to its range. Durations of 0 or less are absent; integers and
// factors below their range are clamped to its lower end.
func fill[T int | float64 | time.Duration](n notes, path string, value *T, r Range[T]) {
	v := *value
	_, isDuration := any(v).(time.Duration)
	switch {
	case v == 0 || v != v || isDuration && v < 0:
		*value = r.Default
		if v < 0 {
			n.clamped(path)
		} else {
			n.defaulted(path)
		}
	case v < r.Min:
		*value = r.Min
		n.clamped(path)
	case v > r.Max:
		*value = r.Max
		n.clamped(path)
	}
}
