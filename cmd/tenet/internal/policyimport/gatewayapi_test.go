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
