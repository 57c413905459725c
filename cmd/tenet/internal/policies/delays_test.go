package policies

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// anyRetry draws a policy of calls.
func anyRetry(t *rapid.T) policy.Retry {
	backoff := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "backoff"))
	return policy.Retry{
		InitialBackoff: backoff, BackoffMultiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"),
		MaxBackoff:   time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cap")),
		Jitter:       policy.Jitter(rapid.SampledFrom(policy.Jitter("").Values()).Draw(t, "jitter")),
		JitterFactor: rapid.Float64Range(0, 1).Draw(t, "factor"),
	}
}

func TestNoSeedWaitsLongerThanTheWorstCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRetry(t)
		s := newSchedule(&policy.Policy{Retry: r}, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 6).Draw(t, "retries"))
		for i, d := range s.delays {
			low, high := decision.Bounds(&r, i)
			if d < low || d > high || s.longest[i] != high || s.mean[i] < low || s.mean[i] > high {
				t.Fatalf("retry %d: %v, mean %v, not in %v to %v", i, d, s.mean[i], low, high)
			}
		}
	})
}

func TestTheExpectedTotalIsTheMeanOverSeeds(t *testing.T) {
	for _, jitter := range policy.Jitter("").Values() {
		r := policy.Retry{InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 2, MaxBackoff: 3 * time.Second, Jitter: policy.Jitter(jitter), JitterFactor: 0.5}
		const retries, seeds = 5, 4000
		var total time.Duration
		for seed := range uint64(seeds) {
			for i := range retries {
				total += decision.Delay(&r, decision.Seed(fmt.Sprint(seed)), i)
			}
		}
		got, want := float64(total)/seeds, float64(decision.Sum(newSchedule(&policy.Policy{Retry: r}, 1, retries).mean...))
		if got < want*0.95 || got > want*1.05 {
			t.Errorf("%s: seeds wait %v on average, expected %v", jitter, time.Duration(got), time.Duration(want))
		}
	}
}
