package policyimport

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Dapr converts Resiliency resources (dapr.io/v1alpha1): the timeout, retries and circuit breaker of each target. The key of an app
// or an actor type is its name; that of a component has ".outbound" or ".inbound" behind its name. Defaults are those of Dapr.
func Dapr(resources []byte) (Converted, error) {
	const what = "dapr resiliency"
	r := newReader()
	list := r.manifests(resources)
	c := newConverted()
	d := dapr{
		reader: r, result: &c, timeouts: newTemplates[time.Duration]("timeouts"),
		retries: newTemplates[policy.Retry]("retries"), circuits: newTemplates[policy.Circuit]("circuitBreakers"),
	}
	list = slices.DeleteFunc(list, func(m manifest) bool {
		if m.kind != "Resiliency" {
			m.leaveOut()
			return true
		}
		d.policies(m.spec)
		return false
	})
	for name, builtIn := range daprBuiltIn {
		if len(d.retries.of[name]) == 0 {
			builtIn.used = true
			d.retries.of[name] = []*template[policy.Retry]{&builtIn}
		}
	}
	for _, m := range list {
		d.targets(m.spec)
		m.skip("scopes")
	}
	d.timeouts.unused(r)
	d.retries.unused(r)
	d.circuits.unused(r)
	return c.finish(r, what, "no Resiliency with targets was found")
}

// daprBuiltIn are the retries that Dapr has without a resource (its pkg/resiliency, addBuiltInPolicies).
var daprBuiltIn = map[string]template[policy.Retry]{
	"DaprBuiltInServiceRetries": {value: daprConstant(4)},
	"DaprBuiltInActorRetries":   {value: daprConstant(4)},
	daprProtected:               {value: daprConstant(6)},
	"DaprBuiltInInitializationRetries": {
		value: daprExponential(4, time.Second),
		note:  "is approximated: Dapr makes no retry after 10s; " + daprJitter,
	},
	"DaprBuiltInActorReminderRetries": { // without MaxRetries: its package backoff takes 0 for none, not for no limit
		value: daprExponential(policy.CallLimits().Attempts.Max, time.Minute),
		note: fmt.Sprintf("is approximated: Dapr documents retries for 15m but makes none, here %d attempts are made; %s",
			policy.CallLimits().Attempts.Max, daprJitter),
	},
}

const daprJitter = "jitter never exceeds backoff_cap, where Dapr's may by half"

// daprProtected is the only one that a resource cannot override.
const daprProtected = "DaprBuiltInActorNotFoundRetries"

func daprConstant(attempts int) policy.Retry {
	return policy.Retry{MaxAttempts: attempts, InitialBackoff: time.Second, MaxBackoff: time.Second, BackoffMultiplier: 1, Jitter: policy.JitterNone}
}

// daprExponential has the growth of package backoff, which Dapr uses.
func daprExponential(attempts int, longest time.Duration) policy.Retry {
	return policy.Retry{
		MaxAttempts: attempts, InitialBackoff: 500 * time.Millisecond, MaxBackoff: longest, BackoffMultiplier: 1.5,
		Jitter: policy.JitterProportional, JitterFactor: 0.5,
	}
}

// dapr holds what is read from all Resiliency resources. Their policies are named templates, to which the targets of each refer.
type dapr struct {
	*reader
	result   *Converted
	timeouts templates[time.Duration]
	retries  templates[policy.Retry]
	circuits templates[policy.Circuit]
}

// templates are the policies of one kind, by name.
type templates[T any] struct {
	kind string
	of   map[string][]*template[T]
}

type template[T any] struct {
	spec, path string // of its resource, and its own
	value      T
	used       bool
	note       string // the note for its targets; empty if it is exact
}

func newTemplates[T any](kind string) templates[T] {
	return templates[T]{kind, map[string][]*template[T]{}}
}

// read reads the policies of one resource. one returns false for one that cannot be read.
func (t templates[T]) read(spec, policies object, one func(from object, name string) (T, bool)) {
	from, _ := policies.object(t.kind)
	for _, name := range from.names() {
		if value, ok := one(from, name); ok {
			t.of[name] = append(t.of[name], &template[T]{spec: spec.path, path: from.at(name), value: value})
		}
	}
}

// policies reads the policies of a resource.
func (d *dapr) policies(spec object) {
	policies, _ := spec.object("policies")
	d.timeouts.read(spec, policies, func(from object, name string) (time.Duration, bool) {
		timeout, _ := daprSpan(from, name)
		fit(d.reader, from.at(name), &timeout, positive)
		return timeout, true
	})
	d.retries.read(spec, policies, func(from object, name string) (r policy.Retry, ok bool) {
		if name == daprProtected {
			from.lose("is left out: Dapr lets no resource override it", name)
			return r, false
		}
		o, ok := from.object(name)
		if ok {
			r = d.retry(o, name)
		}
		return r, ok
	})
	d.circuits.read(spec, policies, func(from object, name string) (c policy.Circuit, ok bool) {
		o, ok := from.object(name)
		if ok {
			c = d.breaker(o)
		}
		return c, ok
	})
	policies.rest()
}

// targets converts the targets of a resource.
func (d *dapr) targets(spec object) {
	targets, _ := spec.object("targets")
	for _, kind := range []string{"apps", "actors"} {
		list, _ := targets.object(kind)
		for _, name := range list.names() {
			if o, ok := list.object(name); ok {
				d.target(spec, name, o)
			}
		}
	}
	components, _ := targets.object("components")
	for _, name := range components.names() {
		component, _ := components.object(name)
		for _, direction := range []string{"outbound", "inbound"} {
			if o, ok := component.object(direction); ok {
				d.target(spec, name+"."+direction, o)
			}
		}
		component.rest()
	}
	targets.rest()
	spec.rest()
}

// unused reports the templates that no target refers to.
func (t templates[T]) unused(r *reader) {
	for _, name := range slices.Sorted(maps.Keys(t.of)) {
		for _, template := range t.of[name] {
			switch {
			case template.used:
			case strings.HasPrefix(name, "DaprBuiltIn") || strings.HasPrefix(name, "Default") && strings.HasSuffix(name, "Policy"):
				r.lost(template.path, "is left out: Dapr applies it by its name, where a target has no policy of its own; repeat it for the keys of such targets")
			default:
				r.lost(template.path, "is left out: no target refers to it")
			}
		}
	}
}

func (d *dapr) target(spec object, key string, o object) {
	p := policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}
	d.retries.refer(spec, o, "retry", &p.Retry)
	d.timeouts.refer(spec, o, "timeout", &p.Retry.TimeoutPerAttempt)
	d.circuits.refer(spec, o, "circuitBreaker", &p.Circuit)
	o.rest("circuitBreakerScope", "circuitBreakerCacheSize")
	d.result.add(d.reader, key, o.path, p.Clone())
}

// refer reads a field of a target, and sets a policy to the template that it names: that of its own resource, or else of another one.
func (t templates[T]) refer(spec, o object, field string, to *T) {
	name := o.text(field)
	list := t.of[name]
	switch {
	case name == "":
		return
	case len(list) == 0:
		o.r.fault(o.at(field), "policies.%s has no %q", t.kind, name)
		return
	}
	named := list[len(list)-1]
	if own := slices.IndexFunc(list, func(t *template[T]) bool { return t.spec == spec.path }); own >= 0 {
		named = list[own]
	}
	if len(list) > 1 {
		o.r.approximate(o.at(field), "is approximated: several resources have a policy %s; Dapr uses the one that it loads last, here it is %s", name, named.path)
	}
	if named.note != "" {
		o.r.approximate(o.at(field), "%s", named.note)
	}
	named.used = true
	*to = named.value
}

func (d *dapr) retry(o object, name string) policy.Retry {
	limits := policy.CallLimits()
	r := policy.Retry{MaxAttempts: limits.Attempts.Max}
	n, path, given := o.number("maxRetries")
	if _, builtIn := daprBuiltIn[name]; builtIn && n < 3 && n == math.Trunc(n) {
		d.remark(path, "Dapr makes at least 3 retries under the name %s", name)
		n, given = 3, true
	}
	switch {
	case !given || n == -1:
		d.approximate(path, "retries without end, which no policy does; %d attempts are made", r.MaxAttempts)
	case n < -1 || n != float64(int(n)):
		d.fault(path, "%v is not a whole number from -1", n)
	default:
		r.MaxAttempts = d.attempts(int(n), path)
	}
	wait, waits := daprSpan(o, "duration")
	longest, bounded := daprSpan(o, "maxInterval")
	switch kind := cmp.Or(o.text("policy"), "constant"); strings.ToLower(kind) {
	case "constant":
		if r.InitialBackoff = 5 * time.Second; waits {
			r.InitialBackoff = wait
			atLeast(d.reader, o.at("duration"), &r.InitialBackoff, limits.Backoff.Min)
		}
		r.MaxBackoff, r.BackoffMultiplier, r.Jitter = r.InitialBackoff, 1, policy.JitterNone
		if bounded {
			d.lost(o.at("maxInterval"), "has no effect on a constant wait")
		}
	case "exponential":
		if r = daprExponential(r.MaxAttempts, time.Minute); bounded {
			r.MaxBackoff = max(longest, r.InitialBackoff)
		}
		if longest < r.InitialBackoff && bounded {
			d.approximate(o.at("maxInterval"), "is approximated: waits are about %v, where only the first of Dapr's is longer than %v", r.InitialBackoff, longest)
		}
		if waits {
			d.lost(o.at("duration"), "has no effect on an exponential wait")
		}
		d.approximate(o.at("policy"), "is approximated: "+daprJitter)
	default:
		d.fault(o.at("policy"), "%q is neither constant nor exponential", kind)
	}
	fit(d.reader, o.at("duration"), &r.InitialBackoff, limits.Backoff)
	fit(d.reader, o.at("maxInterval"), &r.MaxBackoff, limits.Cap)
	if matching, ok := o.object("matching"); ok {
		d.matching(matching, &r)
	}
	o.rest()
	return r
}

// daprSpan reads a duration as Go writes it, or a number of milliseconds, which Dapr accepts too.
func daprSpan(o object, name string) (d time.Duration, given bool) {
	text, _ := o.fields[name].(string)
	if _, err := strconv.ParseUint(text, 10, 40); err == nil {
		o.fields[name] = text + "ms"
	}
	return o.span(name)
}

// matching reads the statuses that are retried: "429,500-599".
func (d *dapr) matching(o object, r *policy.Retry) {
	for _, status := range d.ranges(o, "httpStatusCodes", 100, 599) {
		if class := policy.HTTPClass(status); class != "" {
			r.RetryOn = append(r.RetryOn, class)
		}
		if isBusinessOutcome(status) {
			d.approximate(o.at("httpStatusCodes"), "is approximated: 4xx other than 408 and 429 have no effect: the http classifier counts them as business outcomes")
		}
	}
	r.RetryOn = wholes(r.RetryOn)
	http := len(r.RetryOn)
	for _, code := range d.ranges(o, "gRPCStatusCodes", 0, 16) {
		if code > 0 {
			r.RetryOn = append(r.RetryOn, grpcClass(codes[code]))
			if http == 0 {
				grpcEffect(d.reader, o.at("gRPCStatusCodes"), grpcClass(codes[code]))
			}
		}
	}
	if o.rest(); len(r.RetryOn) == 0 {
		return
	}
	r.RetryOn = append(r.RetryOn, policy.ClassNetwork, policy.ClassTimeout) // Dapr always retries errors that are not answers
	switch {
	case http > 0 && len(r.RetryOn) > http+2:
		r.ClassifierName, r.RetryOn = "http", withoutGRPC(r.RetryOn)
		d.lost(o.at("gRPCStatusCodes"), "is left out beside httpStatusCodes: the http classifier is used, which does not know statuses of gRPC")
	case http > 0:
		r.ClassifierName = "http"
	default:
		r.ClassifierName = "grpc"
	}
	if http > 0 {
		d.approximate(o.at("httpStatusCodes"), idempotentOnly)
	}
	d.remark(o.path, suppliedBy, r.ClassifierName, "tenet"+r.ClassifierName)
}

// wholes writes all hundred classes of a family, such as http_500 to http_599, as the family.
func wholes(list []policy.Class) []policy.Class {
	for _, family := range []policy.Class{policy.ClassHTTP4xx, policy.ClassHTTP5xx} {
		within := func(c policy.Class) bool { return c.Within(family) }
		members := slices.DeleteFunc(slices.Clone(list), func(c policy.Class) bool { return !within(c) })
		slices.Sort(members)
		if len(slices.Compact(members)) == 100 {
			list = append(slices.DeleteFunc(list, within), family)
		}
	}
	return list
}

// ranges reads a list of numbers and ranges of numbers.
func (d *dapr) ranges(o object, name string, low, high int) (list []int) {
	for part := range strings.SplitSeq(o.text(name), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < low || to > high || from > to {
			d.fault(o.at(name), "%q is not a status from %d to %d, or a range such as 500-503", part, low, high)
			continue
		}
		for n := from; n <= to; n++ {
			list = append(list, n)
		}
	}
	return list
}

var trips = regexp.MustCompile(`^\s*consecutiveFailures\s*(>=?)\s*([0-9]{1,6})\s*$`)

func (d *dapr) breaker(o object) policy.Circuit {
	c := policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 6, Cooldown: time.Minute, Probes: 1} // Dapr's defaults
	if n, _, given := o.count("maxRequests"); given && n > 0 {
		c.Probes = n
	}
	if cooldown, ok := daprSpan(o, "timeout"); ok && cooldown > 0 {
		c.Cooldown = cooldown
		atLeast(d.reader, o.at("timeout"), &c.Cooldown, policy.CallLimits().MinCooldown)
	}
	if interval, ok := daprSpan(o, "interval"); ok && interval > 0 {
		d.lost(o.at("interval"), "has no equivalent: failures in a row are not forgotten with time")
	}
	if trip := o.text("trip"); trip != "" {
		m := trips.FindStringSubmatch(trip)
		if m == nil {
			d.lost(o.at("trip"), "is left out: only consecutiveFailures with > or >= and a number is converted; %d failures in a row open the breaker", c.Failures)
		} else {
			n, _ := strconv.Atoi(m[2])
			if m[1] == ">" {
				n++
			}
			c.Failures = max(n, 1)
		}
	}
	o.rest()
	return c
}
