package policyimport_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

const exact, approximate, lost = policyimport.Exact, policyimport.Approximate, policyimport.Lost

// field is a field of a source format, in an input that has no more than it needs.
type field struct {
	system, path, input string
	want                policyimport.Fidelity
	doc                 string // the field's row in the table of docs; "" if the table has none
}

// grpcEntry is a service config with one entry of methodConfig.
func grpcEntry(rest string) string {
	return `{"methodConfig": [{"name": [{"service": "s", "method": "m"}], ` + rest + `}]}`
}

// grpcConfig is a service config with one entry of methodConfig and a field beside it.
func grpcConfig(field string) string {
	return `{"methodConfig": [{"name": [{"service": "s", "method": "m"}]}], ` + field + `}`
}

func grpcHedging(rest string) string {
	return grpcEntry(`"hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.1s"` + rest + `}`)
}

// envoyRoute is a route with a retry policy for gRPC conditions, which are converted exactly.
func envoyRoute(rest string) string {
	return `{"routes": [{"name": "a", "route": {"timeout": "1s", "retry_policy": {"retry_on": "unavailable"` + rest + `}}}]}`
}

func envoyThreshold(rest string) string {
	return `{"clusters": [{"name": "c", "circuit_breakers": {"thresholds": [{"retry_budget": {}, ` + rest + `}]}}]}`
}

func envoyBudget(rest string) string {
	return `{"clusters": [{"name": "c", "circuit_breakers": {"thresholds": [{"retry_budget": {` + rest + `}}]}}]}`
}

func envoyOutliers(rest string) string {
	return `{"clusters": [{"name": "c", "outlier_detection": {` + rest + `}}]}`
}

// fields has a row for each field that the importers of gRPC and Envoy read or leave out by name.
func fields() []field {
	const (
		entry, retry, hedging = "methodConfig[0]", "methodConfig[0].retryPolicy.", "methodConfig[0].hedgingPolicy."
		route, policy         = "routes[0].route", "routes[0].route.retry_policy."
		throttling            = `"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}`
		threshold             = "clusters[0].circuit_breakers.thresholds[0]"
		outlier               = "clusters[0].outlier_detection"
	)
	list := []field{
		{"grpc", entry + ".name[0].service", grpcEntry(`"timeout": "1s"`), exact, "a name with service and method"},
		{"grpc", entry + ".name[0].method", grpcEntry(`"timeout": "1s"`), exact, "a name with service and method"},
		{"grpc", entry + ".name[0]", `{"methodConfig": [{"name": [{"service": "s"}]}]}`, approximate, "a name with a service only"},
		{"grpc", entry + ".name[0]", `{"methodConfig": [{"name": [{}], "timeout": "1s"}]}`, approximate, "an empty name"},
		{"grpc", entry + ".timeout", grpcEntry(`"timeout": "1s"`), exact, "`timeout`"},
		{"grpc", entry + ".waitForReady", grpcEntry(`"waitForReady": true`), lost, ""},
		{"grpc", entry + ".maxRequestMessageBytes", grpcEntry(`"maxRequestMessageBytes": 1`), lost, ""},
		{"grpc", entry + ".maxResponseMessageBytes", grpcEntry(`"maxResponseMessageBytes": 1`), lost, ""},
		{"grpc", entry + ".other", grpcEntry(`"other": 1`), lost, ""},
		{"grpc", retry + "maxAttempts", retryPolicy("maxAttempts", `5`), exact, "`retryPolicy`"},
		{"grpc", retry + "maxAttempts", retryPolicy("maxAttempts", `6`), approximate, ""},
		{"grpc", retry + "initialBackoff", retryPolicy("initialBackoff", `"0.1s"`), exact, "`retryPolicy`"},
		{"grpc", retry + "maxBackoff", retryPolicy("maxBackoff", `"10s"`), exact, "`retryPolicy`"},
		{"grpc", retry + "maxBackoff", retryPolicy("maxBackoff", `"1s"`), approximate, "`retryPolicy`"},
		{"grpc", retry + "backoffMultiplier", retryPolicy("backoffMultiplier", `2`), exact, "`retryPolicy`"},
		{"grpc", retry + "retryableStatusCodes", retryPolicy("retryableStatusCodes", `["UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"]`), exact, "`retryPolicy`"},
		{"grpc", retry + "retryableStatusCodes[0]", retryPolicy("retryableStatusCodes", `["INTERNAL"]`), approximate, ""},
		{"grpc", retry + "retryableStatusCodes[0]", retryPolicy("retryableStatusCodes", `["DEADLINE_EXCEEDED"]`), approximate, ""},
		{"grpc", retry + "perAttemptRecvTimeout", retryPolicy("perAttemptRecvTimeout", `"1s"`), exact, "`retryPolicy`"},
		{"grpc", hedging + "maxAttempts", grpcHedging(""), exact, "`hedgingPolicy`"},
		{"grpc", hedging + "hedgingDelay", grpcHedging(""), exact, "`hedgingPolicy`"},
		{"grpc", hedging + "nonFatalStatusCodes", grpcHedging(`, "nonFatalStatusCodes": [14]`), approximate, "`hedgingPolicy`"},
		{"grpc", "retryThrottling", grpcConfig(throttling), approximate, "`retryThrottling`"},
		{"grpc", "loadBalancingConfig", grpcConfig(`"loadBalancingConfig": []`), lost, ""},
		{"grpc", "loadBalancingPolicy", grpcConfig(`"loadBalancingPolicy": "round_robin"`), lost, ""},
		{"grpc", "healthCheckConfig", grpcConfig(`"healthCheckConfig": {}`), lost, ""},

		{"envoy", route + ".timeout", envoyRoute(""), exact, "`timeout` of a route"},
		{"envoy", "virtual_hosts[0].retry_policy_typed_config", `{"virtual_hosts": [{"retry_policy_typed_config": {}, "routes": [{"name": "a", "route": {"timeout": "1s", "retry_policy": {"retry_on": "unavailable"}}}]}]}`, lost, ""},
		{"envoy", policy + "num_retries", envoyRoute(`, "num_retries": 3`), exact, "`num_retries`"},
		{"envoy", policy + "num_retries", envoyRoute(`, "num_retries": 30`), approximate, "`num_retries`"},
		{"envoy", policy + "per_try_timeout", envoyRoute(`, "per_try_timeout": "1s"`), exact, "`per_try_timeout`"},
		{"envoy", policy + "retry_back_off.base_interval", envoyRoute(`, "retry_back_off": {"base_interval": "1s", "max_interval": "2s"}`), exact, "`retry_back_off`"},
		{"envoy", policy + "retry_back_off.max_interval", envoyRoute(`, "retry_back_off": {"base_interval": "1s", "max_interval": "2s"}`), exact, "`retry_back_off`"},
		{"envoy", policy + "rate_limited_retry_back_off", envoyRoute(`, "rate_limited_retry_back_off": {"max_interval": "9s"}`), approximate, "`rate_limited_retry_back_off`"},
		{"envoy", policy + "rate_limited_retry_back_off.reset_headers[0]", envoyRoute(`, "rate_limited_retry_back_off": {"reset_headers": [{"name": "X"}]}`), lost, ""},
		{"envoy", policy + "retry_on", envoyRoute(""), exact, "`retry_on`"},
		{"envoy", "retry_on", `{"retry_on": "5xx"}`, approximate, "`retry_on`"},
		{"envoy", "retry_on", `{"retry_on": "5xx,sometimes"}`, lost, ""},
		{"envoy", "retriable_status_codes", `{"retry_on": "retriable-status-codes", "retriable_status_codes": [503]}`, exact, "`retriable_status_codes`"},
		{"envoy", "retriable_status_codes[0]", `{"retry_on": "5xx,retriable-status-codes", "retriable_status_codes": [409]}`, approximate, "`retriable_status_codes`"},
		{"envoy", "retriable_status_codes[0]", `{"retry_on": "5xx", "retriable_status_codes": [200]}`, lost, ""},
		{"envoy", route + ".hedge_policy.hedge_on_per_try_timeout", strings.Replace(envoyRoute(`, "per_try_timeout": "1s"`), `"timeout"`, `"hedge_policy": {"hedge_on_per_try_timeout": true}, "timeout"`, 1), approximate, "`hedge_on_per_try_timeout`"},
		{"envoy", route + ".hedge_policy.hedge_on_per_try_timeout", strings.Replace(envoyRoute(""), `"timeout"`, `"hedge_policy": {"hedge_on_per_try_timeout": true}, "timeout"`, 1), lost, ""},
		{"envoy", threshold + ".retry_budget", envoyBudget(`"budget_percent": {"value": 25}, "min_retry_concurrency": 5`), approximate, "`retry_budget` of a cluster"},
		{"envoy", threshold, `{"clusters": [{"circuit_breakers": {"thresholds": [{"priority": "HIGH", "retry_budget": {}}, {"retry_budget": {}}]}}]}`, lost, ""},
		{"envoy", "clusters[0].circuit_breakers.per_host_thresholds", `{"clusters": [{"circuit_breakers": {"per_host_thresholds": [], "thresholds": [{"retry_budget": {}}]}}]}`, lost, ""},
		{"envoy", outlier, envoyOutliers(`"consecutive_5xx": 7`), approximate, "`consecutive_5xx` of `outlier_detection`"},
		{"envoy", outlier, envoyOutliers(`"base_ejection_time": "30s"`), approximate, "`base_ejection_time`"},
	}
	for _, name := range []string{
		"per_try_idle_timeout", "retry_priority", "retry_host_predicate", "retry_options_predicates", "host_selection_retry_max_attempts",
		"retriable_headers", "retriable_request_headers", "other",
	} {
		row := ""
		if name == "retry_priority" || name == "retry_host_predicate" {
			row = "`retry_host_predicate`, `retry_priority`"
		}
		list = append(list, field{"envoy", policy + name, envoyRoute(fmt.Sprintf(`, %q: 1`, name)), lost, row})
	}
	for _, name := range []string{"max_connections", "max_pending_requests", "max_requests", "max_retries", "track_remaining", "max_connection_pools", "other"} {
		row := ""
		if name == "max_requests" || name == "max_retries" {
			row = "`max_requests`, `max_retries`"
		}
		list = append(list, field{"envoy", threshold + "." + name, envoyThreshold(fmt.Sprintf(`%q: 1`, name)), lost, row})
	}
	for _, name := range []string{"initial_requests", "additional_request_chance", "other"} {
		list = append(list, field{"envoy", route + ".hedge_policy." + name, fmt.Sprintf(`{"routes": [{"name": "a", "route": {"hedge_policy": {%q: 1}}}]}`, name), lost, ""})
	}
	for _, name := range []string{
		"interval", "max_ejection_percent", "enforcing_consecutive_5xx", "enforcing_success_rate", "success_rate_minimum_hosts",
		"success_rate_request_volume", "success_rate_stdev_factor", "consecutive_gateway_failure", "enforcing_consecutive_gateway_failure",
		"split_external_local_origin_errors", "consecutive_local_origin_failure", "enforcing_consecutive_local_origin_failure",
		"enforcing_local_origin_success_rate", "failure_percentage_threshold", "enforcing_failure_percentage",
		"enforcing_failure_percentage_local_origin", "failure_percentage_minimum_hosts", "failure_percentage_request_volume",
		"max_ejection_time", "max_ejection_time_jitter", "successful_active_health_check_uneject_host", "always_eject_one_host",
		"monitors", "detect_degraded_hosts", "other",
	} {
		row := ""
		if strings.HasPrefix(name, "success_rate") || strings.HasPrefix(name, "failure_percentage") {
			row = "success-rate and failure-percentage outliers"
		}
		list = append(list, field{"envoy", outlier + "." + name, envoyOutliers(fmt.Sprintf(`%q: 1`, name)), lost, row})
	}
	return list
}

func TestT7EachFieldOfGRPCAndEnvoyIsExactApproximateOrLost(t *testing.T) {
	for i, f := range fields() {
		t.Run(fmt.Sprintf("%d %s %s", i, f.system, f.path), func(t *testing.T) {
			got, err := importers[f.system]([]byte(f.input))
			if err != nil {
				t.Fatal(err)
			}
			if list := fidelities(got); !slices.Contains(list, f.path+" "+string(f.want)) {
				t.Errorf("%s is not %s: %q", f.path, f.want, list)
			}
		})
	}
}

// TestT7TheTablesOfGRPCAndEnvoyStateTheFidelityOfEachField compares the last column of docs with the fidelities of the test above.
func TestT7TheTablesOfGRPCAndEnvoyStateTheFidelityOfEachField(t *testing.T) {
	want := map[string]map[string][]string{"grpc": {}, "envoy": {}}
	for _, f := range fields() {
		if f.doc != "" && !slices.Contains(want[f.system][f.doc], string(f.want)) {
			want[f.system][f.doc] = append(want[f.system][f.doc], string(f.want))
		}
	}
	for system, page := range map[string]struct{ file, header string }{
		"grpc":  {"policy-import.md", "| service config | policy | fidelity |"},
		"envoy": {"migrating-from-envoy.md", "| Envoy | Tenet | note | fidelity |"},
	} {
		text, err := os.ReadFile("../../../../docs/" + page.file)
		if err != nil {
			t.Fatal(err)
		}
		_, table, found := strings.Cut(string(text), page.header+"\n")
		if !found {
			t.Fatalf("%s has no table %q", page.file, page.header)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for _, line := range strings.Split(table, "\n")[1:] {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			name, fidelity := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[len(cells)-1])
			name, _, _ = strings.Cut(name, ", 1") // a default value
			name, _, _ = strings.Cut(name, ", 2")
			name, _, _ = strings.Cut(name, ", 3")
			if fidelity == "" { // the key is not a field
				continue
			}
			got := strings.Split(fidelity, ", ")
			slices.Sort(got)
			slices.Sort(want[system][name])
			if !slices.Equal(got, want[system][name]) {
				t.Errorf("%s: %s is %q, want %q", page.file, name, got, want[system][name])
			}
			delete(want[system], name)
		}
		for name := range want[system] {
			t.Errorf("%s has no row for %s", page.file, name)
		}
	}
}
