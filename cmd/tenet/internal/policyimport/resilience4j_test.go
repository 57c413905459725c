package policyimport_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// r4j converts the settings of one instance of a module.
func r4j(t *testing.T, module, settings string) (policy.Policy, []string) {
	t.Helper()
	got, err := policyimport.Resilience4j([]byte(`{resilience4j: {` + module + `: {instances: {a: {` + settings + `}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	parses(t, got)
	return got.Policies["a"], fidelities(got)
}

// TestT7ARandomizedWaitLiesOnBothSidesOfWaitDuration as resilience4j's IntervalFunction.ofRandomized.
func TestT7ARandomizedWaitLiesOnBothSidesOfWaitDuration(t *testing.T) {
	p, _ := r4j(t, "retry", "waitDuration: 1s, enableRandomizedWait: true, randomizedWaitFactor: 0.25")
	for retry := range 3 {
		low, high := decision.Bounds(&p.Retry, retry)
		if low != 750*ms || high != 1250*ms {
			t.Errorf("retry %d waits from %v to %v, want 750ms to 1.25s", retry, low, high)
		}
	}
}

// TestT7ARandomizedWaitOfFactor0IsNotRandomized: a policy's jitter_factor of 0 is its default.
func TestT7ARandomizedWaitOfFactor0IsNotRandomized(t *testing.T) {
	p, list := r4j(t, "retry", "waitDuration: 1s, enableRandomizedWait: true, randomizedWaitFactor: 0")
	if p.Retry.Jitter != policy.JitterNone {
		t.Errorf("jitter %s of %v: %q", p.Retry.Jitter, p.Retry.JitterFactor, list)
	}
	for _, factor := range []string{"-0.1", "1", "1.5"} {
		_, err := policyimport.Resilience4j([]byte(`{resilience4j: {retry: {instances: {a: {enableRandomizedWait: true, randomizedWaitFactor: ` + factor + `}}}}}`))
		if err == nil || !strings.Contains(err.Error(), "instances.a.randomizedWaitFactor: "+factor+" is not 0 or more and below 1") {
			t.Errorf("%s: %v", factor, err)
		}
	}
}

func TestT7DurationsOfResilience4jAreReadAsJavaDoes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT0.5S": 500 * ms, "PT1.001S": 1001 * ms, "P1DT1H1M1S": 25*time.Hour + time.Minute + time.Second, "PT5000000S": 5_000_000 * time.Second, "pt2m": 2 * time.Minute,
		"P": 0, "PT": 0, "P1DT": 0, "P999999D": 0, "PT999999999999999999999S": 0, // refused
	} {
		got, err := policyimport.Resilience4j([]byte(`{resilience4j: {timelimiter: {instances: {a: {timeoutDuration: ` + text + `}}}}}`))
		switch {
		case want == 0 && (err == nil || !strings.Contains(err.Error(), "instances.a.timeoutDuration: ")):
			t.Errorf("%s is not refused: %v, %v", text, got.Policies["a"].Retry.TimeoutPerAttempt, err)
		case want != 0 && (err != nil || got.Policies["a"].Retry.TimeoutPerAttempt != want):
			t.Errorf("%s is %v, %v", text, got.Policies["a"].Retry.TimeoutPerAttempt, err)
		}
	}
}

func TestT7TheTypeOfASlidingWindowIsReadAsSpringDoes(t *testing.T) {
	for _, name := range []string{"TIME_BASED", "time-based", "timeBased", "time_based"} {
		p, _ := r4j(t, "circuitbreaker", "slidingWindowSize: 30, slidingWindowType: "+name)
		if p.Circuit.Window != 30*time.Second {
			t.Errorf("%s: window %v, want 30s", name, p.Circuit.Window)
		}
	}
}

func TestT7ASettingOfResilience4jWithoutEffectIsNotExact(t *testing.T) {
	for field, c := range map[string]struct {
		module, settings string
		want             policyimport.Fidelity
	}{
		"slowCallRateThreshold":      {"circuitbreaker", "slowCallRateThreshold: 100", lost},
		"slowCallDurationThreshold":  {"circuitbreaker", "failureRateThreshold: 50, slowCallDurationThreshold: 2s", lost},
		"waitDurationInOpenState":    {"circuitbreaker", "waitDurationInOpenState: 10ms", approximate},
		"waitDuration":               {"retry", "waitDuration: 0", approximate},
		"exponentialMaxWaitDuration": {"retry", "exponentialMaxWaitDuration: 5s", lost},
		"limitForPeriod":             {"ratelimiter", "limitForPeriod: 2147483647", approximate},
		"maxConcurrentCalls":         {"bulkhead", "maxConcurrentCalls: 2147483647", approximate},
	} {
		_, list := r4j(t, c.module, c.settings)
		if want := "resilience4j." + c.module + ".instances.a." + field + " " + string(c.want); !slices.Contains(list, want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
}

func TestT7AThresholdOfResilience4jThatIsNotAPercentageIsRefused(t *testing.T) {
	for _, settings := range []string{"failureRateThreshold: 0", "failureRateThreshold: -5", "failureRateThreshold: 150", "slowCallRateThreshold: -5", "slidingWindowType: LAST"} {
		field, _, _ := strings.Cut(settings, ":")
		_, err := policyimport.Resilience4j([]byte(`{resilience4j: {circuitbreaker: {instances: {a: {` + settings + `}}}}}`))
		if err == nil || !strings.Contains(err.Error(), "instances.a."+field+": ") {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// TestT7AnInstanceInSeveralDocumentsIsRefused: Spring merges the documents of the active profiles, which the input does not say.
func TestT7AnInstanceInSeveralDocumentsIsRefused(t *testing.T) {
	const first = "resilience4j: {retry: {instances: {a: {waitDuration: 2s}}}}\n---\n"
	_, err := policyimport.Resilience4j([]byte(first + "resilience4j: {retry: {instances: {a: {maxAttempts: 7}}}}"))
	if err == nil || !strings.Contains(err.Error(), "[1].resilience4j.retry.instances.a: is set in an earlier document too") {
		t.Errorf("%v", err)
	}
	got, err := policyimport.Resilience4j([]byte(first + "resilience4j: {retry: {instances: {b: {}}}, timelimiter: {instances: {a: {}}}}"))
	if err != nil || len(got.Policies) != 2 {
		t.Errorf("%v, %v", got.Policies, err)
	}
}

func TestT7ADottedNameOfResilience4jIsReported(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte("resilience4j.retry.instances.a: {maxAttempts: 5}\nresilience4j.retry: {instances: {b: {}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if list := fidelities(got); !slices.Contains(list, "resilience4j.retry.instances.a lost") {
		t.Errorf("%q", list)
	}
}

// TestT7ConfigsOfResilience4jLieOnEachOther as in createRetryConfig and createCircuitBreakerConfig of resilience4j 2.
func TestT7ConfigsOfResilience4jLieOnEachOther(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte(`
resilience4j:
  retry:
    configs: {default: {max-attempts: 5, waitDuration: 100ms}, slow: {waitDuration: 2s}, few: {baseConfig: slow, maxAttempts: 2}}
    instances: {a: {baseConfig: slow}, b: {baseConfig: few}, c: {waitDuration: 3s}}
  circuitbreaker:
    configs: {default: {waitDurationInOpenState: 5s}, half: {failureRateThreshold: 40}}
    instances: {a: {baseConfig: half}, b: {}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]policy.Retry{
		"a": {MaxAttempts: 5, InitialBackoff: 2 * time.Second}, "b": {MaxAttempts: 2, InitialBackoff: 2 * time.Second}, "c": {MaxAttempts: 5, InitialBackoff: 3 * time.Second},
	} {
		if r := got.Policies[key].Retry; r.MaxAttempts != want.MaxAttempts || r.InitialBackoff != want.InitialBackoff {
			t.Errorf("%s: %d attempts, %v apart; want %d, %v", key, r.MaxAttempts, r.InitialBackoff, want.MaxAttempts, want.InitialBackoff)
		}
	}
	if a, b := got.Policies["a"].Circuit, got.Policies["b"].Circuit; a.Cooldown != time.Minute || a.FailureRate != 0.4 || b.Cooldown != 5*time.Second {
		t.Errorf("%+v, %+v", a, b)
	}
	if list := fidelities(got); !slices.Contains(list, "resilience4j.retry.configs.slow.waitDuration exact") || !slices.Contains(list, "resilience4j.retry.configs.few.baseConfig exact") {
		t.Errorf("%q", list)
	}
	_, err = policyimport.Resilience4j([]byte(`{resilience4j: {retry: {configs: {x: {baseConfig: y}, y: {baseConfig: x}}, instances: {a: {baseConfig: x}}}}}`))
	if err == nil || !strings.Contains(err.Error(), `resilience4j.retry.configs.y.baseConfig: "x" is built on itself`) {
		t.Errorf("%v", err)
	}
}

// TestT7AWaitOfResilience4jThatOutgrowsTheLimitsIsNotExact: resilience4j has no longest wait by default.
func TestT7AWaitOfResilience4jThatOutgrowsTheLimitsIsNotExact(t *testing.T) {
	for attempts, want := range map[string]policyimport.Fidelity{"4": exact, "5": approximate, "5, exponentialMaxWaitDuration: 1m": exact} { // waits of 10, 20, 40 and 80 seconds
		_, list := r4j(t, "retry", "waitDuration: 10s, enableExponentialBackoff: true, exponentialBackoffMultiplier: 2, maxAttempts: "+attempts)
		if !slices.Contains(list, "resilience4j.retry.instances.a.exponentialBackoffMultiplier "+string(want)) {
			t.Errorf("%s attempts: %q, want %s", attempts, list, want)
		}
	}
}
