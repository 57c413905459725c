package policyimport_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

// TestT7ABackendTrafficPolicyOfEnvoyGatewayIsLeftOut: it has the name of a kind of the Gateway API, and other fields.
func TestT7ABackendTrafficPolicyOfEnvoyGatewayIsLeftOut(t *testing.T) {
	got, err := policyimport.GatewayAPI([]byte(`
kind: HTTPRoute
spec: {rules: [{backendRefs: [{name: orders}], retry: {attempts: 1}}]}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
spec: {targetRef: {kind: HTTPRoute, name: shop}, retry: {numRetries: 5}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
spec: {targetRefs: [{kind: HTTPRoute, name: shop}], retry: {numRetries: 5}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if list := fidelities(got); len(got.Policies) != 1 || !slices.Contains(list, "[1] lost") || !slices.Contains(list, "[2] lost") {
		t.Errorf("%+v, %q", got.Policies, list)
	}
}

func TestT7ABudgetOfTheGatewayAPIReplacesNoOther(t *testing.T) {
	got, err := policyimport.GatewayAPI([]byte(`
kind: HTTPRoute
spec: {rules: [{name: a, backendRefs: [{name: one}]}, {name: b, backendRefs: [{name: two}]}, {name: both, backendRefs: [{name: one}, {name: two}]}]}
---
kind: XBackendTrafficPolicy
metadata: {name: calm, namespace: x}
spec: {targetRefs: [{name: one}], retryConstraint: {budget: {percent: 10}}}
---
kind: XBackendTrafficPolicy
metadata: {name: calm, namespace: y}
spec: {targetRefs: [{name: two}], retryConstraint: {budget: {percent: 50}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"a": 0.1, "b": 0.5, "both": 0.1} {
		if ratio := got.Budgets[got.Policies[key].Retry.Budget.Name].Ratio; ratio != want {
			t.Errorf("%s: ratio %v, want %v", key, ratio, want)
		}
	}
	if list := fidelities(got); !slices.Contains(list, "[2].spec.retryConstraint lost") {
		t.Errorf("the budget that %q has not is not reported: %q", "both", list)
	}
	parses(t, got)
}

func TestT7ABudgetOf0PercentSaysWhatItBecomes(t *testing.T) {
	for system, input := range map[string]string{
		"gateway-api": `{kind: XBackendTrafficPolicy, spec: {targetRefs: [{name: a}], retryConstraint: {budget: {percent: 0}}}}`,
		"envoy":       envoyBudget(`"budget_percent": {"value": 0}`),
	} {
		got, err := importers[system]([]byte(input))
		if err != nil {
			t.Fatal(err)
		}
		const want = "0 allows no retries beyond the minimum; here a thousand calls earn one, as a ratio must be above 0"
		if !slices.ContainsFunc(got.Report, func(n policyimport.Note) bool { return n.Fidelity == approximate && strings.Contains(n.Message, want) }) {
			t.Errorf("%s: %v", system, got.Report)
		}
		for _, b := range got.Budgets {
			if b.Ratio != 0.001 {
				t.Errorf("%s: ratio %v", system, b.Ratio)
			}
		}
	}
}

func TestT7ARuleOfTheGatewayAPIThatOnlyRedirectsHasNoPolicy(t *testing.T) {
	got, err := policyimport.GatewayAPI([]byte(`{kind: HTTPRoute, spec: {rules: [
		{name: https, filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]},
		{name: a, filters: [{type: RequestHeaderModifier}], backendRefs: [{name: one}]}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if list := fidelities(got); len(got.Policies) != 1 || !slices.Contains(list, "spec.rules[0] lost") {
		t.Errorf("%v, %q", got.Policies, list)
	}
}
