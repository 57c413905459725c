package policyimport

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/tenetdev/tenet/policy"
)

// throttling is the name of the budget that gRPC's retryThrottling becomes.
const throttling = "grpc-retry-throttling"

// GRPC converts a gRPC service config (grpc/doc/service_config.md; gRFC A6 for retries and hedging). The key of a method
// is "package.Service.Method". A service without a method becomes the key "package.Service", and the entry without a
// name the defaults.
func GRPC(serviceConfig []byte) (Converted, error) {
	r := newReader()
	root := r.load(serviceConfig)
	c := newConverted()
	throttled := grpcThrottling(root, &c)
	anyDefault := false
	for _, method := range root.objects("methodConfig") {
		anyDefault = grpcMethod(method, &c, throttled) || anyDefault
	}
	root.rest("loadBalancingConfig", "loadBalancingPolicy", "healthCheckConfig")
	usesGRPC := c.Defaults.Retry.ClassifierName == "grpc"
	for _, p := range c.Policies {
		usesGRPC = usesGRPC || p.Retry.ClassifierName == "grpc"
	}
	if usesGRPC {
		r.remark("methodConfig", suppliedBy, "grpc", "tenetgrpc")
	}
	switch {
	case anyDefault && len(c.Policies) > 0:
		r.remark("methodConfig", "gRPC uses one entry as a whole; here, a policy takes the fields that it does not set from the defaults")
	case !anyDefault:
		r.remark("methodConfig", "gRPC does not retry methods without an entry; write defaults.calls.retry.max_attempts: 1 for the same")
	}
	return c.finish(r, "grpc service config", "methodConfig has no entry")
}

// grpcThrottling reads retryThrottling and reports whether there is one. gRPC allows retries while its bucket is more
// than half full: that half is the burst.
func grpcThrottling(root object, c *Converted) bool {
	o, ok := root.object("retryThrottling")
	if !ok {
		return false
	}
	tokens, tokensPath, _ := o.number("maxTokens")
	ratio, ratioPath, _ := o.number("tokenRatio")
	if tokens <= 0 || tokens > 1000 {
		o.r.fault(tokensPath, "is required, above 0 and up to 1000")
	}
	if ratio <= 0 {
		o.r.fault(ratioPath, "is required, above 0")
	}
	burst := tokens / 2
	fit(o.r, ratioPath, &ratio, policy.Range[float64]{Max: 10})
	fit(o.r, tokensPath, &burst, policy.Range[float64]{Min: 1, Max: 1000})
	o.r.approximate(o.path, "is approximated: a retry costs a token and every call earns tokenRatio, where gRPC charges failures and credits successes")
	o.rest()
	c.Budgets[throttling] = policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: ratio, Burst: burst}
	return true
}

// grpcMethod reads an entry of methodConfig and reports whether it is that of the defaults.
func grpcMethod(o object, c *Converted, throttled bool) (isDefault bool) {
	names := o.objects("name")
	if len(names) == 0 {
		o.r.fault(o.at("name"), "is required: an entry without names applies to nothing")
	}
	p := grpcPolicy(o, throttled)
	for _, name := range names {
		service, method := name.text("service"), name.text("method")
		name.rest()
		key := service
		switch {
		case service == "" && method != "":
			o.r.fault(name.at("service"), "is required where there is a method")
			continue
		case service == "":
			if !c.Defaults.IsZero() {
				o.r.fault(name.path, "is a second default entry")
			}
			o.r.approximate(name.path, "becomes the defaults, which apply to every call of the process")
			c.Defaults, isDefault = p, true
			continue
		case method == "":
			o.r.approximate(name.path, "applies to the key %s; let tenetgrpc.Options.Key return it for the service's methods, or repeat the policy for each", key)
		default:
			key += "." + method
		}
		if strings.ContainsFunc(key, unicode.IsSpace) {
			o.r.fault(name.path, "%q contains white space, which a service or method cannot", key)
			continue
		}
		if _, twice := c.Policies[key]; twice {
			o.r.fault(name.path, "%s is named twice", key)
		}
		o.r.checkName(key, name.path)
		c.Policies[key] = p.Clone()
	}
	return isDefault
}

func grpcPolicy(o object, throttled bool) policy.Policy {
	p := policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}
	if timeout, ok := o.duration("timeout"); ok {
		p.Retry.OverallTimeout = timeout
		if timeout == 0 {
			o.r.fault(o.at("timeout"), "is 0: every call would fail; leave it out for none")
		}
		fit(o.r, o.at("timeout"), &p.Retry.OverallTimeout, positive)
	}
	retry, retries := o.object("retryPolicy")
	hedging, hedges := o.object("hedgingPolicy")
	switch {
	case retries && hedges:
		o.r.fault(o.path, "has both a retryPolicy and a hedgingPolicy; gRPC allows one")
	case retries:
		grpcRetry(retry, &p.Retry)
	case hedges:
		grpcHedging(hedging, &p)
	}
	if throttled && (retries || hedges) {
		p.Retry.Budget.Name = throttling
	}
	o.rest("waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes")
	return p
}

func grpcRetry(o object, r *policy.Retry) {
	limits := policy.CallLimits()
	r.MaxAttempts = grpcAttempts(o)
	backoff, _ := o.duration("initialBackoff")
	ceiling, _ := o.duration("maxBackoff")
	if backoff == 0 {
		o.r.fault(o.at("initialBackoff"), "is required, above 0")
	}
	if ceiling == 0 {
		o.r.fault(o.at("maxBackoff"), "is required, above 0")
	}
	r.InitialBackoff, r.MaxBackoff = min(backoff, ceiling), ceiling
	fit(o.r, o.at("initialBackoff"), &r.InitialBackoff, limits.Backoff)
	fit(o.r, o.at("maxBackoff"), &r.MaxBackoff, limits.Cap)
	multiplier, path, _ := o.number("backoffMultiplier")
	if multiplier <= 0 {
		o.r.fault(path, "is required, above 0")
	}
	r.BackoffMultiplier = multiplier
	fit(o.r, path, &r.BackoffMultiplier, limits.Multiplier)
	r.Jitter, r.JitterFactor = policy.JitterProportional, 0.2 // as in gRFC A6
	if last := float64(r.InitialBackoff) * math.Pow(r.BackoffMultiplier, float64(r.MaxAttempts-2)); last*(1+r.JitterFactor) > float64(r.MaxBackoff) {
		o.r.approximate(o.at("maxBackoff"), "is approximated: jitter never exceeds it, where gRPC's may by a fifth")
	}
	r.RetryOn = grpcCodes(o, "retryableStatusCodes")
	if len(r.RetryOn) == 0 {
		o.r.fault(o.at("retryableStatusCodes"), "is required and must name a code")
	}
	r.ClassifierName = "grpc"
	r.TimeoutPerAttempt, _ = o.duration("perAttemptRecvTimeout")
	fit(o.r, o.at("perAttemptRecvTimeout"), &r.TimeoutPerAttempt, positive)
	o.rest()
}

func grpcHedging(o object, p *policy.Policy) {
	limits := policy.CallLimits()
	hedges := grpcAttempts(o) - 1
	fit(o.r, o.at("maxAttempts"), &hedges, limits.Hedges)
	delay, _ := o.duration("hedgingDelay")
	atLeast(o.r, o.at("hedgingDelay"), &delay, limits.HedgeDelay.Min)
	fit(o.r, o.at("hedgingDelay"), &delay, limits.HedgeDelay)
	p.Hedge = policy.Hedge{Enabled: true, MaxHedges: hedges, HedgeDelay: delay, TriggerName: policy.TriggerFixed, CancelOnFirstTerminal: true}
	p.Retry.ClassifierName = "grpc"
	p.Retry.RetryOn = grpcCodes(o, "nonFatalStatusCodes")
	if len(p.Retry.RetryOn) > 0 {
		o.r.approximate(o.at("nonFatalStatusCodes"), "is approximated: such an answer does not end the call, but the next hedge waits for its delay all the same")
	} else {
		p.Retry.AbortOn = []policy.Class{policy.ClassGRPC} // every code is fatal
	}
	o.rest()
}

// grpcAttempts reads maxAttempts, of which gRPC itself makes at most 5.
func grpcAttempts(o object) int {
	n, path, _ := o.count("maxAttempts")
	if n < 2 {
		o.r.fault(path, "is required, 2 or more")
	}
	if n > 5 {
		o.r.approximate(path, "%d counts as 5, as in gRPC", n)
	}
	return min(n, 5)
}

var codes = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED",
}

// grpcCodes reads a list of status codes, by name or number.
func grpcCodes(o object, name string) []policy.Class {
	items, path := o.list(name)
	var list []policy.Class
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		code := -1
		switch x := item.(type) {
		case string:
			code = slices.Index(codes, strings.ToUpper(x))
		case int:
			code = x
		}
		if code <= 0 || code >= len(codes) {
			o.r.fault(at, "%v is not the code of an error, such as UNAVAILABLE or 14", quoted(item))
			continue
		}
		class := grpcClass(codes[code])
		grpcEffect(o.r, at, class)
		if !slices.Contains(list, class) {
			list = append(list, class)
		}
	}
	return list
}

func grpcClass(code string) policy.Class {
	if code == "CANCELLED" {
		return "grpc_canceled"
	}
	return policy.Class("grpc_" + strings.ToLower(code))
}

// grpcEffect notes codes that the grpc classifier does not retry, or not always.
func grpcEffect(r *reader, path string, class policy.Class) {
	switch class {
	case "grpc_unavailable", "grpc_resource_exhausted", "grpc_aborted":
	case "grpc_deadline_exceeded":
		r.approximate(path, "%s is retried only where the attempt's own timeout struck; set retry.timeout", class)
	default:
		r.approximate(path, "%s has no effect: the grpc classifier never retries it", class)
	}
}
