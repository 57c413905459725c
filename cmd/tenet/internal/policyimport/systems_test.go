package policyimport_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/policy"
)

// importers are those of all systems.
var importers = map[string]func([]byte) (policyimport.Converted, error){
	"grpc": policyimport.GRPC, "envoy": policyimport.Envoy, "istio": policyimport.Istio, "gateway-api": policyimport.GatewayAPI,
	"resilience4j": policyimport.Resilience4j, "dapr": policyimport.Dapr, "aws": policyimport.AWS,
}

// fidelities are the notes on fields, as "path fidelity", in their order.
func fidelities(c policyimport.Converted) (list []string) {
	for _, n := range c.Report {
		if n.Fidelity != "" {
			list = append(list, n.Path+" "+string(n.Fidelity))
		}
	}
	return list
}

const ms = time.Millisecond

var systems = map[string]struct {
	system, input string
	policies      map[string]policy.Policy
	budgets       map[string]policy.Budget
	fields        []string
}{
	"istio": {
		system: "istio",
		input: `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ratings}
spec:
  hosts: [ratings]
  http:
  - route: [{destination: {host: ratings, subset: v1}}]
    timeout: 10s
    retries: {attempts: 3, perTryTimeout: 2s, retryOn: "503,connect-failure", retryRemoteLocalities: true}
  - name: writes
    retries: {attempts: 0}
    mirror: {host: shadow}
---
apiVersion: v1
kind: Service
metadata: {name: ratings}
`,
		policies: map[string]policy.Policy{
			"ratings": {Retry: policy.Retry{
				MaxAttempts: 4, InitialBackoff: 25 * ms, MaxBackoff: 250 * ms, BackoffMultiplier: 2, Jitter: "full", TimeoutPerAttempt: 2 * time.Second,
				OverallTimeout: 10 * time.Second, ClassifierName: "http", RetryOn: []policy.Class{"connection_refused", "dns", "tls", "http_503"},
			}},
			"writes": {Retry: policy.Retry{MaxAttempts: 1, InitialBackoff: 25 * ms, MaxBackoff: 250 * ms, BackoffMultiplier: 2, Jitter: "full"}},
		},
		fields: []string{
			"[0].spec.http[0].route[0].destination.host exact", "[0].spec.http[0].route[0].destination.subset lost", "[0].spec.http[0].timeout exact",
			"[0].spec.http[0].retries.attempts exact", "[0].spec.http[0].retries.perTryTimeout exact", "[0].spec.http[0].retries.retryOn approximate",
			"[0].spec.http[0].retries.retryRemoteLocalities lost", "[0].spec.http[1].name exact", "[0].spec.http[1].retries.attempts exact",
			"[0].spec.http[1].mirror lost", "[0].spec.hosts lost", "[1] lost",
		},
	},
	"gateway api": {
		system: "gateway-api",
		input: `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: orders}
spec:
  rules:
  - name: read
    backendRefs: [{name: orders, port: 8080}]
    timeouts: {request: 5s, backendRequest: 500ms}
    retry: {codes: [500, 503], attempts: 2, backoff: 100ms}
  - backendRefs: [{name: orders}]
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: orders}
spec:
  targetRefs: [{group: "", kind: Service, name: orders}]
  retryConstraint:
    budget: {percent: 25, interval: 10s}
    minRetryRate: {count: 3, interval: 1s}
`,
		policies: map[string]policy.Policy{
			"read": {Retry: policy.Retry{
				MaxAttempts: 3, InitialBackoff: 100 * ms, MaxBackoff: time.Second, Jitter: "decorrelated", TimeoutPerAttempt: 500 * ms, OverallTimeout: 5 * time.Second,
				ClassifierName: "http", RetryOn: []policy.Class{"http_500", "http_503", "network", "timeout"}, Budget: policy.BudgetRef{Name: "orders-retries"},
			}},
			"orders": {Retry: policy.Retry{MaxAttempts: 1, Budget: policy.BudgetRef{Name: "orders-retries"}}},
		},
		budgets: map[string]policy.Budget{"orders-retries": {Kind: "retry_ratio", Ratio: 0.25, Burst: 3}},
		fields: []string{
			"[0].spec.rules[0].name exact", "[0].spec.rules[0].backendRefs[0].name exact", "[0].spec.rules[0].backendRefs[0].port lost",
			"[0].spec.rules[0].timeouts.request exact", "[0].spec.rules[0].timeouts.backendRequest exact", "[0].spec.rules[0].retry.attempts exact",
			"[0].spec.rules[0].retry.backoff approximate", "[0].spec.rules[0].retry.codes approximate", "[0].spec.rules[1].backendRefs[0].name exact",
			"[1].spec.targetRefs[0].name exact", "[1].spec.targetRefs[0].group lost", "[1].spec.targetRefs[0].kind lost",
			"[1].spec.retryConstraint.budget.interval lost", "[1].spec.retryConstraint.minRetryRate.interval lost", "[1].spec.retryConstraint approximate",
		},
	},
	"resilience4j": {
		system: "resilience4j",
		input: `
spring: {application: {name: shop}}
resilience4j:
  retry:
    configs:
      default: {max-attempts: 4, waitDuration: 200}
      unused: {maxAttempts: 9}
    instances:
      users: {waitDuration: 100ms, enableExponentialBackoff: true, exponentialBackoffMultiplier: 2, enableRandomizedWait: true, randomizedWaitFactor: 0.3}
      orders:
        retryExceptions: [java.io.IOException]
  circuitbreaker:
    instances:
      users: {slidingWindowType: TIME_BASED, slidingWindowSize: 30, failureRateThreshold: 25, waitDurationInOpenState: PT5S, permittedNumberOfCallsInHalfOpenState: 2, minimumNumberOfCalls: 10}
  bulkhead: {instances: {users: {maxConcurrentCalls: 8, maxWaitDuration: 50ms}}}
  ratelimiter: {instances: {search: {limitForPeriod: 10, limitRefreshPeriod: 1s, timeoutDuration: 0}}}
  timelimiter: {instances: {users: {timeoutDuration: 2s}}}
`,
		policies: map[string]policy.Policy{
			"users": {
				Retry: policy.Retry{
					MaxAttempts: 4, InitialBackoff: 100 * ms, MaxBackoff: time.Minute, BackoffMultiplier: 2, Jitter: "proportional", JitterFactor: 0.3,
					TimeoutPerAttempt: 2 * time.Second,
				},
				Circuit: policy.Circuit{Kind: "rate", FailureRate: 0.25, MinimumCalls: 10, Window: 30 * time.Second, Cooldown: 5 * time.Second, Probes: 2},
				Limit:   policy.Limit{Concurrency: 8, MaxWait: 50 * ms},
			},
			"orders": {Retry: policy.Retry{MaxAttempts: 4, InitialBackoff: 200 * ms, MaxBackoff: 200 * ms, BackoffMultiplier: 1, Jitter: "none"}},
			"search": {Retry: policy.Retry{MaxAttempts: 1}, Limit: policy.Limit{Rate: policy.Rate{Count: 10, Per: time.Second, Burst: 10}}},
		},
		fields: []string{
			"resilience4j.retry.configs.default.max-attempts exact", "resilience4j.retry.configs.default.waitDuration exact",
			"resilience4j.retry.instances.orders.retryExceptions lost",
			"resilience4j.retry.instances.users.enableExponentialBackoff exact", "resilience4j.retry.instances.users.enableRandomizedWait exact",
			"resilience4j.retry.instances.users.waitDuration exact", "resilience4j.retry.instances.users.randomizedWaitFactor exact",
			"resilience4j.retry.instances.users.exponentialBackoffMultiplier exact", "resilience4j.retry.configs.unused lost",
			"resilience4j.circuitbreaker.instances.users.failureRateThreshold exact", "resilience4j.circuitbreaker.instances.users.slidingWindowSize exact",
			"resilience4j.circuitbreaker.instances.users.slidingWindowType exact", "resilience4j.circuitbreaker.instances.users.minimumNumberOfCalls exact",
			"resilience4j.circuitbreaker.instances.users.waitDurationInOpenState exact",
			"resilience4j.circuitbreaker.instances.users.permittedNumberOfCallsInHalfOpenState approximate",
			"resilience4j.ratelimiter.instances.search.limitRefreshPeriod exact", "resilience4j.ratelimiter.instances.search.limitForPeriod approximate",
			"resilience4j.ratelimiter.instances.search.timeoutDuration exact", "resilience4j.timelimiter.instances.users.timeoutDuration exact",
			"resilience4j.bulkhead.instances.users.maxConcurrentCalls exact", "resilience4j.bulkhead.instances.users.maxWaitDuration exact",
		},
	},
	"dapr": {
		system: "dapr",
		input: `
apiVersion: dapr.io/v1alpha1
kind: Resiliency
metadata: {name: shop}
scopes: [web]
spec:
  policies:
    timeouts: {general: 5s, unused: 1s}
    retries:
      often: {policy: exponential, maxInterval: 15s, maxRetries: -1}
      few: {policy: constant, duration: 2s, maxRetries: 3, matching: {httpStatusCodes: "429,500-599"}}
    circuitBreakers:
      simple: {maxRequests: 1, timeout: 30s, trip: consecutiveFailures >= 5}
  targets:
    apps: {orders: {timeout: general, retry: few, circuitBreaker: simple}}
    components: {store: {outbound: {retry: often}}}
`,
		policies: map[string]policy.Policy{
			"orders": {
				Retry: policy.Retry{
					MaxAttempts: 4, InitialBackoff: 2 * time.Second, MaxBackoff: 2 * time.Second, BackoffMultiplier: 1, Jitter: "none", TimeoutPerAttempt: 5 * time.Second,
					ClassifierName: "http", RetryOn: []policy.Class{"http_429", "http_5xx", "network", "timeout"},
				},
				Circuit: policy.Circuit{Kind: "consecutive", Failures: 5, Cooldown: 30 * time.Second, Probes: 1},
			},
			"store.outbound": {Retry: policy.Retry{
				MaxAttempts: 10, InitialBackoff: 500 * ms, MaxBackoff: 15 * time.Second, BackoffMultiplier: 1.5, Jitter: "proportional", JitterFactor: 0.5,
			}},
		},
		fields: []string{
			"spec.policies.timeouts.general exact", "spec.policies.retries.few.maxRetries exact", "spec.policies.retries.few.duration exact",
			"spec.policies.retries.few.policy exact", "spec.policies.retries.few.matching.httpStatusCodes approximate",
			"spec.policies.retries.often.maxRetries approximate", "spec.policies.retries.often.maxInterval exact", "spec.policies.retries.often.policy approximate",
			"spec.policies.circuitBreakers.simple.maxRequests exact", "spec.policies.circuitBreakers.simple.timeout exact", "spec.policies.circuitBreakers.simple.trip exact",
			"spec.targets.apps.orders.retry exact", "spec.targets.apps.orders.timeout exact", "spec.targets.apps.orders.circuitBreaker exact",
			"spec.targets.components.store.outbound.retry exact", "scopes lost", "spec.policies.timeouts.unused lost",
		},
	},
	"aws": {
		system: "aws",
		input: `
# shared
[default]
region = eu-central-1
retry_mode = standard
max_attempts = 4
s3 =
  max_concurrent_requests = 20
[profile batch]
retry_mode=legacy
[sso-session corp]
sso_region = x
`,
		policies: map[string]policy.Policy{
			"aws":       {Retry: awsRetry(4)},
			"aws-batch": {Retry: awsRetry(5)},
		},
		budgets: map[string]policy.Budget{"aws-retry-quota": {Kind: "retry_ratio", Ratio: 0.071, Burst: 35}},
		fields: []string{
			"default.retry_mode exact", "default.max_attempts exact", "default.region lost", "default.s3 lost", "profile batch.retry_mode approximate",
			"sso-session corp lost",
		},
	},
}

func awsRetry(attempts int) policy.Retry {
	return policy.Retry{
		MaxAttempts: attempts, InitialBackoff: 50 * ms, MaxBackoff: 20 * time.Second, BackoffMultiplier: 2, Jitter: "full", ClassifierName: "http",
		RetryOn: []policy.Class{"http_429", "http_500", "http_502", "http_503", "http_504", "network", "timeout"}, Budget: policy.BudgetRef{Name: "aws-retry-quota"},
	}
}

func TestT7EachFieldOfASystemIsExactApproximateOrLost(t *testing.T) {
	for name, c := range systems {
		t.Run(name, func(t *testing.T) {
			got, err := importers[c.system]([]byte(c.input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.policies, got.Policies, ignore, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.budgets, got.Budgets, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.fields, fidelities(got)); diff != "" {
				t.Error(diff)
			}
			parses(t, got)
		})
	}
}

// TestT7MinimumCallsAreAtMostTheCountedWindow: resilience4j judges a full window, however few calls it holds.
func TestT7MinimumCallsAreAtMostTheCountedWindow(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte(`
resilience4j.circuitbreaker:
  instances:
    small: {slidingWindowSize: 10}
    given: {slidingWindowSize: 10, minimumNumberOfCalls: 50}
    slow: {slidingWindowSize: 10, slowCallRateThreshold: 50}
    timed: {slidingWindowSize: 10, slidingWindowType: TIME_BASED}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"small": 10, "given": 10, "slow": 10, "timed": 100} {
		if n := got.Policies[name].Circuit.MinimumCalls; n != want {
			t.Errorf("%s: minimum_calls %d, want %d", name, n, want)
		}
	}
}

func TestT7ABulkheadsWaitIsNotExactBesideARateLimiter(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte(`
resilience4j:
  ratelimiter: {instances: {a: {limitForPeriod: 10}, b: {timeoutDuration: 1s}}}
  bulkhead: {instances: {a: {maxWaitDuration: 0}, b: {maxWaitDuration: 1s}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Policies["a"].Limit.MaxWait != 5*time.Second || got.Policies["b"].Limit.MaxWait != time.Second {
		t.Errorf("%+v", got.Policies)
	}
	list := fidelities(got)
	for _, want := range []string{
		"resilience4j.bulkhead.instances.a.maxWaitDuration approximate", "resilience4j.bulkhead.instances.b.maxWaitDuration exact",
	} {
		if !slices.Contains(list, want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
}

func TestT7SeveralProbesAreNotExact(t *testing.T) {
	for probes, want := range map[string]policyimport.Fidelity{"1": exact, "10": approximate} {
		got, err := policyimport.Resilience4j([]byte(`{resilience4j.circuitbreaker: {instances: {a: {permittedNumberOfCallsInHalfOpenState: ` + probes + `}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if list := fidelities(got); !slices.Contains(list, "resilience4j.circuitbreaker.instances.a.permittedNumberOfCallsInHalfOpenState "+string(want)) {
			t.Errorf("%s probes: %q, want %s", probes, list, want)
		}
	}
}

func TestT7AnIstioRouteOfHTTPGetsTheHTTPClassifier(t *testing.T) {
	got, err := policyimport.Istio([]byte(`{kind: VirtualService, spec: {http: [{name: reviews}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Class{"connection_refused", "dns", "tls"}
	if r := got.Policies["reviews"].Retry; r.ClassifierName != "http" || !slices.Equal(r.RetryOn, want) {
		t.Errorf("classifier %s, retry_on %v; want http and %v", r.ClassifierName, r.RetryOn, want)
	}
	parses(t, got)
}

func TestT7WrongInputIsRefusedWithTheFieldAndTheRemedy(t *testing.T) {
	for name, c := range map[string]struct{ system, input, want string }{
		"not YAML":             {"dapr", "a: 1\nb: [", "line 3, column 1: neither JSON nor YAML: while parsing a flow node: did not find"},
		"a name twice":         {"dapr", "a: 1\na: 2", `line 2, column 1: neither JSON nor YAML: mapping key "a" already defined`},
		"lines as a number":    {"dapr", "a: !!int |\n x\n y\n", "neither JSON nor YAML: cannot construct !!str `x y ` as a !!int"},
		"no kind":              {"dapr", `spec: {}`, "kind: is required: a manifest names what it declares"},
		"nothing to convert":   {"istio", "kind: Service", "no VirtualService with an HTTP route to a destination was found"},
		"an Istio timeout":     {"istio", `{kind: VirtualService, spec: {http: [{name: a, timeout: soon}]}}`, `spec.http[0].timeout: "soon" is not a duration such as`},
		"a list of routes":     {"istio", `{kind: List, items: [{kind: VirtualService, spec: {http: 3}}]}`, "items[0].spec.http: is a number, not a list"},
		"no target":            {"gateway-api", `{kind: BackendTrafficPolicy, spec: {}}`, "spec.targetRefs: is required"},
		"no name of a target":  {"gateway-api", `{kind: BackendTrafficPolicy, spec: {targetRefs: [{kind: Service}]}}`, "spec.targetRefs[0].name: is required: the name of a backend"},
		"more than everything": {"gateway-api", `{kind: BackendTrafficPolicy, spec: {targetRefs: [{name: a}], retryConstraint: {budget: {percent: 101}}}}`, "percent: 101 is not a percentage from 0 to 100"},
		"a status":             {"gateway-api", `{kind: HTTPRoute, spec: {rules: [{retry: {codes: [99]}}]}}`, "codes[0]: 99 is not a status code"},
		"an unknown base":      {"resilience4j", `{resilience4j: {retry: {instances: {a: {baseConfig: b}}}}}`, `baseConfig: configs has no "b"`},
		"a Spring duration":    {"resilience4j", `{resilience4j: {retry: {instances: {a: {waitDuration: -1}}}}}`, "waitDuration: -1 is not a duration such as 500ms"},
		"no attempts":          {"resilience4j", `{resilience4j.retry: {instances: {a: {maxAttempts: 0}}}}`, "resilience4j.retry.instances.a.maxAttempts: must be 1 or more"},
		"no instance":          {"resilience4j", `{spring: {}}`, "no instance of retry"},
		"an unknown template":  {"dapr", `{kind: Resiliency, spec: {targets: {apps: {a: {retry: x}}}}}`, `spec.targets.apps.a.retry: policies.retries has no "x"`},
		"a Dapr status":        {"dapr", `{kind: Resiliency, spec: {policies: {retries: {a: {matching: {httpStatusCodes: 503-500}}}}}}`, `"503-500" is not a status from 100 to 599`},
		"a Dapr policy":        {"dapr", `{kind: Resiliency, spec: {policies: {retries: {a: {policy: linear}}}}}`, `"linear" is neither constant nor exponential`},
		"an AWS mode":          {"aws", "[default]\nretry_mode = fast", `default.retry_mode: "fast" is not legacy, standard or adaptive`},
		"an AWS maximum":       {"aws", "[default]\nmax_attempts = many", `default.max_attempts: "many" is not a number`},
		"too high a maximum":   {"aws", "[default]\nmax_attempts = 99999999999", `default.max_attempts: 99999999999 is not a whole number from 0 to 4294967295`},
		"a broken line":        {"aws", "[default]\nretry_mode", "line 2: is not a setting"},
		"no section":           {"aws", "retry_mode = standard", "line 1: a setting stands before the first section"},
		"no retries":           {"aws", "[default]\nregion = x", "no profile has retry_mode or max_attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := importers[c.system]([]byte(c.input))
			if err == nil || !strings.Contains(err.Error(), c.want) || got.Policies != nil {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// FuzzT7Importers: whatever the input, an importer refuses it or returns a valid document.
func FuzzT7Importers(f *testing.F) {
	names := slices.Sorted(maps.Keys(importers))
	for _, c := range systems {
		f.Add(byte(slices.Index(names, c.system)), []byte(c.input))
	}
	f.Add(byte(slices.Index(names, "grpc")), []byte(serviceConfig))
	f.Fuzz(func(t *testing.T, system byte, input []byte) {
		got, err := importers[names[int(system)%len(names)]](input)
		if err != nil {
			return
		}
		for _, n := range got.Report {
			if n.Fidelity != policyimport.Exact && n.Message == "" {
				t.Errorf("a note without a message: %+v", n)
			}
		}
		if err := valid(got); err != nil {
			t.Error(err)
		}
	})
}

// TestT7RetriesBeyondTheLimitsAreReportedAsRetries: the note has the number in the input.
func TestT7RetriesBeyondTheLimitsAreReportedAsRetries(t *testing.T) {
	got, err := policyimport.Envoy([]byte(`{"retry_on": "5xx", "num_retries": 10}`))
	note := policyimport.Note{Path: "num_retries", Fidelity: policyimport.Approximate, Message: "10 retries are outside the limits; 9 are made, after the first attempt"}
	if err != nil || got.Policies["envoy"].Retry.MaxAttempts != 10 || !slices.Contains(got.Report, note) {
		t.Errorf("%+v, %v", got, err)
	}
}
