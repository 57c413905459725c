package policyimport_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/policy"
)

const bootstrap = `
static_resources:
  listeners:
  - name: ingress
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          route_config:
            virtual_hosts:
            - name: api
              domains: ["*"]
              retry_policy: {retry_on: connect-failure, num_retries: 3}
              routes:
              - name: users
                match: {prefix: /users}
                route:
                  cluster: users-v1
                  timeout: 3s
                  retry_policy:
                    retry_on: 5xx,envoy-ratelimited,retriable-status-codes
                    num_retries: 2
                    per_try_timeout: 0.5s
                    retriable_status_codes: [409, 503]
                    retry_back_off: {base_interval: 0.05s, max_interval: 1s}
                    rate_limited_retry_back_off:
                      reset_headers: [{name: Retry-After, format: SECONDS}, {name: X-Reset, format: UNIX_TIMESTAMP}]
                      max_interval: 120s
                    retry_host_predicate: [{name: previous_hosts}]
              - match: {prefix: /orders}
                route: {cluster: orders, retry_policy: {retryOn: unavailable}, hedge_policy: {hedge_on_per_try_timeout: true}}
  clusters:
  - name: users-v1
    circuit_breakers:
      thresholds:
      - max_connections: 100
        retry_budget: {budget_percent: {value: 25}, min_retry_concurrency: 5}
      - priority: HIGH
        retry_budget: {}
    outlier_detection: {consecutive_5xx: 7, base_ejection_time: 20s, interval: 5s}
  - name: lonely
    outlierDetection: {}
  - name: silent
    circuit_breakers: {thresholds: [{max_retries: 3}]}
`

func TestEnvoyBootstrap(t *testing.T) {
	got, err := policyimport.Envoy([]byte(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	connect := []policy.Class{"connection_refused", "dns", "tls"}
	want := policyimport.Converted{
		Policies: map[string]policy.Policy{
			"api": {Retry: policy.Retry{
				MaxAttempts: 4, InitialBackoff: 25 * ms, MaxBackoff: 250 * ms, BackoffMultiplier: 2, Jitter: policy.JitterFull,
				ClassifierName: "http", RetryOn: connect,
			}},
			"users": {
				Retry: policy.Retry{
					MaxAttempts: 3, InitialBackoff: 50 * ms, MaxBackoff: time.Second, BackoffMultiplier: 2, Jitter: policy.JitterFull,
					TimeoutPerAttempt: 500 * ms, OverallTimeout: 3 * time.Second, MaxPushback: 2 * time.Minute, ClassifierName: "http",
					RetryOn: []policy.Class{"http_5xx", "network", "timeout", "http_429", "http_409", "http_503"},
					Budget:  policy.BudgetRef{Name: "users-v1-retries"},
				},
				Circuit: policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 7, Cooldown: 20 * time.Second},
			},
			"orders": {Retry: policy.Retry{
				MaxAttempts: 2, InitialBackoff: 25 * ms, MaxBackoff: 250 * ms, BackoffMultiplier: 2, Jitter: policy.JitterFull,
				OverallTimeout: 15 * time.Second, ClassifierName: "grpc", RetryOn: []policy.Class{"grpc_unavailable"},
			}},
			"lonely": {
				Retry:   policy.Retry{MaxAttempts: 1},
				Circuit: policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 5, Cooldown: 30 * time.Second},
			},
		},
		Budgets: map[string]policy.Budget{"users-v1-retries": {Kind: policy.BudgetRetryRatio, Ratio: 0.25, Burst: 5}},
	}
	if diff := cmp.Diff(want, got, ignore, cmpopts.IgnoreFields(policyimport.Converted{}, "Report")); diff != "" {
		t.Error(diff)
	}
	report := ""
	for _, n := range got.Report {
		report += n.String() + "\n"
	}
	for _, path := range []string{
		"retry_policy.retry_host_predicate: has no equivalent", "retry_policy.retriable_status_codes[0]: http_409 has no effect",
		`"envoy-ratelimited" is approximated`, "rate_limited_retry_back_off.reset_headers[1]: has no equivalent",
		"routes[1].route.timeout: is not given", "hedge_on_per_try_timeout: has no effect",
		"virtual_hosts[0]: Envoy applies this policy to routes", "clusters[0].circuit_breakers.thresholds[0].max_connections: has no equivalent",
		"thresholds[0].retry_budget: is approximated", "thresholds[1]: has no equivalent: policies have no priority HIGH",
		"clusters[0].outlier_detection.interval: has no equivalent", "clusters[1].outlierDetection: no route names the cluster lonely",
		"clusters[2].circuit_breakers.thresholds[0].max_retries: has no equivalent",
	} {
		if !strings.Contains(report, path) {
			t.Errorf("%q is missing in the report:\n%s", path, report)
		}
	}
	parses(t, got)
}

func TestEnvoyBareRetryPolicy(t *testing.T) {
	tests := map[string]struct {
		input string
		want  func(policy.Policy) bool
	}{
		"defaults": {`{"retry_on": "reset"}`, func(p policy.Policy) bool {
			return p.Retry.MaxAttempts == 2 && slices.Equal(p.Retry.RetryOn, []policy.Class{"network", "timeout"})
		}},
		"gateway errors":  {`{"retryOn": "gateway-error"}`, func(p policy.Policy) bool { return p.Retry.RetryOn[0] == "http_502" && len(p.Retry.RetryOn) == 5 }},
		"no retries":      {`{"retry_on": "5xx", "num_retries": 0}`, func(p policy.Policy) bool { return p.Retry.MaxAttempts == 1 }},
		"many retries":    {`{"retry_on": "5xx", "num_retries": 50}`, func(p policy.Policy) bool { return p.Retry.MaxAttempts == 10 }},
		"no condition":    {`{"num_retries": 5}`, func(p policy.Policy) bool { return p.Retry.MaxAttempts == 1 }},
		"no equivalent":   {`{"retry_on": "refused-stream, retriable-headers"}`, func(p policy.Policy) bool { return p.Retry.MaxAttempts == 1 }},
		"an unknown word": {`{"retry_on": "sometimes,5xx"}`, func(p policy.Policy) bool { return p.Retry.RetryOn[0] == "http_5xx" && p.Retry.MaxAttempts == 2 }},
		"a mixture": {`{"retry_on": "5xx,internal"}`, func(p policy.Policy) bool {
			return p.Retry.ClassifierName == "http" && !slices.Contains(p.Retry.RetryOn, "grpc_internal")
		}},
		"a success to retry": {`{"retry_on": "retriable-status-codes", "retriable_status_codes": [200, 500]}`, func(p policy.Policy) bool { return len(p.Retry.RetryOn) == 1 && p.Retry.RetryOn[0] == "http_500" }},
		"no timeout":         {`{"retry_on": "5xx", "per_try_timeout": "0s"}`, func(p policy.Policy) bool { return p.Retry.TimeoutPerAttempt == 0 }},
		"delays beyond": {`{"retry_on": "5xx", "retry_back_off": {"base_interval": "90s"}}`, func(p policy.Policy) bool {
			return p.Retry.InitialBackoff == time.Minute && p.Retry.MaxBackoff == time.Minute
		}},
		"a base below 1ms": {`{"retry_on": "5xx", "retry_back_off": {"base_interval": "0.0002s"}}`, func(p policy.Policy) bool {
			return p.Retry.InitialBackoff == time.Millisecond && p.Retry.MaxBackoff == 10*time.Millisecond
		}},
		"a cap by default":   {`{"retry_on": "5xx", "retry_back_off": {"base_interval": "0.2s"}}`, func(p policy.Policy) bool { return p.Retry.MaxBackoff == 2*time.Second }},
		"limited by default": {`{"retry_on": "5xx", "rate_limited_retry_back_off": {}}`, func(p policy.Policy) bool { return p.Retry.MaxPushback == 5*time.Minute }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := policyimport.Envoy([]byte(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			if p := got.Policies["envoy"]; len(got.Policies) != 1 || !tt.want(p) {
				t.Errorf("converted to %+v", got.Policies)
			}
			if len(got.Report) == 0 {
				t.Error("nothing is reported, although no HTTP policy has exactly the same meaning in both")
			}
			parses(t, got)
		})
	}
}

// TestT7EnvoysHedgesAreRetries: in Envoy, a hedge is one of num_retries, so that 2 of them are at most 3 requests.
func TestT7EnvoysHedgesAreRetries(t *testing.T) {
	got, err := policyimport.Envoy([]byte(`{"routes": [
		{"name": "http", "route": {"retry_policy": {"retry_on": "connect-failure", "num_retries": 2, "per_try_timeout": "0.3s"}, "hedge_policy": {"hedge_on_per_try_timeout": true}}},
		{"name": "grpc", "route": {"retry_policy": {"retry_on": "unavailable", "num_retries": 2, "per_try_timeout": "0.3s"}, "hedge_policy": {"hedge_on_per_try_timeout": true}}},
		{"name": "grpc", "route": {"hedge_policy": {"initial_requests": 2, "additional_request_chance": {}}}}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	for key, timeout := range map[string]policy.Class{"http": "timeout", "grpc": "grpc_deadline_exceeded"} {
		p := got.Policies[key]
		if p.Retry.MaxAttempts != 3 || p.Hedge.Enabled || p.Retry.TimeoutPerAttempt != 300*ms || !slices.Contains(p.Retry.RetryOn, timeout) {
			t.Errorf("%s: %+v", key, p)
		}
	}
	if second, ok := got.Policies["grpc-2"]; !ok || second.Hedge.Enabled || second.Retry.MaxAttempts != 1 {
		t.Errorf("policies %+v; want a number for the second policy of a name, without hedges", got.Policies)
	}
	parses(t, got)
}

func TestEnvoySharedByAlias(t *testing.T) {
	got, err := policyimport.Envoy([]byte(`
shared: &retry {retry_on: 5xx, num_retries: 4}
routes:
- {name: a, route: {timeout: 1s, retry_policy: *retry}}
- {name: b, route: {timeout: 1s, retry_policy: *retry}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Policies["a"].Retry.MaxAttempts != 5 || got.Policies["b"].Retry.MaxAttempts != 5 || len(got.Policies) != 2 {
		t.Errorf("converted to %+v", got.Policies)
	}
}

func TestEnvoyRefusals(t *testing.T) {
	tests := map[string]struct{ input, want string }{
		"not YAML":           {"a: [", "neither JSON nor YAML"},
		"no policy":          {"clusters: [{name: a}]", "no retry_policy"},
		"num_retries":        {`{"num_retries": "x", "retry_on": "5xx"}`, `num_retries: "x" is not a number`},
		"retry_on":           {`{"retry_on": 5}`, "retry_on: is a number, not a string"},
		"per_try_timeout":    {`{"retry_on": "5xx", "per_try_timeout": "1m"}`, `per_try_timeout: "1m" is not a duration`},
		"base_interval":      {`{"retry_on": "5xx", "retry_back_off": {}}`, "retry_back_off.base_interval: is required"},
		"max_interval":       {`{"retry_on": "5xx", "retry_back_off": {"base_interval": "2s", "max_interval": "1s"}}`, "retry_back_off.max_interval: is below"},
		"a status":           {`{"retry_on": "5xx", "retriable_status_codes": [503, 999]}`, "retriable_status_codes[1]: 999 is not a status code"},
		"statuses":           {`{"retry_on": "5xx", "retriable_status_codes": 503}`, "retriable_status_codes: is a number, not a list"},
		"a limit of 0":       {`{"retry_on": "5xx", "rate_limited_retry_back_off": {"max_interval": "0s"}}`, "max_interval: must be above 0"},
		"retry_policy":       {`{"route": {"retry_policy": []}}`, "route.retry_policy: is a list, not an object"},
		"hedging":            {`{"route": {"hedge_policy": {"hedge_on_per_try_timeout": 1}}}`, "hedge_on_per_try_timeout: is a number, not true or false"},
		"a percentage":       {`{"circuit_breakers": {"thresholds": [{"retry_budget": {"budget_percent": {"value": 120}}}]}}`, "budget_percent.value: 120 is not a percentage"},
		"ejection by number": {`{"outlier_detection": {"base_ejection_time": 30}}`, "outlier_detection.base_ejection_time: 30 is not a duration"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policyimport.Envoy([]byte(tt.input))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "envoy configuration: ") {
				t.Fatalf("error %v does not contain %q", err, tt.want)
			}
		})
	}
}

func TestEnvoyClusterEdges(t *testing.T) {
	got, err := policyimport.Envoy([]byte(`{"clusters": [
		{"name": "off", "outlier_detection": {"consecutive5xx": 0}},
		{"name": "quick", "outlier_detection": {"base_ejection_time": "0.01s"}, "circuit_breakers": {"thresholds": [{"retry_budget": {}}]}}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	p := got.Policies["quick"]
	if len(got.Policies) != 1 || p.Circuit.Cooldown != 100*time.Millisecond || p.Retry.Budget.Name != "quick-retries" {
		t.Errorf("converted to %+v", got.Policies)
	}
	if diff := cmp.Diff(policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 3}, got.Budgets["quick-retries"]); diff != "" {
		t.Error(diff)
	}
	parses(t, got)
}

func TestT7ARouteToSeveralClustersOfEnvoyIsReportedToLackTheirBudgets(t *testing.T) {
	got, err := policyimport.Envoy([]byte(`{
		"routes": [{"name": "a", "route": {"weighted_clusters": {"clusters": [{"name": "c"}, {"name": "d"}]}, "retry_policy": {"retry_on": "5xx"}}}],
		"clusters": [{"name": "c", "circuit_breakers": {"thresholds": [{"retry_budget": {}}]}}]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if name := got.Policies["a"].Retry.Budget.Name; name != "" || !slices.ContainsFunc(got.Report, func(n policyimport.Note) bool {
		return n.Path == "routes[0].route" && strings.Contains(n.Message, "several clusters")
	}) {
		t.Errorf("budget %q, %v", name, got.Report)
	}
}

// TestT7EnvoysEjectionWithoutAChanceIsNoBreaker: 0 percent is how Envoy's ejection is switched off.
func TestT7EnvoysEjectionWithoutAChanceIsNoBreaker(t *testing.T) {
	for chance, want := range map[string]int{"0": 0, "100": 1, "50": 1} {
		got, err := policyimport.Envoy([]byte(`{"clusters": [
			{"name": "c", "circuit_breakers": {"thresholds": [{"retry_budget": {}}]}, "outlier_detection": {"enforcing_consecutive_5xx": ` + chance + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		c := got.Policies["c"].Circuit
		isLost := slices.Contains(fidelities(got), "clusters[0].outlier_detection.enforcing_consecutive_5xx lost")
		if breaks := c.Kind != ""; breaks != (want > 0) || isLost != (chance == "50") {
			t.Errorf("%s percent: %+v, lost %t", chance, c, isLost)
		}
	}
}

func TestT7EnvoysRetryBudgetsAtTheirBounds(t *testing.T) {
	for budget, want := range map[string]policy.Budget{
		`"budget_percent": {"value": 0}`:      {Kind: policy.BudgetRetryRatio, Ratio: 0.001, Burst: 3},
		`"min_retry_concurrency": 4294967295`: {Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 1_000_000},
	} {
		got, err := policyimport.Envoy([]byte(envoyBudget(budget)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Budgets["c-retries"]); diff != "" {
			t.Errorf("%s: %s", budget, diff)
		}
		parses(t, got)
	}
}

func FuzzImport(f *testing.F) {
	for _, seed := range []string{serviceConfig, bootstrap, `{"retry_on": "5xx"}`, `[]`, `a: &a [*a]`, `{1: 2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte) (policyimport.Converted, error){policyimport.GRPC, policyimport.Envoy} {
			c, err := read(data)
			if err != nil {
				continue
			}
			for key, p := range c.Policies {
				if err := p.Validate(policy.CallLimits()); err != nil {
					t.Errorf("policy %s: %v", key, err)
				}
			}
		}
	})
}

// TestT7NumbersAndEnumerationsOfEnvoyAreThoseOfProtobufsJSON: numbers may be strings, and enumerations numbers.
func TestT7NumbersAndEnumerationsOfEnvoyAreThoseOfProtobufsJSON(t *testing.T) {
	got, err := policyimport.Envoy([]byte(`{"retry_on": "retriable-status-codes", "retriable_status_codes": ["503", 504.0, 502]}`))
	if want := []policy.Class{"http_503", "http_504", "http_502"}; err != nil || !slices.Equal(got.Policies["envoy"].Retry.RetryOn, want) {
		t.Errorf("%v, %v; want %v", got.Policies["envoy"].Retry.RetryOn, err, want)
	}
	for _, status := range []string{`"5xx"`, `""`, `503.5`, `99`, `null`, `[]`, `18446744073709551615`} {
		_, err := policyimport.Envoy([]byte(`{"retry_on": "retriable-status-codes", "retriable_status_codes": [` + status + `]}`))
		if err == nil || !strings.Contains(err.Error(), "retriable_status_codes[0]: ") || !strings.Contains(err.Error(), "is not a status code from 100 to 599") {
			t.Errorf("%s: %v", status, err)
		}
	}
	if _, err := policyimport.Envoy([]byte(`{"retry_on": "5xx", "num_retries": 18446744073709551615}`)); err == nil || !strings.Contains(err.Error(), "is not a whole number") {
		t.Errorf("%v", err)
	}
	for priority, fault := range map[string]string{"0": "", `"DEFAULT"`: "", "2": "priority: is a number", `"LOW"`: `priority: "LOW" is none of DEFAULT, HIGH`} {
		got, err := policyimport.Envoy([]byte(strings.Replace(envoyBudget(""), `"retry_budget"`, `"priority": `+priority+`, "retry_budget"`, 1)))
		if fault == "" && (err != nil || len(got.Budgets) != 1) || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("priority %s: %v, %v", priority, got.Budgets, err)
		}
	}
}

func TestT7ANameOfEnvoyThatIsNotAStringIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{clusters: [{name: 7, outlier_detection: {}}]}`:                                                            "clusters[0].name: is not a string",
		`{clusters: [{name: {a: b}, circuit_breakers: {thresholds: [{retry_budget: {}}]}}]}`:                        "clusters[0].name: is not a string",
		`{routes: [{name: [x], route: {cluster: c, retry_policy: {retry_on: 5xx}}}]}`:                               "routes[0].name: is not a string",
		`{routes: [{route: {cluster: 7, retry_policy: {retry_on: 5xx}}}]}`:                                          "routes[0].route.cluster: is not a string",
		`{virtual_hosts: [{name: true, routes: [{route: {retry_policy: {retry_on: 5xx}}}]}]}`:                       "virtual_hosts[0].name: is not a string",
		`{routes: [{name: a, metadata: {filter_metadata: {x: {name: 7, cluster: 8}}}, route: {retry_policy: {}}}]}`: "",
	} {
		_, err := policyimport.Envoy([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
