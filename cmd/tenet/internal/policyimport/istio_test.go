package policyimport_test

import (
	"slices"
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

func TestT7TheBackoffOfIstioIsApproximate(t *testing.T) {
	got, err := policyimport.Istio([]byte(`{kind: VirtualService, spec: {http: [{name: a, retries: {attempts: 2, backoff: 1s}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if list := fidelities(got); !slices.Contains(list, "spec.http[0].retries.backoff approximate") {
		t.Errorf("%q", list)
	}
}
