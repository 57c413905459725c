package policyimport_test

import (
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

// TestT7ANameThatCannotBeAKeyIsRefused: no input leads to an invalid document.
func TestT7ANameThatCannotBeAKeyIsRefused(t *testing.T) {
	for name, problem := range map[string]string{
		`a\u0007b`: "holds control characters", " a": "white space", strings.Repeat("a", 300): "more than 255 characters",
		"job/a.b": `"job/a.b" is a key of jobs or pipeline steps`, "consumer/x.y": "is a key of jobs",
	} {
		for system, input := range map[string]struct{ text, path string }{
			"envoy":        {`{"clusters": [{"name": "NAME", "outlier_detection": {}}]}`, ": clusters[0].outlier_detection: "},
			"grpc":         {`{"methodConfig": [{"name": [{"service": "NAME"}], "timeout": "1s"}]}`, ": methodConfig[0].name[0]: "},
			"dapr":         {`{"kind": "Resiliency", "spec": {"targets": {"apps": {"NAME": {}}}}}`, ": spec.targets.apps."},
			"resilience4j": {`{"resilience4j": {"retry": {"instances": {"NAME": {}}}}}`, ": resilience4j.retry.instances."},
		} {
			_, err := importers[system]([]byte(strings.ReplaceAll(input.text, "NAME", name)))
			if err == nil || !strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), input.path) {
				t.Errorf("%s: %.20q: %v, want %q at %s", system, name, err, problem, input.path)
			}
		}
	}
}

func TestT7TheNameOfABudgetIsRefusedLikeAKey(t *testing.T) {
	_, err := policyimport.Envoy([]byte(strings.ReplaceAll(envoyBudget(""), `"c"`, `"`+strings.Repeat("c", 250)+`"`)))
	if err == nil || !strings.Contains(err.Error(), ": clusters[0].circuit_breakers: a name of more than 255 characters") {
		t.Errorf("%v", err)
	}
}

// TestT7ANumberInAStringIsWrittenAsJSONDoes: protobuf's JSON does not have the other numbers of YAML.
func TestT7ANumberInAStringIsWrittenAsJSONDoes(t *testing.T) {
	for text, valid := range map[string]bool{"3": true, "3.0": true, "null": false, "": false, "~": false, "1 # one": false, "nan": false, "inf": false} {
		got, err := policyimport.Envoy([]byte(`{"retry_on": "5xx", "num_retries": "` + text + `"}`))
		if (err == nil) != valid || valid && got.Policies["envoy"].Retry.MaxAttempts != 4 {
			t.Errorf("%q: %+v, %v", text, got.Policies, err)
		}
	}
}

// TestT7RoutesOfOneNameAreImportedInLinearTime: with a time that grows with the square of the input, this would take minutes.
func TestT7RoutesOfOneNameAreImportedInLinearTime(t *testing.T) {
	const n = 5_000
	got, err := policyimport.Envoy([]byte("routes:\n" + strings.Repeat("- {route: {cluster: c, retry_policy: {retry_on: 5xx, other: 1}}}\n", n)))
	if err != nil || len(got.Policies) != n {
		t.Errorf("%d policies, %v", len(got.Policies), err)
	}
}
