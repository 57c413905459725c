package policyimport_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/policy"
)

// TestT7AStatusThatIsNeverRepeatedIsNotExact: the http classifier counts most 4xx as business outcomes.
func TestT7AStatusThatIsNeverRepeatedIsNotExact(t *testing.T) {
	for system, input := range map[string]string{
		"istio": `{kind: VirtualService, spec: {http: [{name: a, retries: {attempts: 2, retryOn: "404,503"}}]}}`,
		"dapr":  `{kind: Resiliency, spec: {policies: {retries: {r: {matching: {httpStatusCodes: "404,503"}}}}, targets: {apps: {a: {retry: r}}}}}`,
	} {
		got, err := importers[system]([]byte(input))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(got.Report, func(n policyimport.Note) bool {
			return n.Fidelity == approximate && strings.Contains(n.Message, "the http classifier counts")
		}) {
			t.Errorf("%s: %v", system, got.Report)
		}
	}
}

func TestT7AWaitOfDaprBelowTheLimitsIsNotExact(t *testing.T) {
	got, err := policyimport.Dapr([]byte(`{kind: Resiliency, spec: {
		policies: {retries: {r: {duration: 100us}, e: {policy: exponential, maxInterval: 200ms}}, circuitBreakers: {c: {timeout: 10ms}}},
		targets: {apps: {a: {retry: r, circuitBreaker: c}, b: {retry: e}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	list := fidelities(got)
	for _, want := range []string{
		"spec.policies.retries.r.duration approximate", "spec.policies.retries.e.maxInterval approximate", "spec.policies.circuitBreakers.c.timeout approximate",
	} {
		if !slices.Contains(list, want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
}

func TestT7APolicyThatDaprAppliesByNameIsReportedAsSuch(t *testing.T) {
	got, err := policyimport.Dapr([]byte(`{kind: Resiliency, spec: {policies: {retries: {DefaultRetryPolicy: {policy: Exponential}, other: {}}}, targets: {apps: {a: {}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"DefaultRetryPolicy": "Dapr applies it by its name", "other": "no target refers to it"} {
		if !slices.ContainsFunc(got.Report, func(n policyimport.Note) bool {
			return n.Path == "spec.policies.retries."+name && n.Fidelity == lost && strings.Contains(n.Message, want)
		}) {
			t.Errorf("%s: no %q in %v", name, want, got.Report)
		}
	}
}

func TestT7ADurationOfDaprWithoutAUnitIsInMilliseconds(t *testing.T) {
	got, err := policyimport.Dapr([]byte(`{kind: Resiliency, spec: {
		policies: {timeouts: {t: "5000"}, retries: {r: {duration: "250"}}}, targets: {apps: {a: {retry: r, timeout: t}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Policies["a"].Retry; r.TimeoutPerAttempt != 5*time.Second || r.InitialBackoff != 250*ms {
		t.Errorf("%+v", r)
	}
}

// TestT7ResourcesOfDaprShareTheirPolicies: Dapr keeps the policies of all resources that it loads in one map.
func TestT7ResourcesOfDaprShareTheirPolicies(t *testing.T) {
	got, err := policyimport.Dapr([]byte(`
kind: Resiliency
spec: {policies: {timeouts: {general: 1s}}, targets: {apps: {a: {timeout: general, retry: often, circuitBreaker: simple}}}}
---
kind: Resiliency
spec: {policies: {timeouts: {general: 2s}, retries: {often: {maxRetries: 4}, other: {}}, circuitBreakers: {simple: {timeout: 7s}}}, targets: {apps: {b: {timeout: general}}}}
---
kind: Resiliency
spec: {targets: {apps: {c: {timeout: general}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if a := got.Policies["a"]; a.Retry.MaxAttempts != 5 || a.Circuit.Cooldown != 7*time.Second {
		t.Errorf("%+v", a)
	}
	for key, want := range map[string]time.Duration{"a": time.Second, "b": 2 * time.Second, "c": 2 * time.Second} {
		if timeout := got.Policies[key].Retry.TimeoutPerAttempt; timeout != want {
			t.Errorf("%s: timeout %v, want %v", key, timeout, want)
		}
	}
	list := fidelities(got)
	for _, want := range []string{
		"[0].spec.targets.apps.a.timeout approximate", "[0].spec.targets.apps.a.retry exact", "[2].spec.targets.apps.c.timeout approximate",
		"[1].spec.policies.retries.other lost",
	} {
		if !slices.Contains(list, want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
	parses(t, got)
}

func TestT7StatusesOfGRPCAreLeftOutBesideThoseOfHTTP(t *testing.T) {
	got, err := policyimport.Dapr([]byte(`{kind: Resiliency, spec: {policies: {retries: {r: {matching: {httpStatusCodes: "503", gRPCStatusCodes: "4,14"}}}}, targets: {apps: {a: {retry: r}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Policies["a"].Retry; r.ClassifierName != "http" || !slices.Equal(r.RetryOn, []policy.Class{"http_503", "network", "timeout"}) {
		t.Errorf("%+v", r)
	}
	if list := fidelities(got); !slices.Contains(list, "spec.policies.retries.r.matching.gRPCStatusCodes lost") {
		t.Errorf("%q", list)
	}
}

// TestT7NotesOnBuiltInPoliciesOfDaprSayWhatDaprDoes: its code makes no retry of a reminder, where its documentation has 15 minutes of them.
func TestT7NotesOnBuiltInPoliciesOfDaprSayWhatDaprDoes(t *testing.T) {
	const jitter = "; jitter never exceeds backoff_cap, where Dapr's may by half"
	for name, want := range map[string]string{
		"DaprBuiltInInitializationRetries": "is approximated: Dapr makes no retry after 10s" + jitter,
		"DaprBuiltInActorReminderRetries":  "is approximated: Dapr documents retries for 15m but makes none, here 10 attempts are made" + jitter,
		"DaprBuiltInActorNotFoundRetries":  "is left out: Dapr lets no resource override it",
	} {
		retries := ""
		if strings.Contains(want, "left out") {
			retries = name + ": {policy: exponential, maxRetries: 1}"
		}
		got, err := policyimport.Dapr([]byte(`{kind: Resiliency, spec: {policies: {retries: {` + retries + `}}, targets: {apps: {a: {retry: ` + name + `}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, n := range got.Report {
			if n.Fidelity != policyimport.Exact {
				notes = append(notes, n.Message)
			}
		}
		if !slices.Equal(notes, []string{want}) {
			t.Errorf("%s: %q, want %q", name, notes, want)
		}
	}
}

// TestT7ATargetMayNameABuiltInPolicyOfDapr: Dapr has them without a resource, and makes at least three retries where one overrides them.
func TestT7ATargetMayNameABuiltInPolicyOfDapr(t *testing.T) {
	for _, test := range []struct {
		name, resource string
		attempts       int
		backoff, limit time.Duration
		fidelity       policyimport.Fidelity
	}{
		{"DaprBuiltInServiceRetries", "", 4, time.Second, time.Second, policyimport.Exact},
		{"DaprBuiltInActorRetries", "", 4, time.Second, time.Second, policyimport.Exact},
		{"DaprBuiltInActorNotFoundRetries", "", 6, time.Second, time.Second, policyimport.Exact},
		{"DaprBuiltInInitializationRetries", "", 4, 500 * ms, time.Second, approximate},
		{"DaprBuiltInActorReminderRetries", "", 10, 500 * ms, time.Minute, approximate},
		{"DaprBuiltInServiceRetries", "{duration: 2s, maxRetries: 1}", 4, 2 * time.Second, 2 * time.Second, policyimport.Exact},
		{"DaprBuiltInServiceRetries", "{duration: 2s}", 4, 2 * time.Second, 2 * time.Second, policyimport.Exact},
		{"DaprBuiltInServiceRetries", "{duration: 2s, maxRetries: 6}", 7, 2 * time.Second, 2 * time.Second, policyimport.Exact},
		{"DaprBuiltInActorNotFoundRetries", "{duration: 2s, maxRetries: 8}", 6, time.Second, time.Second, policyimport.Exact},
	} {
		retries := "{}"
		if test.resource != "" {
			retries = "{" + test.name + ": " + test.resource + "}"
		}
		got, err := policyimport.Dapr([]byte(`{kind: Resiliency, spec: {policies: {retries: ` + retries + `}, targets: {apps: {a: {retry: ` + test.name + `}}}}}`))
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		if r := got.Policies["a"].Retry; r.MaxAttempts != test.attempts || r.InitialBackoff != test.backoff || r.MaxBackoff != test.limit {
			t.Errorf("%+v: %+v", test, r)
		}
		if list := fidelities(got); !slices.Contains(list, "spec.targets.apps.a.retry "+string(test.fidelity)) {
			t.Errorf("%+v: %q", test, list)
		}
		parses(t, got)
	}
}
