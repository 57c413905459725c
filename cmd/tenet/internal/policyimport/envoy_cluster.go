package policyimport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// envoyCluster holds what a cluster adds to the policies of its routes.
type envoyCluster struct {
	path    string
	budget  policy.Budget
	circuit policy.Circuit
}

// cluster returns the cluster that the object at path belongs to.
func (e *envoy) cluster(n names, path string) *envoyCluster {
	e.checkLabels(n.faulty)
	name := cmp.Or(n.around, "envoy")
	c := e.clusters[name]
	if c == nil {
		c = &envoyCluster{}
		e.clusters[name] = c
	}
	c.path = path
	return c
}

// breakers converts the retry budget of config.cluster.v3.CircuitBreakers. Its other thresholds bound concurrency.
func (e *envoy) breakers(o object, c *envoyCluster) {
	for _, threshold := range o.objects("thresholds") {
		priority := threshold.enum("priority", "DEFAULT", "HIGH")
		threshold.skip("max_connections", "max_pending_requests", "max_requests", "max_retries", "track_remaining", "max_connection_pools")
		budget, ok := threshold.object("retry_budget")
		threshold.rest()
		switch {
		case !ok:
			continue
		case priority != "DEFAULT":
			e.lost(threshold.path, "has no equivalent: policies have no priority %s", priority)
			continue
		}
		percent, path := 20.0, budget.at("budget_percent.value") // Envoy's defaults
		burst := 3
		if p, ok := budget.object("budget_percent"); ok {
			if value, at, given := p.number("value"); given {
				percent, path = value, at
			}
			p.rest()
		}
		ratio := retryRatio(e.reader, path, percent)
		if n, path, given := budget.count("min_retry_concurrency"); given {
			burst = max(n, 1)
			fit(e.reader, path, &burst, counts)
		}
		e.approximate(budget.path, "is approximated: retries are bounded to a share of calls and a burst, where Envoy bounds those in flight")
		budget.rest()
		c.budget = policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: ratio, Burst: float64(burst)}
	}
	o.rest("per_host_thresholds")
}

// outliers converts config.cluster.v3.OutlierDetection.
func (e *envoy) outliers(o object, c *envoyCluster) {
	failures, path, given := o.count("consecutive_5xx")
	if !given {
		failures = 5 // Envoy's default
	}
	chance, chancePath, given := o.count("enforcing_consecutive_5xx")
	if !given {
		chance = 100 // Envoy's default, in percent
	}
	if chance != 0 && chance != 100 {
		e.lost(chancePath, "has no equivalent and is left out")
	}
	cooldown, ok := o.duration("base_ejection_time")
	if !ok {
		cooldown = 30 * time.Second // Envoy's default
	}
	atLeast(e.reader, o.at("base_ejection_time"), &cooldown, policy.CallLimits().MinCooldown)
	o.rest("interval", "max_ejection_percent", "enforcing_success_rate", "success_rate_minimum_hosts",
		"success_rate_request_volume", "success_rate_stdev_factor", "consecutive_gateway_failure", "enforcing_consecutive_gateway_failure",
		"split_external_local_origin_errors", "consecutive_local_origin_failure", "enforcing_consecutive_local_origin_failure",
		"enforcing_local_origin_success_rate", "failure_percentage_threshold", "enforcing_failure_percentage",
		"enforcing_failure_percentage_local_origin", "failure_percentage_minimum_hosts", "failure_percentage_request_volume",
		"max_ejection_time", "max_ejection_time_jitter", "successful_active_health_check_uneject_host", "always_eject_one_host",
		"monitors", "detect_degraded_hosts")
	if chance == 0 {
		path = chancePath
	}
	if failures == 0 || chance == 0 {
		e.remark(path, "is 0, which switches it off; there is no breaker")
		return
	}
	e.approximate(o.path, "is approximated: a breaker refuses all calls of a key, where Envoy ejects single hosts")
	c.circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: failures, Cooldown: cooldown}
}

// join gives the policies of each cluster's routes its budget and breaker. A cluster that no route names gets a policy
// of its own.
func (e *envoy) join() {
	for _, name := range slices.Sorted(maps.Keys(e.clusters)) {
		c := e.clusters[name]
		if c.budget.Kind == "" && c.circuit.Kind == "" {
			continue
		}
		budget := fmt.Sprintf("%s-retries", name)
		found := false
		for key, p := range e.result.Policies {
			if e.targets[key] == name {
				found = true
				e.result.Policies[key] = c.apply(p, budget)
			}
		}
		if !found {
			p := policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}
			e.add(name, "", c.path, c.apply(p, budget))
			e.remark(c.path, "no route names the cluster %s; its policy makes one attempt", name)
		}
		if c.budget.Kind != "" {
			e.checkName(budget, c.path)
			e.result.Budgets[budget] = c.budget
		}
	}
}

func (c *envoyCluster) apply(p policy.Policy, budget string) policy.Policy {
	if c.budget.Kind != "" {
		p.Retry.Budget.Name = budget
	}
	p.Circuit = c.circuit
	return p
}
