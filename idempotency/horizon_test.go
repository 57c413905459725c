package idempotency_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policy"
)

// refusal returns a guard's error for a policy with a TTL of a microsecond, which contains the policy's horizon.
func refusal(t *testing.T, ttl time.Duration, p policy.Policy) string {
	t.Helper()
	_, err := idempotency.NewGuard(newBench(t, idempotency.GuardOptions{}).store, idempotency.GuardOptions{TTL: ttl, Policies: []policy.Policy{p}})
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestI3TheTTLCoversEveryPolicy(t *testing.T) {
	key := policy.ParseKey("billing.Charge")
	for name, c := range map[string]struct {
		retry policy.Retry
		want  time.Duration
	}{
		"timeouts and delays": {policy.Retry{
			MaxAttempts: 4, InitialBackoff: time.Second, BackoffMultiplier: 2, MaxBackoff: 3 * time.Second, Jitter: policy.JitterFull, TimeoutPerAttempt: 5 * time.Second,
			MaxPushback: time.Second,
		}, 4*5*time.Second + (1+2+3)*time.Second},
		"proportional jitter": {policy.Retry{
			MaxAttempts: 3, InitialBackoff: time.Second, BackoffMultiplier: 2, MaxBackoff: 10 * time.Second, Jitter: policy.JitterProportional, JitterFactor: 0.5,
			MaxPushback: time.Millisecond,
		}, 1500*time.Millisecond + 3*time.Second},
		"decorrelated jitter": {policy.Retry{
			MaxAttempts: 4, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, Jitter: policy.JitterDecorrelated, MaxPushback: time.Millisecond,
		}, (3 + 9 + 10) * time.Second},
		"pushback": {policy.Retry{MaxAttempts: 3, InitialBackoff: time.Second, MaxBackoff: time.Second, MaxPushback: time.Minute}, 2 * time.Minute},
		"overall timeout": {policy.Retry{
			MaxAttempts: 10, InitialBackoff: time.Second, TimeoutPerAttempt: time.Minute, OverallTimeout: 90 * time.Second,
		}, 90 * time.Second},
		"defaults": {policy.Retry{}, 2 * time.Minute}, // 3 attempts, and a pushback of up to a minute before each retry
	} {
		p := policy.Policy{Key: key, Retry: c.retry}
		got := refusal(t, c.want-time.Microsecond, p)
		for _, part := range []string{"billing.Charge", "ttl " + (c.want - time.Microsecond).String(), "retrying for " + c.want.String() + ","} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q does not contain %q", name, got, part)
			}
		}
		if got := refusal(t, c.want, p); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := refusal(t, time.Hour, policy.Policy{Retry: policy.Retry{Jitter: "wild"}}); !strings.Contains(got, "retry.jitter") {
		t.Errorf("an invalid policy: %q", got)
	}
	step, err := policy.Compile(policy.Policy{Retry: policy.Retry{
		MaxAttempts: 4, InitialBackoff: time.Hour, BackoffMultiplier: 2, Jitter: policy.JitterNone, MaxPushback: 1,
	}}, policy.LimitsFor(policy.SurfaceStep), policy.SourceOption)
	if err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, time.Hour, *step); !strings.Contains(got, "retrying for 7h0m0s,") {
		t.Errorf("delays without a cap: %q", got)
	}
	jobs, err := policy.Compile(policy.Policy{Retry: policy.Retry{MaxAttempts: 1000, MaxPushback: math.MaxInt64}}, policy.JobLimits(), policy.SourceOption)
	if err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, time.Hour, *jobs); !strings.Contains(got, time.Duration(math.MaxInt64).String()) {
		t.Errorf("a horizon that overflows: %q", got)
	}
}

// TestI3NoRetriesLastLongerThanTheHorizon checks random runs of decisions.
func TestI3NoRetriesLastLongerThanTheHorizon(t *testing.T) {
	bench := newBench(t, idempotency.GuardOptions{})
	rapid.Check(t, func(t *rapid.T) {
		r := policy.Retry{
			MaxAttempts: rapid.IntRange(1, 10).Draw(t, "attempts"), InitialBackoff: time.Duration(rapid.Int64Range(1e6, 1e10).Draw(t, "backoff")),
			MaxBackoff: time.Duration(rapid.Int64Range(1e6, 6e10).Draw(t, "cap")), BackoffMultiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"),
			Jitter: policy.Jitter(rapid.SampledFrom(policy.Jitter("").Values()).Draw(t, "jitter")), JitterFactor: rapid.Float64Range(0.01, 1).Draw(t, "factor"),
			TimeoutPerAttempt: time.Duration(rapid.Int64Range(1e6, 1e10).Draw(t, "timeout")), MaxPushback: 1,
		}
		p, err := policy.Policy{Retry: r}.Normalize(policy.CallLimits())
		if err != nil {
			t.Fatal(err)
		}
		took := time.Duration(p.Retry.MaxAttempts) * p.Retry.TimeoutPerAttempt
		seed := rapid.Uint64().Draw(t, "seed")
		for i := range p.Retry.MaxAttempts - 1 {
			took += decision.Delay(&p.Retry, seed, i)
		}
		if _, err := idempotency.NewGuard(bench.store, idempotency.GuardOptions{TTL: took - time.Microsecond, Policies: []policy.Policy{p}}); err == nil {
			t.Fatalf("a ttl of less than %s is enough for %+v", took, p.Retry)
		}
	})
}
