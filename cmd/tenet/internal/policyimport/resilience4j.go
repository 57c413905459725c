package policyimport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Resilience4j converts the settings of resilience4j in a Spring Boot application's YAML: retry, circuitbreaker, bulkhead, ratelimiter
// and timelimiter. Instances of the same name become one policy, whose key is that name. Settings that an instance lacks come from its
// baseConfig and those below it, from the configuration "default", or from resilience4j's own defaults. A circuitbreaker with a
// baseConfig does not take settings from "default".
func Resilience4j(application []byte) (Converted, error) {
	const what = "resilience4j configuration"
	r := newReader()
	r.placeholders = r.springText
	roots, err := r.loadAll(application)
	if err != nil && properties.Match(application) {
		err = errors.New("a .properties file is not read; write its settings as YAML: " + r4jForm)
	}
	if err != nil {
		return Converted{}, fmt.Errorf("%s: %w", what, err)
	}
	j := resilience4j{reader: r, policies: map[string]*policy.Policy{}}
	for _, module := range r4jModules {
		var parts []object
		for _, root := range roots {
			o, ok := root.object("resilience4j." + module.name)
			if nested, is := root.fields["resilience4j"].(map[string]any); !ok && is {
				o, ok = object{r: r, path: root.at("resilience4j"), fields: nested}.object(module.name)
			}
			if ok {
				parts = append(parts, o)
			}
		}
		j.instances(parts, module)
	}
	for _, root := range roots {
		if rest, ok := root.object("resilience4j"); ok {
			rest.rest()
		}
		for _, name := range root.names() {
			module, dotted := strings.CutPrefix(name, "resilience4j.")
			module, _, _ = strings.Cut(module, ".")
			switch {
			case !dotted:
			case slices.ContainsFunc(r4jModules, func(m r4jModule) bool { return m.name == module }):
				j.lost(root.at(name), "is left out: write the instances as nested objects, "+r4jForm)
			default:
				j.lost(root.at(name), "is not known and is left out")
			}
		}
	}
	c := newConverted()
	for _, name := range slices.Sorted(maps.Keys(j.policies)) {
		p := j.policies[name]
		if p.Retry.MaxAttempts == 0 {
			p.Retry.MaxAttempts = 1
			r.remark("resilience4j.retry", "has no instance %s: its policy makes one attempt. If methods use it beside a retry of another name, move its settings to that policy", name)
		}
		c.Policies[name] = *p
	}
	return c.finish(r, what, "no instance of retry, circuitbreaker, bulkhead, ratelimiter or timelimiter was found: they stand under "+r4jForm)
}

const r4jForm = "resilience4j: {retry: {instances: {…}}}"

var properties = regexp.MustCompile(`(?m)^\s*resilience4j\.[^\s=:]+\s*=`)

type resilience4j struct {
	*reader
	policies map[string]*policy.Policy
}

// r4jModules are in the order in which Spring applies them, from the outside in. Everything inside retry is done for each attempt.
var r4jModules = []r4jModule{
	{"retry", []string{"instances", "backends"}, r4jRetry}, {"circuitbreaker", []string{"instances", "backends"}, r4jCircuit},
	{"ratelimiter", []string{"instances", "limiters"}, r4jRate}, {"timelimiter", []string{"instances"}, r4jTimeout},
	{"bulkhead", []string{"instances", "backends"}, r4jBulkhead},
}

type r4jModule struct {
	name    string
	lists   []string // the fields that hold its instances: today's name and an older one
	convert func(object, *policy.Policy)
}

// instances converts the instances of a module, whose configurations may stand in other documents.
func (j *resilience4j) instances(documents []object, module r4jModule) {
	configs := object{r: j.reader, fields: map[string]any{}, from: map[string]string{}}
	for _, o := range documents {
		own, _ := o.object("configs")
		for _, name := range own.names() {
			key := springKey(name)
			j.once(configs.from, key, own.at(name))
			configs.fields[key] = own.fields[name]
		}
	}
	known, used := map[string]string{}, map[string]bool{}
	for _, o := range documents {
		for _, list := range module.lists {
			instances, _ := o.object(list)
			for _, name := range instances.names() {
				instance, _ := instances.object(name)
				if instance.fields == nil { // an instance without settings of its own
					instance = object{r: j.reader, path: instances.at(name), fields: map[string]any{}}
				}
				key := springKey(name)
				j.once(known, key, instance.path)
				maps.Copy(used, j.instance(key, instance, configs, module))
			}
		}
		o.rest("metrics", "circuitBreakerAspectOrder", "retryAspectOrder", "bulkheadAspectOrder", "rateLimiterAspectOrder", "timeLimiterAspectOrder")
	}
	for _, name := range configs.names() {
		config, _ := j.object(configs.fields[name], configs.at(name))
		if !used[config.path] {
			j.lost(configs.at(name), "is left out: no instance uses it")
			continue
		}
		for _, field := range config.names() {
			if path := config.at(field); !used[path] && config.fields[field] != nil {
				j.lost(path, "is left out: the instances that use %s have another value", name)
			}
		}
	}
}

// once notes the path of a name, which only one document may set.
func (j *resilience4j) once(known map[string]string, name, path string) {
	if earlier := known[name]; earlier != "" {
		j.fault(path, "is set as %s too; leave one, with the settings of one profile", earlier)
	}
	known[name] = path
}

// instance converts an instance, and returns the paths of the configurations that it is built on, and of their settings that it has.
func (j *resilience4j) instance(name string, instance, configs object, module r4jModule) (used map[string]bool) {
	layers, used := map[string]bool{}, map[string]bool{}
	build := func(base string) {
		layers[base], used[configs.at(base)] = true, true
		if module.name == "retry" {
			instance.withoutWait()
		}
		instance = instance.over(configs, base)
		for _, path := range instance.from {
			used[path] = true
		}
	}
	for base := instance.text("baseConfig"); base != ""; base = instance.text("baseConfig") {
		if layers[base] {
			j.fault(instance.at("baseConfig"), "%q is built on itself", base)
			break
		}
		if configs.fields[base] == nil {
			j.fault(instance.at("baseConfig"), "configs has no %q", base)
		}
		build(base)
	}
	if len(layers) == 0 || module.name != "circuitbreaker" && !layers["default"] { // as CommonRetryConfigurationProperties and its siblings
		build("default")
	}
	p := j.policies[name]
	if p == nil {
		j.checkName(name, instance.path)
		p = &policy.Policy{}
		j.policies[name] = p
	}
	module.convert(instance, p)
	instance.rest("registerHealthIndicator", "eventConsumerBufferSize")
	return used
}

// over returns the fields of o, and those of a configuration that o lacks.
func (o object) over(configs object, base string) object {
	both := object{r: o.r, path: o.path, fields: maps.Clone(o.fields), from: maps.Clone(o.from)}
	if both.from == nil {
		both.from = map[string]string{}
	}
	config, _ := o.r.object(configs.fields[base], configs.at(base))
	for name, value := range config.fields {
		if spelling, _ := o.spelling(camel(strings.ReplaceAll(name, "-", "_"))); o.fields[spelling] == nil {
			both.fields[name], both.from[name] = value, config.at(name)
		}
	}
	return both
}

const inJava = "names Java code: mark errors in Go with tenet.Permanent, or declare classes and use retry_on and abort_on"

// withoutWait drops the settings that resilience4j reads beside a waitDuration only.
func (o object) withoutWait() {
	if _, waits := o.spelling("waitDuration"); !waits {
		o.lose("has no effect without a waitDuration beside it", "enableExponentialBackoff", "exponentialBackoffMultiplier",
			"exponentialMaxWaitDuration", "enableRandomizedWait", "randomizedWaitFactor")
	}
}

// holder returns the path of the object that holds a setting.
func holder(path string) string { return path[:max(strings.LastIndexByte(path, '.'), 0)] }

func r4jRetry(o object, p *policy.Policy) {
	limits, r := policy.CallLimits(), &p.Retry
	r.MaxAttempts = o.fitted("maxAttempts", 3, limits.Attempts)
	o.withoutWait()
	exponential, _ := o.springFlag("enableExponentialBackoff")
	randomized, _ := o.springFlag("enableRandomizedWait")
	wait := o.spring
	if exponential || randomized {
		wait = o.springPositive
	}
	spelling, _ := o.spelling("waitDuration")
	waitPath := o.at(spelling)
	r.InitialBackoff, r.BackoffMultiplier, r.Jitter = wait("waitDuration", 500*time.Millisecond), 1, policy.JitterNone
	atLeast(o.r, waitPath, &r.InitialBackoff, limits.Backoff.Min)
	fit(o.r, waitPath, &r.InitialBackoff, limits.Backoff)
	r.MaxBackoff = r.InitialBackoff
	factor, factorPath, factored := o.number("randomizedWaitFactor")
	if factor < 0 || factor >= 1 {
		o.r.fault(factorPath, "%v is not 0 or more and below 1", factor)
	}
	const without = "has no effect without %s"
	if factored && holder(factorPath) != holder(waitPath) { // resilience4j's ConfigUtils does not merge it
		o.r.lost(factorPath, without, "waitDuration in the same configuration")
		factored = false
	}
	multiplier, path, multiplied := o.number("exponentialBackoffMultiplier")
	if multiplied && multiplier <= 0 {
		o.r.fault(path, "%v is not above 0", multiplier)
	}
	longest, longestPath := o.springPositive("exponentialMaxWaitDuration", -1), o.at("exponentialMaxWaitDuration")
	switch { // as in CommonRetryConfigurationProperties.configureRetryIntervalFunction
	case longest < 0: // none
	case !exponential:
		o.r.lost(longestPath, without, "enableExponentialBackoff")
	case !multiplied:
		o.r.lost(longestPath, without, "exponentialBackoffMultiplier")
		longest = -1
	case randomized && !factored:
		o.r.lost(longestPath, without, "randomizedWaitFactor, as waits are random")
		longest = -1
	}
	switch {
	case exponential:
		r.BackoffMultiplier, r.MaxBackoff = cmp.Or(multiplier, 1.5), longest
		fit(o.r, path, &r.BackoffMultiplier, limits.Multiplier)
	case multiplied:
		o.r.lost(path, without, "enableExponentialBackoff")
	}
	if r.MaxBackoff < 0 {
		r.MaxBackoff = limits.Cap.Max
		if last := float64(r.InitialBackoff) * math.Pow(r.BackoffMultiplier, float64(r.MaxAttempts-2)); last > float64(r.MaxBackoff) {
			o.r.approximate(path, "is approximated: no wait exceeds %v", r.MaxBackoff)
		}
	}
	fit(o.r, longestPath, &r.MaxBackoff, limits.Cap)
	r.InitialBackoff = min(r.InitialBackoff, r.MaxBackoff)
	switch {
	case !factored:
		factor = 0.5
	case !randomized:
		o.r.lost(factorPath, without, "enableRandomizedWait")
	case exponential && !multiplied:
		factor = 0.5
		o.r.lost(factorPath, without, "exponentialBackoffMultiplier, as waits grow: 0.5 is used")
	}
	if randomized && factor > 0 { // a policy's 0 is its default
		r.Jitter, r.JitterFactor = policy.JitterProportional, factor
		if !exponential { // the cap bounds jitter too
			r.MaxBackoff += time.Duration(float64(r.InitialBackoff) * r.JitterFactor)
			fit(o.r, waitPath, &r.MaxBackoff, limits.Cap)
		}
	}
	o.lose(inJava, "retryExceptions", "ignoreExceptions", "retryExceptionPredicate", "resultPredicate", "intervalBiFunction")
	o.skip("failAfterMaxAttempts", "consumeResultBeforeRetryAttempt")
}

func r4jCircuit(o object, p *policy.Policy) {
	limits := policy.CallLimits()
	c := policy.Circuit{Kind: policy.CircuitRate, FailureRate: 0.5, MinimumCalls: 100, Window: limits.Circuit.Window}
	slowRate, slowPath, slow := o.percentage("slowCallRateThreshold")
	slowAfter := o.springPositive("slowCallDurationThreshold", time.Minute)
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
	size, sizePath := o.atLeastOne("slidingWindowSize", 100)
	timed := o.timedWindow()
	c.MinimumCalls, _ = o.atLeastOne("minimumNumberOfCalls", 100)
	if timed {
		c.Window = time.Duration(min(size, 1e6)) * time.Second
		fit(o.r, sizePath, &c.Window, policy.Range[time.Duration]{Min: time.Second, Max: limits.MaxWindow})
	} else {
		c.MinimumCalls = min(c.MinimumCalls, size) // resilience4j's CircuitBreakerMetrics judges a full window
		o.r.approximate(sizePath, "is approximated: rates are counted over %v, where resilience4j counts the last calls", c.Window)
	}
	c.Cooldown = o.springPositive("waitDurationInOpenState", time.Minute)
	atLeast(o.r, o.at("waitDurationInOpenState"), &c.Cooldown, limits.MinCooldown)
	probes, probesPath := o.atLeastOne("permittedNumberOfCallsInHalfOpenState", 10)
	if c.Probes = probes; c.Probes > 1 {
		o.r.approximate(probesPath, "is approximated: the first probe that fails opens the breaker again, where resilience4j judges the rate of all of them")
	}
	p.Circuit = c
	o.lose(inJava, "recordExceptions", "ignoreExceptions", "recordFailurePredicate", "recordResultPredicate", "ignoreExceptionPredicate", "recordExceptionPredicate", "ignoreClassBindingExceptions")
	o.skip("automaticTransitionFromOpenToHalfOpenEnabled", "maxWaitDurationInHalfOpenState", "writableStackTraceEnabled", "allowHealthIndicatorToFail",
		"enableExponentialBackoff", "exponentialBackoffMultiplier", "exponentialMaxWaitDurationInOpenState", "enableRandomizedWait", "randomizedWaitFactor", "initialState")
}

// percentage reads a share in percent, from 1 to 100, and returns it as a fraction.
func (o object) percentage(name string) (share float64, path string, given bool) {
	n, path, given := o.number(name)
	if given && (n < 1 || n > 100) {
		o.r.fault(path, "%v is not a percentage from 1 to 100", n)
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
	p.Limit.Concurrency = o.fitted("maxConcurrentCalls", 25, counts)
	wait := o.spring("maxWaitDuration", 0)
	if p.Limit.Rate.Count == 0 {
		p.Limit.MaxWait = wait
	} else if wait != p.Limit.MaxWait {
		o.r.approximate(o.at("maxWaitDuration"), "is %v, but %v is used: a policy has one max_wait, which is the rate limiter's timeoutDuration", wait, p.Limit.MaxWait)
	}
	o.skip("writableStackTraceEnabled", "fairCallHandlingStrategyEnabled")
}

func r4jRate(o object, p *policy.Policy) {
	rate := policy.Rate{Per: o.springPositive("limitRefreshPeriod", 500*time.Nanosecond)}
	rate.Count = o.fitted("limitForPeriod", 50, counts)
	fit(o.r, o.at("limitRefreshPeriod"), &rate.Per, policy.Range[time.Duration]{Min: time.Millisecond, Max: time.Hour})
	rate.Burst = rate.Count
	o.r.approximate(o.at("limitForPeriod"), "is approximated: attempts start at an even pace after a burst, where resilience4j refills all at once")
	p.Limit.Rate, p.Limit.MaxWait = rate, o.spring("timeoutDuration", 5*time.Second)
	o.skip("allowHealthIndicatorToFail", "subscribeForEvents", "drainPermissionsOnResult", "writableStackTraceEnabled")
}

func r4jTimeout(o object, p *policy.Policy) {
	p.Retry.TimeoutPerAttempt = o.spring("timeoutDuration", time.Second)
	if p.Retry.TimeoutPerAttempt == 0 {
		o.r.fault(o.at("timeoutDuration"), "is 0: every attempt would time out; leave the timelimiter out for none")
	}
	fit(o.r, o.at("timeoutDuration"), &p.Retry.TimeoutPerAttempt, positive)
	if cancels, given := o.springFlag("cancelRunningFuture"); given && !cancels {
		o.r.lost(o.at("cancelRunningFuture"), "has no equivalent: the context of an attempt ends with its timeout")
	}
}
