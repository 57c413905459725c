package policyimport_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

// TestT7IstioDoesNotRetryWithoutANumberOfAttempts: Istio makes its default retries only where a route has no retries at all.
func TestT7IstioDoesNotRetryWithoutANumberOfAttempts(t *testing.T) {
	for retries, want := range map[string]int{"": 3, "retries: {}": 1, "retries: {perTryTimeout: 2s}": 1, "retries: {attempts: 2}": 3} {
		got, err := policyimport.Istio([]byte(`{kind: VirtualService, spec: {http: [{name: a, ` + retries + `}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if n := got.Policies["a"].Retry.MaxAttempts; n != want {
			t.Errorf("%q: max_attempts %d, want %d", retries, n, want)
		}
	}
}

func TestT7TheBackoffOfIstioIsExact(t *testing.T) {
	got, err := policyimport.Istio([]byte(`{kind: VirtualService, spec: {http: [{name: a, retries: {attempts: 2, backoff: 1s}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if list := fidelities(got); !slices.Contains(list, "spec.http[0].retries.backoff exact") {
		t.Errorf("%q", list)
	}
}

func TestT7AnIstioRouteThatCallsNothingHasNoPolicy(t *testing.T) {
	for _, action := range []string{"redirect: {uri: /new}", "directResponse: {status: 503}", "direct_response: {status: 503}", "delegate: {name: reviews}"} {
		got, err := policyimport.Istio([]byte(`{kind: VirtualService, spec: {http: [{name: old, timeout: 2s, ` + action + `}, {route: [{destination: {host: reviews}}], mirror: {host: b}}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if list := fidelities(got); len(got.Policies) != 1 || got.Policies["reviews"].Retry.MaxAttempts != 3 || !slices.Contains(list, "spec.http[0] lost") {
			t.Errorf("%s: %v, %q", action, got.Policies, list)
		}
		_, err = policyimport.Istio([]byte(`{kind: VirtualService, spec: {http: [{` + action + `}]}}`))
		if err == nil || !strings.Contains(err.Error(), "no VirtualService with an HTTP route to a destination was found") {
			t.Errorf("%s: %v", action, err)
		}
	}
}
