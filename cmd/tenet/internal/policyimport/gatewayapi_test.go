package policyimport_test

import (
	"slices"
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
