package policyimport

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// Resilience4j converts the settings of resilience4j in a Spring Boot application's YAML: retry, circuitbreaker, bulkhead, ratelimiter
// and timelimiter. Instances of the same name become one policy, whose key is that name. Settings that an instance lacks come from its
// baseConfig and those below it, from the configuration "default", or from resilience4j's own defaults. A circuitbreaker with a
// baseConfig does not take settings from "default".
func Resilience4j(application []byte) (Converted, error) {
	const what = "resilience4j configuration"
	r := newReader()
	roots, err := r.loadAll(application)
	if err != nil {
		return Converted{}, fmt.Errorf("%s: %w", what, err)
	}
	j := resilience4j{reader: r, policies: map[string]*policy.Policy{}}
	for _, module := range r4jModules {
		known := map[string]bool{}
		for _, root := range roots {
			o, ok := root.object("resilience4j." + module.name)
			if nested, is := root.fields["resilience4j"].(map[string]any); !ok && is {
				o, ok = object{r: r, path: root.at("resilience4j"), fields: nested}.object(module.name)
			}
			if ok {
				j.instances(o, known, module.name, module.convert)
			}
		}
	}
	for _, root := range roots {
		if rest, ok := root.object("resilience4j"); ok {
			rest.rest()
		}
		for _, name := range root.names() {
			if strings.HasPrefix(name, "resilience4j.") {
				j.lost(root.at(name), "is left out: write the instances as nested objects, resilience4j: {retry: {instances: {…}}}")
			}
		}
	}
	c := newConverted()
	for _, name := range slices.Sorted(maps.Keys(j.policies)) {
		p := j.policies[name]
		p.Retry.MaxAttempts = max(p.Retry.MaxAttempts, 1)
		c.Policies[name] = *p
	}
	return c.finish(r, what, "no instance of retry, circuitbreaker, bulkhead, ratelimiter or timelimiter was found: they stand under resilience4j: {retry: {instances: {…}}}")
}

type resilience4j struct {
	*reader
	policies map[string]*policy.Policy
}

// r4jModules are in the order in which Spring applies them, from the outside in. Everything inside retry is done for each attempt.
var r4jModules = []struct {
	name    string
	convert func(object, *policy.Policy)
}{{"retry", r4jRetry}, {"circuitbreaker", r4jCircuit}, {"ratelimiter", r4jRate}, {"timelimiter", r4jTimeout}, {"bulkhead", r4jBulkhead}}

// instances converts the instances of a module in one document. known has those of the documents before it.
func (j *resilience4j) instances(o object, known map[string]bool, module string, convert func(object, *policy.Policy)) {
	configs, _ := o.object("configs")
	instances, _ := o.object("instances")
	used := map[string]bool{}
	for _, name := range instances.names() {
		instance, _ := instances.object(name)
		if instance.fields == nil { // an instance without settings of its own
			instance = object{r: j.reader, path: instances.at(name), fields: map[string]any{}}
		}
		if known[name] {
			j.fault(instance.path, "is set in an earlier document too; leave one document, with the settings of one profile")
		}
		known[name] = true
		layers := map[string]bool{}
		for base := instance.text("baseConfig"); base != ""; base = instance.text("baseConfig") {
			if layers[base] {
				j.fault(instance.at("baseConfig"), "%q is built on itself", base)
				break
			}
			if configs.fields[base] == nil {
				j.fault(instance.at("baseConfig"), "configs has no %q", base)
			}
			layers[base] = true
			instance = instance.over(configs, base)
		}
		if len(layers) == 0 || module != "circuitbreaker" && !layers["default"] { // as CommonRetryConfigurationProperties and its siblings
			layers["default"] = true
			instance = instance.over(configs, "default")
		}
		maps.Copy(used, layers)
		p := j.policies[name]
		if p == nil {
			p = &policy.Policy{}
			j.policies[name] = p
		}
		convert(instance, p)
		instance.skip("registerHealthIndicator", "eventConsumerBufferSize")
		instance.rest()
	}
	for _, name := range configs.names() {
		if !used[name] {
			j.lost(configs.at(name), "is left out: no instance uses it")
		}
	}
	o.skip("metrics", "circuitBreakerAspectOrder", "retryAspectOrder", "bulkheadAspectOrder", "rateLimiterAspectOrder", "timeLimiterAspectOrder")
	o.rest()
}

// over returns the fields of o, and those of a configuration that o lacks.
func (o object) over(configs object, base string) object {
	both := object{r: o.r, path: o.path, fields: maps.Clone(o.fields), from: maps.Clone(o.from)}
	if both.from == nil {
		both.from = map[string]string{}
	}
	config, _ := configs.fields[base].(map[string]any)
	for name, value := range config {
		if own, _ := (object{r: o.r, fields: maps.Clone(o.fields)}).take(camel(strings.ReplaceAll(name, "-", "_"))); own == nil {
			both.fields[name], both.from[name] = value, fields.Join(configs.at(base), name)
		}
	}
	return both
}

var isoDuration = regexp.MustCompile(`^P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,9})?)S)?)?$`)

// spring reads a duration as Spring does: "500ms", "PT0.5S", or a number of milliseconds.
func (o object) spring(name string, otherwise time.Duration) time.Duration {
	v, path := o.take(name)
	if v == nil {
		return otherwise
	}
	o.r.add(Note{Path: path, Fidelity: Exact})
	text := strings.TrimSpace(fmt.Sprint(v))
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < math.MaxInt64/int64(time.Millisecond) {
		return time.Duration(n) * time.Millisecond
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour
		}
	}
	if m := isoDuration.FindStringSubmatch(strings.ToUpper(text)); m != nil && m[0] != "P" && !strings.HasSuffix(m[0], "T") {
		sum := 0.0
		for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
			n, _ := strconv.ParseFloat(m[i+1], 64) // an absent part is 0
			sum += n * float64(unit)
		}
		if sum >= math.MaxInt64 {
			o.r.fault(path, "%q is too long for a duration; at most 292 years", text)
			return otherwise
		}
		return time.Duration(math.Round(sum))
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		o.r.fault(path, "%v is not a duration such as 500ms or PT0.5S, or a number of milliseconds", quoted(v))
		return otherwise
	}
	return d
}

const inJava = "names Java code: mark errors in Go with tenet.Permanent, or declare classes and use retry_on and abort_on"

func r4jRetry(o object, p *policy.Policy) {
	limits, r := policy.CallLimits(), &p.Retry
	r.MaxAttempts = 3
	if n, path, given := o.count("maxAttempts"); given {
		if n == 0 {
			o.r.fault(path, "must be 1 or more")
		}
		r.MaxAttempts = n
		fit(o.r, path, &r.MaxAttempts, limits.Attempts)
	}
	r.InitialBackoff, r.BackoffMultiplier, r.Jitter = o.spring("waitDuration", 500*time.Millisecond), 1, policy.JitterNone
	atLeast(o.r, o.at("waitDuration"), &r.InitialBackoff, limits.Backoff.Min)
	fit(o.r, o.at("waitDuration"), &r.InitialBackoff, limits.Backoff)
	r.MaxBackoff = r.InitialBackoff
	multiplier, path, _ := o.number("exponentialBackoffMultiplier")
	longest := o.spring("exponentialMaxWaitDuration", -1) // none
	exponential := o.flag("enableExponentialBackoff")
	switch {
	case exponential && multiplier == 0:
		r.BackoffMultiplier, r.MaxBackoff = 1.5, longest
	case exponential:
		r.BackoffMultiplier, r.MaxBackoff = multiplier, longest
		fit(o.r, path, &r.BackoffMultiplier, limits.Multiplier)
	case multiplier != 0:
		o.r.lost(path, "has no effect without enableExponentialBackoff")
	}
	if r.MaxBackoff < 0 {
		r.MaxBackoff = limits.Cap.Max
		if last := float64(r.InitialBackoff) * math.Pow(r.BackoffMultiplier, float64(r.MaxAttempts-2)); last > float64(r.MaxBackoff) {
			o.r.approximate(path, "is approximated: no wait exceeds %v", r.MaxBackoff)
		}
	}
	if !exponential && longest >= 0 {
		o.r.lost(o.at("exponentialMaxWaitDuration"), "has no effect without enableExponentialBackoff")
	}
	fit(o.r, o.at("exponentialMaxWaitDuration"), &r.MaxBackoff, limits.Cap)
	factor, path, given := o.number("randomizedWaitFactor")
	switch {
	case o.flag("enableRandomizedWait"):
		r.Jitter, r.JitterFactor = policy.JitterProportional, 0.5
		if given {
			r.JitterFactor = factor
		}
		if factor < 0 || factor >= 1 {
			o.r.fault(path, "%v is not 0 or more and below 1", factor)
		}
		if r.JitterFactor == 0 { // a policy's 0 is its default
			r.Jitter = policy.JitterNone
		}
		if !exponential { // the cap bounds jitter too
			r.MaxBackoff += time.Duration(float64(r.InitialBackoff) * r.JitterFactor)
			fit(o.r, o.at("waitDuration"), &r.MaxBackoff, limits.Cap)
		}
	case given:
		o.r.lost(path, "has no effect without enableRandomizedWait")
	}
	o.lose(inJava, "retryExceptions", "ignoreExceptions", "retryExceptionPredicate", "resultPredicate", "intervalBiFunction")
	o.skip("failAfterMaxAttempts", "consumeResultBeforeRetryAttempt")
}

func r4jCircuit(o object, p *policy.Policy) {
	limits := policy.CallLimits()
	c := policy.Circuit{Kind: policy.CircuitRate, FailureRate: 0.5, MinimumCalls: 100, Window: limits.Circuit.Window}
	slowRate, slowPath, slow := o.percentage("slowCallRateThreshold")
	slowAfter := o.spring("slowCallDurationThreshold", time.Minute)
	failureRate, _, failing := o.percentage("failureRateThreshold")
	switch {
	case slow && slowRate < 1 && !failing:
		c = policy.Circuit{Kind: policy.CircuitSlow, SlowRate: slowRate, SlowAfter: slowAfter, MinimumCalls: 100, Window: c.Window}
		o.r.remark(slowPath, "resilience4j also opens at 50 percent of failures, the default of failureRateThreshold; a policy has one breaker")
	default:
		if failing {
			c.FailureRate = failureRate
		}
		if slow {
			o.r.lost(slowPath, "is left out: a policy has one breaker, and that of failureRateThreshold is used")
		}
		if slowAfter != time.Minute {
			o.r.lost(o.at("slowCallDurationThreshold"), "is left out: a policy has one breaker, and that of failureRateThreshold is used")
		}
	}
	size, sizePath, sized := o.count("slidingWindowSize")
	if !sized {
		size = 100
	}
	timed := o.timedWindow()
	if n, _, given := o.count("minimumNumberOfCalls"); given {
		c.MinimumCalls = n
	}
	if timed {
		c.Window = time.Duration(min(size, 1e6)) * time.Second
		fit(o.r, sizePath, &c.Window, policy.Range[time.Duration]{Min: time.Second, Max: limits.MaxWindow})
	} else {
		c.MinimumCalls = min(c.MinimumCalls, size) // resilience4j's CircuitBreakerMetrics judges a full window
		o.r.approximate(sizePath, "is approximated: rates are counted over %v, where resilience4j counts the last calls", c.Window)
	}
	c.MinimumCalls = max(c.MinimumCalls, 1)
	c.Cooldown = o.spring("waitDurationInOpenState", time.Minute)
	atLeast(o.r, o.at("waitDurationInOpenState"), &c.Cooldown, limits.MinCooldown)
	probes, probesPath, given := o.count("permittedNumberOfCallsInHalfOpenState")
	if !given {
		probes = 10
	}
	if c.Probes = max(probes, 1); c.Probes > 1 {
		o.r.approximate(probesPath, "is approximated: the first probe that fails opens the breaker again, where resilience4j judges the rate of all of them")
	}
	p.Circuit = c
	o.lose(inJava, "recordExceptions", "ignoreExceptions", "recordFailurePredicate", "recordResultPredicate", "ignoreExceptionPredicate", "recordExceptionPredicate", "ignoreClassBindingExceptions")
	o.skip("automaticTransitionFromOpenToHalfOpenEnabled", "maxWaitDurationInHalfOpenState", "writableStackTraceEnabled", "allowHealthIndicatorToFail",
		"enableExponentialBackoff", "exponentialBackoffMultiplier", "exponentialMaxWaitDurationInOpenState", "enableRandomizedWait", "randomizedWaitFactor", "initialState")
}

// percentage reads a share in percent, above 0 and up to 100, and returns it as a fraction.
func (o object) percentage(name string) (share float64, path string, given bool) {
	n, path, given := o.number(name)
	if given && (n <= 0 || n > 100) {
		o.r.fault(path, "%v is not a percentage above 0 and up to 100", n)
	}
	return n / 100, path, given
}

// timedWindow reads slidingWindowType, a name of an enumeration, in which Spring ignores case and punctuation.
func (o object) timedWindow() bool {
	text := o.text("slidingWindowType")
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToUpper(text)) {
	case "TIMEBASED":
		return true
	case "COUNTBASED", "":
	default:
		o.r.fault(o.at("slidingWindowType"), "%q is neither COUNT_BASED nor TIME_BASED", text)
	}
	return false
}

func r4jBulkhead(o object, p *policy.Policy) {
	p.Limit.Concurrency = 25
	if n, path, given := o.count("maxConcurrentCalls"); given {
		p.Limit.Concurrency = max(n, 1)
		fit(o.r, path, &p.Limit.Concurrency, counts)
	}
	wait := o.spring("maxWaitDuration", 0)
	if p.Limit.Rate.Count == 0 {
		p.Limit.MaxWait = wait
	} else if wait != p.Limit.MaxWait {
		o.r.approximate(o.at("maxWaitDuration"), "is %v, but %v is used: a policy has one max_wait, which is the rate limiter's timeoutDuration", wait, p.Limit.MaxWait)
	}
	o.skip("writableStackTraceEnabled", "fairCallHandlingStrategyEnabled")
}

func r4jRate(o object, p *policy.Policy) {
	rate := policy.Rate{Count: 50, Per: o.spring("limitRefreshPeriod", 500*time.Nanosecond)}
	if n, path, given := o.count("limitForPeriod"); given {
		rate.Count = max(n, 1)
		fit(o.r, path, &rate.Count, counts)
	}
	fit(o.r, o.at("limitRefreshPeriod"), &rate.Per, policy.Range[time.Duration]{Min: time.Millisecond, Max: time.Hour})
	rate.Burst = rate.Count
	o.r.approximate(o.at("limitForPeriod"), "is approximated: attempts start at an even pace after a burst, where resilience4j refills all at once")
	p.Limit.Rate, p.Limit.MaxWait = rate, o.spring("timeoutDuration", 5*time.Second)
	o.skip("allowHealthIndicatorToFail", "subscribeForEvents", "drainPermissionsOnResult", "writableStackTraceEnabled")
}

func r4jTimeout(o object, p *policy.Policy) {
	p.Retry.TimeoutPerAttempt = o.spring("timeoutDuration", time.Second)
	fit(o.r, o.at("timeoutDuration"), &p.Retry.TimeoutPerAttempt, positive)
	v, path := o.take("cancelRunningFuture")
	if v == false {
		o.r.lost(path, "has no equivalent: the context of an attempt ends with its timeout")
	}
}
