package policyimport

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// GatewayAPI converts Kubernetes manifests of the Gateway API: the timeouts and retries of HTTPRoutes (gateway.networking.k8s.io/v1),
// and the retry budgets of BackendTrafficPolicies (XBackendTrafficPolicy, gateway.networking.x-k8s.io/v1alpha1). The key of a rule is
// its name, or else that of its first backend. Manifests of other kinds are left out.
func GatewayAPI(manifests []byte) (Converted, error) {
	const what = "gateway API manifests"
	r := newReader()
	list := r.manifests(manifests)
	g := gateway{reader: r, result: newConverted(), backends: map[string][]string{}}
	var traffic []manifest // read once all routes are known
	for _, m := range list {
		version, _ := m.fields["apiVersion"].(string)
		foreign := strings.HasPrefix(version, "gateway.envoyproxy.io/") // Envoy Gateway has another kind of this name
		switch {
		case m.kind == "HTTPRoute":
			for _, rule := range m.spec.objects("rules") {
				g.rule(rule)
			}
			m.spec.rest("parentRefs", "hostnames", "useDefaultGateways")
		case m.kind == "XBackendTrafficPolicy" || m.kind == "BackendTrafficPolicy" && !foreign:
			traffic = append(traffic, m)
		default:
			m.leaveOut()
		}
	}
	for _, m := range traffic {
		g.traffic(m)
	}
	return g.result.finish(r, what, "no HTTPRoute or BackendTrafficPolicy was found")
}

type gateway struct {
	*reader
	result   Converted
	backends map[string][]string // keys of policies by the backends of their rules
}

func (g *gateway) rule(o object) {
	filters, _ := o.fields["filters"].([]any)
	redirects := slices.ContainsFunc(filters, func(v any) bool {
		filter, _ := v.(map[string]any)
		return filter["type"] == "RequestRedirect"
	})
	if redirects && o.fields["backendRefs"] == nil {
		g.lost(o.path, "is left out: it only redirects and calls nothing")
		return
	}
	name, backends := o.text("name"), []string(nil)
	for _, b := range o.objects("backendRefs") {
		backends = append(backends, b.text("name"))
		b.rest("group", "kind", "namespace", "port", "weight", "filters")
	}
	if name == "" && len(backends) > 0 {
		name = backends[0]
	}
	if name == "" {
		name = "gateway"
		g.remark(o.path, "has neither a name nor a backend; its key is %s", name)
	}
	p := policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}
	if timeouts, ok := o.object("timeouts"); ok {
		p.Retry.OverallTimeout, _ = timeouts.span("request")
		p.Retry.TimeoutPerAttempt, _ = timeouts.span("backendRequest")
		fit(g.reader, timeouts.at("request"), &p.Retry.OverallTimeout, positive)
		fit(g.reader, timeouts.at("backendRequest"), &p.Retry.TimeoutPerAttempt, positive)
		timeouts.rest()
	}
	if retry, ok := o.object("retry"); ok {
		g.retry(retry, &p.Retry)
	}
	o.rest("matches", "filters", "sessionPersistence")
	key := g.result.add(g.reader, name, o.path, p)
	for _, b := range backends {
		g.backends[b] = append(g.backends[b], key)
	}
}

func (g *gateway) retry(o object, r *policy.Retry) {
	limits := policy.CallLimits()
	retries, path, given := o.count("attempts")
	if !given {
		retries = 1
		g.remark(path, "is not given, and every implementation has its own default; one retry is written out")
	}
	r.MaxAttempts = g.attempts(retries, path)
	r.InitialBackoff = 25 * time.Millisecond
	if backoff, ok := o.span("backoff"); ok {
		r.InitialBackoff = max(backoff, limits.Backoff.Min)
		g.approximate(o.at("backoff"), "is the shortest wait; decorrelated jitter spreads waits up to ten times as long, where implementations differ")
	}
	r.MaxBackoff, r.Jitter = 10*r.InitialBackoff, policy.JitterDecorrelated
	fit(g.reader, o.at("backoff"), &r.InitialBackoff, limits.Backoff)
	fit(g.reader, o.at("backoff"), &r.MaxBackoff, limits.Cap)
	r.RetryOn = append(g.statuses(o, "codes"), policy.ClassNetwork, policy.ClassTimeout)
	slices.Sort(r.RetryOn)
	r.RetryOn, r.ClassifierName = slices.Compact(r.RetryOn), "http"
	g.remark(o.path, "failed connections and timeouts are retried too, as the Gateway API recommends")
	g.remark(o.path, suppliedBy, "http", "tenethttp")
	g.approximate(o.at("codes"), idempotentOnly)
	o.rest()
}

// traffic reads a retry budget, and gives it to the policies of its backends.
func (g *gateway) traffic(m manifest) {
	var keys []string
	targets := m.spec.objects("targetRefs")
	for _, target := range targets {
		backend := target.text("name")
		if backend == "" {
			g.fault(target.at("name"), "is required: the name of a backend")
			continue
		}
		target.rest("group", "kind", "sectionName")
		if len(g.backends[backend]) == 0 {
			g.remark(target.path, "no rule of these manifests leads to %q; a policy with one attempt is written for it", backend)
			g.backends[backend] = []string{g.result.add(g.reader, backend, target.path, policy.Policy{Retry: policy.Retry{MaxAttempts: 1}})}
		}
		keys = append(keys, g.backends[backend]...)
	}
	if len(targets) == 0 {
		g.fault(m.spec.at("targetRefs"), "is required: a policy without a target applies to nothing")
	}
	if constraint, ok := m.spec.object("retryConstraint"); ok {
		b := g.constraint(constraint)
		name := g.free(cmp.Or(m.name, "gateway")+"-retries", func(name string) bool { return g.result.Budgets[name].Kind != "" })
		g.checkName(name, constraint.path)
		g.result.Budgets[name] = b
		for _, key := range keys {
			p := g.result.Policies[key]
			if other := p.Retry.Budget.Name; other != "" && other != name {
				g.lost(constraint.path, "is left out for %s: a policy has one budget, and %s is that of another manifest", key, other)
				continue
			}
			p.Retry.Budget.Name = name
			g.result.Policies[key] = p
		}
	}
	m.spec.rest("sessionPersistence")
}

func (g *gateway) constraint(o object) policy.Budget {
	b := policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10} // the defaults of the Gateway API
	if budget, ok := o.object("budget"); ok {
		if percent, path, given := budget.count("percent"); given {
			b.Ratio = retryRatio(g.reader, path, float64(percent))
		}
		if _, ok := budget.span("interval"); ok {
			g.lost(budget.at("interval"), "has no equivalent: calls earn tokens whenever they are made")
		}
		budget.rest()
	}
	if rate, ok := o.object("minRetryRate"); ok {
		if count, path, given := rate.count("count"); given {
			b.Burst = float64(max(count, 1))
			fit(g.reader, path, &b.Burst, policy.Range[float64]{Min: 1, Max: 1000})
		}
		if _, ok := rate.span("interval"); ok {
			g.lost(rate.at("interval"), "has no equivalent: the burst is not refilled with time")
		}
		rate.rest()
	}
	g.approximate(o.path, "is approximated: retries are bounded to a share of calls and a burst, in each process, where a gateway counts for all of its clients")
	o.rest()
	return b
}
