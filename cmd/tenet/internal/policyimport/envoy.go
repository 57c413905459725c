package policyimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Envoy converts what Envoy's configuration (API v3) says about retries: retry_policy and hedge_policy of routes and
// virtual hosts, circuit_breakers and outlier_detection of clusters, wherever they occur in the input, which may be a
// whole bootstrap, a route configuration, a list of clusters under "clusters", a single route or a bare retry policy. A
// policy's key is the name of its route or else that of its cluster. Routing and everything else that does not concern
// retries is ignored without a note.
func Envoy(config []byte) (Converted, error) {
	r := newReader()
	root := r.load(config)
	e := envoy{
		reader: r, clusters: map[string]*envoyCluster{}, targets: map[string]string{},
		result: newConverted(),
	}
	if isRetryPolicy(root) {
		p := e.retryPolicy(root)
		e.add("envoy", "", "", p)
	} else {
		e.visit(root, names{})
	}
	e.join()
	return e.result.finish(r, "envoy configuration", "no retry_policy, hedge_policy, circuit_breakers or outlier_detection was found")
}

type envoy struct {
	*reader
	result   Converted
	targets  map[string]string // clusters of policies by key
	clusters map[string]*envoyCluster
}

func isRetryPolicy(o object) bool {
	return slices.ContainsFunc([]string{"retry_on", "retryOn", "num_retries", "numRetries"}, func(name string) bool {
		_, has := o.fields[name]
		return has
	})
}

// names holds the possible names of an object: its own, that of its parent, and that of any enclosing object. faulty is the path of a
// name that is not a string, if that is the innermost one.
type names struct{ own, parent, around, faulty string }

// label returns a string that names something, without taking it. Other parts of a configuration may have fields of this name and any
// type, so that its path is returned if it is not a string, and the fault left to what needs the name.
func label(o object, field string) (text, faulty string) {
	text, ok := o.fields[field].(string)
	if !ok && o.fields[field] != nil {
		faulty = o.at(field)
	}
	return text, faulty
}

// checkLabels reports names that are not strings.
func (e *envoy) checkLabels(faulty ...string) {
	for _, path := range faulty {
		if path != "" {
			e.fault(path, "is not a string")
		}
	}
}

// visit looks for everything of interest in an object and below it.
func (e *envoy) visit(o object, n names) {
	own, faulty := label(o, "name")
	if own != "" || faulty != "" {
		n.own, n.around, n.faulty = own, cmp.Or(own, n.around), faulty
	}
	o.skip("retry_policy_typed_config")
	retry, retries := o.object("retry_policy")
	hedge, hedges := o.object("hedge_policy")
	if retries || hedges {
		p := policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}
		if retries {
			p = e.retryPolicy(retry)
		}
		if hedges {
			e.hedgePolicy(hedge, &p)
		}
		e.route(o, n, p)
	}
	if breakers, ok := o.object("circuit_breakers"); ok {
		e.breakers(breakers, e.cluster(n, breakers.path))
	}
	if outliers, ok := o.object("outlier_detection"); ok {
		e.outliers(outliers, e.cluster(n, outliers.path))
	}
	for _, field := range o.names() {
		switch x := o.fields[field].(type) {
		case map[string]any:
			e.visit(object{r: e.reader, path: o.at(field), fields: x}, names{parent: n.own, around: n.around, faulty: n.faulty})
		case []any:
			e.visitAll(x, o.at(field), names{around: n.around, faulty: n.faulty})
		}
	}
}

func (e *envoy) visitAll(items []any, path string, n names) {
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch x := item.(type) {
		case map[string]any:
			e.visit(object{r: e.reader, path: at, fields: x}, n)
		case []any:
			e.visitAll(x, at, n)
		}
	}
}

// route adds the policy of a route's action, or of a virtual host or route configuration.
func (e *envoy) route(o object, n names, p policy.Policy) {
	cluster, faulty := label(o, "cluster")
	e.checkLabels(n.faulty, faulty)
	name := cmp.Or(n.own, n.parent, cluster, n.around)
	_, isHost := o.fields["routes"]
	_, isConfig := o.fields["virtual_hosts"]
	if isHost || isConfig {
		e.remark(o.path, "Envoy applies this policy to routes without one of their own; here it applies to the key %s only", name)
	} else if timeout, ok := o.duration("timeout"); ok {
		p.Retry.OverallTimeout = timeout
		fit(e.reader, o.at("timeout"), &p.Retry.OverallTimeout, positive)
	} else {
		p.Retry.OverallTimeout = 15 * time.Second
		e.remark(o.at("timeout"), "is not given; Envoy's default of 15s is written out")
	}
	if clusters, _ := o.take("weighted_clusters"); clusters != nil {
		e.remark(o.path, "leads to several clusters; the policy does not get their budgets and breakers")
	}
	e.add(name, cluster, o.path, p)
}

var positive = policy.Range[time.Duration]{Min: policy.CallLimits().MinTimeout, Max: 1<<63 - 1}

// add adds a policy under a name, and remembers the cluster of its route.
func (e *envoy) add(name, cluster, path string, p policy.Policy) {
	e.targets[e.result.add(e.reader, cmp.Or(name, "envoy"), path, p)] = cluster
	if name == "" {
		e.remark(path, "has no name; its key is envoy")
	}
}

// retryPolicy converts config.route.v3.RetryPolicy.
func (e *envoy) retryPolicy(o object) policy.Policy {
	p := policy.Policy{Retry: policy.Retry{Jitter: policy.JitterFull, BackoffMultiplier: 2}}
	r := &p.Retry
	retries, path, given := o.count("num_retries")
	if !given {
		retries = 1
	}
	r.MaxAttempts = e.attempts(retries, path)
	r.TimeoutPerAttempt, _ = o.duration("per_try_timeout")
	fit(e.reader, o.at("per_try_timeout"), &r.TimeoutPerAttempt, positive)
	e.backoff(o, r)
	if limited, ok := o.object("rate_limited_retry_back_off"); ok {
		e.rateLimited(limited, r)
	}
	e.conditions(o, r)
	o.rest("per_try_idle_timeout", "retry_priority", "retry_host_predicate", "retry_options_predicates",
		"host_selection_retry_max_attempts", "retriable_headers", "retriable_request_headers")
	return p
}

// backoff converts retry_back_off. The bound of the waits doubles, as in Envoy's JitteredExponentialBackOffStrategy; its documentation
// says that it grows by 2ⁿ−1.
func (e *envoy) backoff(o object, r *policy.Retry) {
	limits := policy.CallLimits()
	r.InitialBackoff = 25 * time.Millisecond // Envoy's default
	given := false
	if b, ok := o.object("retry_back_off"); ok {
		r.InitialBackoff, given = b.duration("base_interval")
		if !given || r.InitialBackoff == 0 {
			e.fault(b.at("base_interval"), "is required, above 0")
		}
		r.MaxBackoff, given = b.duration("max_interval")
		if given && r.MaxBackoff < r.InitialBackoff {
			e.fault(b.at("max_interval"), "is below base_interval")
		}
		b.rest()
	}
	fit(e.reader, o.at("retry_back_off.base_interval"), &r.InitialBackoff, limits.Backoff) // Envoy raises it to 1ms too
	if !given {
		r.MaxBackoff = 10 * r.InitialBackoff
	}
	fit(e.reader, o.at("retry_back_off.max_interval"), &r.MaxBackoff, limits.Cap)
}

// rateLimited converts the waits that servers ask for. Envoy reads only the headers that are configured; Tenet always reads
// Retry-After.
func (e *envoy) rateLimited(o object, r *policy.Retry) {
	r.MaxPushback = 300 * time.Second // Envoy's default
	if longest, ok := o.duration("max_interval"); ok {
		r.MaxPushback = longest
		if longest == 0 {
			e.fault(o.at("max_interval"), "must be above 0")
		}
	}
	for _, header := range o.objects("reset_headers") {
		name := header.text("name")
		format := header.enum("format", "SECONDS", "UNIX_TIMESTAMP")
		if !strings.EqualFold(name, "Retry-After") || format == "UNIX_TIMESTAMP" {
			e.lost(header.path, "has no equivalent: only Retry-After is read, as seconds or a date")
		}
		header.rest()
	}
	e.approximate(o.path, "is approximated: a server that asks for more than max_interval ends the call, where Envoy falls back to retry_back_off")
	o.rest()
}

// hedgePolicy converts config.route.v3.HedgePolicy.
func (e *envoy) hedgePolicy(o object, p *policy.Policy) {
	if o.flag("hedge_on_per_try_timeout") {
		path, r := o.at("hedge_on_per_try_timeout"), &p.Retry
		if r.TimeoutPerAttempt == 0 {
			e.lost(path, "has no effect without per_try_timeout")
		} else {
			e.approximate(path, "is approximated: an attempt that times out is cancelled and repeated, where Envoy lets it go on beside its repetition")
			timeout := policy.ClassTimeout
			if r.ClassifierName == "grpc" {
				timeout = "grpc_deadline_exceeded"
			}
			if r.MaxAttempts > 1 && !slices.Contains(r.RetryOn, timeout) {
				r.RetryOn = append(r.RetryOn, timeout) // Envoy repeats such an attempt whatever retry_on says
			}
		}
	}
	o.rest("initial_requests", "additional_request_chance")
}
