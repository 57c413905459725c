package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/internal/lists"
)

// Violation is one fault of a policy.
type Violation struct {
	Path    string // dotted, for example retry.max_attempts
	Problem string
	Remedy  string
	Warning bool // the policy is usable, with the value clamped
}

// String returns "path: problem; remedy".
func (v Violation) String() string {
	s := v.Path + ": " + v.Problem
	if v.Remedy != "" {
		s += "; " + v.Remedy
	}
	return s
}

// ValidationError holds every violation that a strict reading found, in the order of the fields.
type ValidationError struct{ Violations []Violation }

// Error lists all violations, separated by line breaks.
func (e *ValidationError) Error() string {
	return "policy: " + strings.Join(lists.Map(e.Violations, Violation.String), "\n")
}

type violations []Violation

func (v *violations) add(path, problem, remedy string) {
	*v = append(*v, Violation{Path: path, Problem: problem, Remedy: remedy})
}

func (v *violations) warn(path, problem, remedy string) {
	*v = append(*v, Violation{Path: path, Problem: problem, Remedy: remedy, Warning: true})
}

// err keeps the violations that are not warnings.
func (v violations) err() error {
	faults := slices.DeleteFunc(slices.Clone(v), func(x Violation) bool { return x.Warning })
	if len(faults) == 0 {
		return nil
	}
	return &ValidationError{Violations: faults}
}

// Validate is the strict reading: it returns a *ValidationError with every violation, or nil. A zero field is absent and
// takes its default. Values above a limit are not violations; they are clamped when the policy is normalised
// ([Policy.Check] reports them as warnings).
func (p Policy) Validate(l Limits) error { return violations(p.Check(l)).err() }

// Check is Validate with warnings.
func (p Policy) Check(l Limits) []Violation {
	var v violations
	v.ranges("", reflect.ValueOf(p))
	v.retry("retry", p.Retry, l)
	limit(&v, "hedge.max_hedges", p.Hedge.MaxHedges, l.Hedges)
	limit(&v, "hedge.delay", p.Hedge.HedgeDelay, l.HedgeDelay)
	if p.Hedge.Budget.Cost != 0 && p.Hedge.Budget.Name == "" {
		v.add("hedge.budget.name", "missing", "name a budget")
	}
	if p.Circuit.Kind != "" {
		limit(&v, "circuit.cooldown", p.Circuit.Cooldown, Range[time.Duration]{Min: l.MinCooldown, Max: maxDuration})
		limit(&v, "circuit.window", p.Circuit.Window, Range[time.Duration]{Min: l.MinCooldown, Max: l.MaxWindow})
	} else if (p.Circuit != Circuit{}) {
		v.add("circuit.kind", "missing", "write consecutive, rate or slow, or remove the circuit")
	}
	if p.Circuit.Kind == CircuitSlow && p.Circuit.SlowAfter == 0 {
		v.warn("circuit.slow_after", "not given, "+show(l.Circuit.SlowAfter)+" is used", "say from when on a call is slow")
	}
	v.limit("limit", p.Limit)
	return v
}

const maxDuration = time.Duration(1<<63 - 1)

func (v *violations) retry(path string, r Retry, l Limits) {
	limit(v, path+".max_attempts", r.MaxAttempts, l.Attempts)
	limit(v, path+".backoff", r.InitialBackoff, l.Backoff)
	limit(v, path+".backoff_cap", r.MaxBackoff, l.Cap)
	limit(v, path+".backoff_multiplier", r.BackoffMultiplier, l.Multiplier)
	limit(v, path+".timeout", r.TimeoutPerAttempt, Range[time.Duration]{Min: l.MinTimeout, Max: maxDuration})
	limit(v, path+".overall_timeout", r.OverallTimeout, Range[time.Duration]{Min: l.MinTimeout, Max: maxDuration})
	v.order(path, r.InitialBackoff, r.MaxBackoff, l.Surface)
	if jitter := cmp.Or(r.Jitter, l.Jitter); r.JitterFactor != 0 && jitter != JitterProportional {
		v.warn(path+".jitter_factor", "has no effect with jitter "+string(jitter), "remove it, or write jitter: proportional")
	}
	if l.Surface == SurfaceStep && r.OverallTimeout != 0 {
		v.add(path+".overall_timeout", "not allowed in a pipeline step", "use transaction_timeout or the loop's timeout")
	}
	if r.Budget.Cost != 0 && r.Budget.Name == "" {
		v.add(path+".budget.name", "missing", "name a budget")
	}
	for _, class := range r.RetryOn {
		if slices.Contains(r.AbortOn, class) {
			v.add(path+".retry_on", fmt.Sprintf("class %q is also in abort_on", class), "keep it in one of the two lists")
		}
	}
}

// order adds a warning for a cap below the backoff.
func (v *violations) order(path string, backoff, longest time.Duration, s Surface) {
	if longest <= 0 || longest >= backoff {
		return
	}
	effect := "wins: no wait is longer"
	if s == SurfaceCall {
		effect = "is raised to it"
	}
	v.warn(path+".backoff_cap", fmt.Sprintf("%s is below the backoff of %s and %s", show(longest), show(backoff), effect),
		"raise backoff_cap or lower backoff")
}

// limit adds a warning for a present value outside its limits, unless the value is a violation anyway.
func limit[T int | float64 | time.Duration](v *violations, path string, value T, r Range[T]) {
	switch {
	case value <= 0 || slices.ContainsFunc(*v, func(x Violation) bool { return x.Path == path }):
	case value < r.Min:
		v.warn(path, show(value)+" is below the limit and is raised to "+show(r.Min), "write "+show(r.Min)+" or more")
	case value > r.Max:
		v.warn(path, show(value)+" is above the limit and is lowered to "+show(r.Max), "write "+show(r.Max)+" or less")
	}
}

func show[T int | float64 | time.Duration](v T) string { return fmt.Sprint(v) }

// ranges checks every present number, duration and enum of a struct against what its tags accept.
func (v *violations) ranges(path string, value reflect.Value) {
	for _, f := range fields.Of(value.Type()) {
		at := f.Name
		if path != "" {
			at = path + "." + f.Name
		}
		v.field(at, f, value.Field(f.Index))
	}
}

func (v *violations) field(path string, f fields.Field, value reflect.Value) {
	if value.IsZero() {
		return
	}
	if category, ok := value.Interface().(Category); ok {
		if _, known := ParseCategory(string(category)); known {
			return
		}
	}
	if enum, ok := value.Interface().(interface{ Values() []string }); ok {
		if !slices.Contains(enum.Values(), value.String()) {
			v.add(path, fmt.Sprintf("unknown value %q", value.String()), "write one of "+strings.Join(enum.Values(), ", "))
		}
		return
	}
	if value.Kind() == reflect.Struct {
		v.ranges(path, value)
		return
	}
	number, ok := numberOf(value)
	if !ok {
		return
	}
	if problem, remedy := f.Rule.Check(number); problem != "" {
		v.add(path, fmt.Sprintf("%v %s", value.Interface(), problem), remedy)
	}
}

// numberOf returns a present number, with durations in seconds.
func numberOf(v reflect.Value) (number float64, present bool) {
	switch v.Kind() {
	case reflect.Int:
		number = float64(v.Int())
	case reflect.Int64: // a duration
		number = fields.Seconds(time.Duration(v.Int()))
	case reflect.Float64:
		number = v.Float()
	}
	return number, number != 0
}
