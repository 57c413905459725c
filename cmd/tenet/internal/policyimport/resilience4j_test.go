package policyimport_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		_, err := policyimport.Resilience4j([]byte(`{resilience4j: {retry: {instances: {a: {waitDuration: 1s, enableRandomizedWait: true, randomizedWaitFactor: ` + factor + `}}}}}`))
		if err == nil || !strings.Contains(err.Error(), "instances.a.randomizedWaitFactor: "+factor+" is not 0 or more and below 1") {
			t.Errorf("%s: %v", factor, err)
		}
	}
}

func TestT7DurationsOfResilience4jAreReadAsJavaDoes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT0.5S": 500 * ms, "PT1.001S": 1001 * ms, "P1DT1H1M1S": 25*time.Hour + time.Minute + time.Second, "PT5000000S": 5_000_000 * time.Second, "pt2m": 2 * time.Minute,
		"+PT5S": 5 * time.Second, "PT+5S": 5 * time.Second, "PT1.S": time.Second, "'PT1,5S'": 1500 * ms, "-PT5S": 0, "PT-5S": 0,
		"P": 0, "+P": 0, "PT": 0, "PT.5S": 0, "P1DT": 0, "P999999D": 0, "PT999999999999999999999S": 0, // refused
		"500": 500 * ms, "2M": 2 * time.Minute, "3d": 72 * time.Hour, "+5s": 5 * time.Second, "7us": 1 * ms,
		"1m30s": 0, "1.5s": 0, "-5s": 0, "1µs": 0, "s": 0, "2w": 0, "9999999999999h": 0, "99999999999999999999": 0, "0.5": 0,
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
	if err == nil || !strings.Contains(err.Error(), "[1].resilience4j.retry.instances.a: is set as [0].resilience4j.retry.instances.a too") {
		t.Errorf("%v", err)
	}
	got, err := policyimport.Resilience4j([]byte(first + "resilience4j: {retry: {instances: {b: {}}}, timelimiter: {instances: {a: {}}}}"))
	if err != nil || len(got.Policies) != 2 {
		t.Errorf("%v, %v", got.Policies, err)
	}
}

func TestT7ADottedNameOfResilience4jIsReported(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte("resilience4j.retry.instances.a: {maxAttempts: 5}\nresilience4j.retry: {instances: {b: {}}}\nresilience4j.thread-pool-bulkhead: {instances: {b: {}}}"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"resilience4j.retry.instances.a":    "is left out: write the instances as nested objects, resilience4j: {retry: {instances: {…}}}",
		"resilience4j.thread-pool-bulkhead": "is not known and is left out",
	} {
		if !slices.Contains(got.Report, policyimport.Note{Path: path, Fidelity: lost, Message: want}) {
			t.Errorf("%s: no %q in %v", path, want, got.Report)
		}
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

// TestT7BackoffOfResilience4jNeedsAWaitDurationInTheSameConfiguration or a higher one, as configureRetryIntervalFunction of resilience4j 2.
func TestT7BackoffOfResilience4jNeedsAWaitDurationInTheSameConfiguration(t *testing.T) {
	const exponential, random = "enableExponentialBackoff: true, exponentialBackoffMultiplier: 3", "enableRandomizedWait: true, randomizedWaitFactor: 0.1"
	for name, c := range map[string]struct {
		standard, instance string
		want               policy.Retry
		lost               []string
	}{
		"no wait": {
			"", exponential + ", exponentialMaxWaitDuration: 5s, " + random, policy.Retry{InitialBackoff: 500 * ms, BackoffMultiplier: 1, Jitter: "none"},
			[]string{"instances.a.enableExponentialBackoff", "instances.a.exponentialBackoffMultiplier", "instances.a.exponentialMaxWaitDuration", "instances.a.enableRandomizedWait", "instances.a.randomizedWaitFactor"},
		},
		"a wait below": {
			"waitDuration: 2s", exponential, policy.Retry{InitialBackoff: 2 * time.Second, BackoffMultiplier: 1, Jitter: "none"},
			[]string{"instances.a.enableExponentialBackoff", "instances.a.exponentialBackoffMultiplier"},
		},
		"a wait above": {exponential, "waitDuration: 2s", policy.Retry{InitialBackoff: 2 * time.Second, BackoffMultiplier: 3, Jitter: "none"}, nil},
		"a factor below": {
			random, "waitDuration: 2s", policy.Retry{InitialBackoff: 2 * time.Second, BackoffMultiplier: 1, Jitter: "proportional", JitterFactor: 0.5},
			[]string{"configs.default.randomizedWaitFactor"},
		},
		"a factor below a bound": {
			random, "waitDuration: 2s, exponentialMaxWaitDuration: 3s, " + exponential,
			policy.Retry{InitialBackoff: 2 * time.Second, BackoffMultiplier: 3, MaxBackoff: time.Minute, Jitter: "proportional", JitterFactor: 0.5},
			[]string{"configs.default.randomizedWaitFactor", "instances.a.exponentialMaxWaitDuration"},
		},
		"no multiplier": {
			"", "waitDuration: 2s, enableExponentialBackoff: true, exponentialMaxWaitDuration: 3s, " + random,
			policy.Retry{InitialBackoff: 2 * time.Second, BackoffMultiplier: 1.5, MaxBackoff: time.Minute, Jitter: "proportional", JitterFactor: 0.5},
			[]string{"instances.a.exponentialMaxWaitDuration", "instances.a.randomizedWaitFactor"},
		},
		"no factor": {
			"", "waitDuration: 2s, exponentialMaxWaitDuration: 3s, enableRandomizedWait: true, " + exponential,
			policy.Retry{InitialBackoff: 2 * time.Second, BackoffMultiplier: 3, MaxBackoff: time.Minute, Jitter: "proportional", JitterFactor: 0.5},
			[]string{"instances.a.exponentialMaxWaitDuration"},
		},
	} {
		got, err := policyimport.Resilience4j([]byte(`{resilience4j: {retry: {configs: {default: {` + c.standard + `}}, instances: {a: {` + c.instance + `}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r := got.Policies["a"].Retry
		if c.want.MaxBackoff == 0 {
			r.MaxBackoff = 0
		}
		if c.want.MaxAttempts = 3; !cmp.Equal(r, c.want) {
			t.Errorf("%s: %s", name, cmp.Diff(c.want, r))
		}
		var left []string
		for _, n := range got.Report {
			if n.Fidelity == lost {
				left = append(left, strings.TrimPrefix(n.Path, "resilience4j.retry."))
			}
		}
		slices.Sort(left)
		slices.Sort(c.lost)
		if !slices.Equal(left, c.lost) {
			t.Errorf("%s: lost %q, want %q", name, left, c.lost)
		}
		parses(t, got)
	}
}

// TestT7AValueThatResilience4jRefusesIsRefused as the setters of its properties do.
func TestT7AValueThatResilience4jRefusesIsRefused(t *testing.T) {
	for settings, module := range map[string]string{
		"maxConcurrentCalls: 0": "bulkhead", "limitForPeriod: 0": "ratelimiter", "limitRefreshPeriod: 0": "ratelimiter", "timeoutDuration: 0s": "timelimiter",
		"slidingWindowSize: 0": "circuitbreaker", "minimumNumberOfCalls: 0": "circuitbreaker", "permittedNumberOfCallsInHalfOpenState: 0": "circuitbreaker",
		"waitDurationInOpenState: 0": "circuitbreaker", "slowCallDurationThreshold: 0": "circuitbreaker", "failureRateThreshold: 0.5": "circuitbreaker",
		"exponentialBackoffMultiplier: 0, waitDuration: 1s": "retry", "waitDuration: 0, enableExponentialBackoff: true": "retry",
		"exponentialMaxWaitDuration: 0, waitDuration: 1s": "retry", "enableRandomizedWait: maybe, waitDuration: 1s": "retry",
	} {
		field, _, _ := strings.Cut(settings, ":")
		_, err := policyimport.Resilience4j([]byte(`{resilience4j: {` + module + `: {instances: {a: {` + settings + `}}}}}`))
		if err == nil || !strings.Contains(err.Error(), "resilience4j."+module+".instances.a."+field+": ") {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// TestT7TheOlderNamesOfInstancesAreRead: Spring binds backends and limiters to the same map.
func TestT7TheOlderNamesOfInstancesAreRead(t *testing.T) {
	for module, list := range map[string]string{"retry": "backends", "circuitbreaker": "backends", "bulkhead": "backends", "ratelimiter": "limiters"} {
		got, err := policyimport.Resilience4j([]byte(`{resilience4j: {` + module + `: {instances: {b: {}}, ` + list + `: {a: {}}}}}`))
		if err != nil || len(got.Policies) != 2 || len(got.Policies["a"].Retry.RetryOn) != 0 {
			t.Errorf("%s: %v, %v", module, got.Policies, err)
		}
		_, err = policyimport.Resilience4j([]byte(`{resilience4j: {` + module + `: {instances: {a: {}}, ` + list + `: {a: {}}}}}`))
		if want := list + ".a: is set as resilience4j." + module + ".instances.a too"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", module, err, want)
		}
	}
}

// TestT7BracketsAreNoPartOfAName: Spring's way to write a key with dots.
func TestT7BracketsAreNoPartOfAName(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte(`{resilience4j: {retry: {configs: {"[a.b]": {maxAttempts: 7}}, instances: {"[my.service]": {baseConfig: a.b}}}}}`))
	if err != nil || got.Policies["my.service"].Retry.MaxAttempts != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestT7AConfigurationOfAnotherDocumentIsUsed: Spring merges the documents that are active.
func TestT7AConfigurationOfAnotherDocumentIsUsed(t *testing.T) {
	const first = "resilience4j: {retry: {configs: {default: {maxAttempts: 7}}}}\n---\n"
	got, err := policyimport.Resilience4j([]byte(first + "resilience4j: {retry: {instances: {a: {waitDuration: 1s}}}}"))
	if err != nil || got.Policies["a"].Retry.MaxAttempts != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = policyimport.Resilience4j([]byte(first + "resilience4j: {retry: {configs: {default: {}}, instances: {a: {}}}}"))
	if err == nil || !strings.Contains(err.Error(), "[1].resilience4j.retry.configs.default: is set as [0].resilience4j.retry.configs.default too") {
		t.Error(err)
	}
}

func TestT7ValuesOfResilience4jAreConvertedAsSpringDoes(t *testing.T) {
	p, list := r4j(t, "retry", `maxAttempts: "4", waitDuration: " 2S ", enableExponentialBackoff: "true", exponentialBackoffMultiplier: "3", enableRandomizedWait: OFF`)
	if r := p.Retry; r.MaxAttempts != 4 || r.InitialBackoff != 2*time.Second || r.BackoffMultiplier != 3 || r.Jitter != "none" {
		t.Errorf("%+v", r)
	}
	if i := slices.IndexFunc(list, func(s string) bool { return !strings.HasSuffix(s, " exact") }); i >= 0 {
		t.Errorf("%s", list[i])
	}
	if _, list := r4j(t, "timelimiter", `cancelRunningFuture: "false"`); !slices.Contains(list, "resilience4j.timelimiter.instances.a.cancelRunningFuture lost") {
		t.Errorf("%q", list)
	}
}

func TestT7APlaceholderOfSpringIsItsDefault(t *testing.T) {
	p, list := r4j(t, "retry", `maxAttempts: "${ATTEMPTS:4}", waitDuration: "${WAIT:${BASE:2}}s", eventConsumerBufferSize: "${SIZE}"`)
	if p.Retry.MaxAttempts != 4 || p.Retry.InitialBackoff != 2*time.Second {
		t.Errorf("%+v", p.Retry)
	}
	for _, want := range []string{"maxAttempts approximate", "waitDuration approximate", "eventConsumerBufferSize lost"} {
		if !slices.Contains(list, "resilience4j.retry.instances.a."+want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
	for _, text := range []string{"${ATTEMPTS}", "1${ATTEMPTS}", "${A:${B}}"} {
		_, err := policyimport.Resilience4j([]byte(`{resilience4j: {retry: {instances: {a: {maxAttempts: "` + text + `"}}}}}`))
		if want := `resilience4j.retry.instances.a.maxAttempts: "` + text + `" is a placeholder without a default; write its value`; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestT7ABreakerWithoutARetryOfItsNameIsReported: annotations may join instances of different names, which the input does not say.
func TestT7ABreakerWithoutARetryOfItsNameIsReported(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte("resilience4j: {retry: {instances: {users: {}, both: {}}}, circuitbreaker: {instances: {usersBreaker: {}, both: {}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	var remarks []string
	for _, n := range got.Report {
		if n.Path == "resilience4j.retry" {
			remarks = append(remarks, n.Message)
		}
	}
	if len(remarks) != 1 || !strings.HasPrefix(remarks[0], "has no instance usersBreaker: its policy makes one attempt.") {
		t.Errorf("%q", remarks)
	}
}

func TestT7ASettingOfAConfigThatNoInstanceHasIsLost(t *testing.T) {
	got, err := policyimport.Resilience4j([]byte(`{resilience4j: {retry: {
		configs: {default: {maxAttempts: 4, waitDuration: 1s}, base: {baseConfig: low, maxAttempts: 5}, low: {waitDuration: 3s}},
		instances: {a: {waitDuration: 2s}, b: {baseConfig: base, waitDuration: 2s}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	list := fidelities(got)
	for _, want := range []string{"default.maxAttempts exact", "default.waitDuration lost", "base.baseConfig exact", "base.maxAttempts exact", "low.waitDuration lost"} {
		if !slices.Contains(list, "resilience4j.retry.configs."+want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
	_, err = policyimport.Resilience4j([]byte(`{resilience4j: {retry: {configs: {default: 3}, instances: {a: {}}}}}`))
	if err == nil || !strings.Contains(err.Error(), "resilience4j.retry.configs.default: is a number, not an object") {
		t.Errorf("%v", err)
	}
}

func TestT7AWaitOfResilience4jAboveTheLongestIsTheLongest(t *testing.T) {
	p, _ := r4j(t, "retry", "waitDuration: 7s, enableExponentialBackoff: true, exponentialBackoffMultiplier: 2, exponentialMaxWaitDuration: 2s")
	if p.Retry.InitialBackoff != 2*time.Second || p.Retry.MaxBackoff != 2*time.Second {
		t.Errorf("%+v", p.Retry)
	}
}

func TestT7APropertiesFileIsRefusedWithARemedy(t *testing.T) {
	for _, text := range []string{
		"# retries\nresilience4j.retry.instances.a.maxAttempts=3\n", "server.name = {x\nresilience4j.retry.instances.a.max-attempts = 3\n",
	} {
		_, err := policyimport.Resilience4j([]byte(text))
		if err == nil || !strings.Contains(err.Error(), "a .properties file is not read; write its settings as YAML: resilience4j: {retry: {instances: {…}}}") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
