package decision_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// TestD1ExtremeDelaysEqualTheReference uses delays near 2⁶³ ns, where sums and triples saturate, and beyond 2⁵³ ns, where a
// double rounds. A difference of one nanosecond in a range changes about half of the draws.
func TestD1ExtremeDelaysEqualTheReference(t *testing.T) {
	const top = math.MaxInt64
	cases := map[string]policy.Retry{
		"triple one below the top":        {InitialBackoff: top / 3, Jitter: policy.JitterDecorrelated},
		"triple just over the top":        {InitialBackoff: top/3 + 1, Jitter: policy.JitterDecorrelated},
		"triple far over the top":         {InitialBackoff: top / 5 * 2, Jitter: policy.JitterDecorrelated},
		"triple over a cap":               {InitialBackoff: top / 5 * 2, MaxBackoff: top - 1, Jitter: policy.JitterDecorrelated},
		"sum just below the top":          {InitialBackoff: 1 << 61, BackoffMultiplier: 1, Jitter: policy.JitterProportional, JitterFactor: 1},
		"sum at the top":                  {InitialBackoff: 1 << 62, BackoffMultiplier: 1, Jitter: policy.JitterProportional, JitterFactor: 1},
		"sum over the top":                {InitialBackoff: 1<<62 + 1<<60, BackoffMultiplier: 1, Jitter: policy.JitterProportional, JitterFactor: 1},
		"spread rounded up past an odd d": {InitialBackoff: 1 << 53, BackoffMultiplier: 2, MaxBackoff: 1<<53 + 3, Jitter: policy.JitterProportional, JitterFactor: 1},
		"full range":                      {InitialBackoff: top, BackoffMultiplier: 2, Jitter: policy.JitterFull},
		"upper half of the range":         {InitialBackoff: top, BackoffMultiplier: 2, Jitter: policy.JitterEqual},
		"full range under an odd cap":     {InitialBackoff: 1 << 52, BackoffMultiplier: 2, MaxBackoff: 1<<53 + 1, Jitter: policy.JitterFull},
	}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				var got []time.Duration
				for i := range 5 {
					got = append(got, decision.Delay(&r, seed, i))
				}
				if diff := cmp.Diff(referenceDelays(&r, seed, 5), got); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
			}
		})
	}
}

// TestD1CostDoesNotGrowBeyondTheCap: the loop ends when a delay has reached the cap, for any index.
func TestD1CostDoesNotGrowBeyondTheCap(t *testing.T) {
	r := policy.Retry{InitialBackoff: time.Millisecond, BackoffMultiplier: 2, MaxBackoff: time.Second, Jitter: policy.JitterNone}
	if d := decision.Delay(&r, 0, math.MaxInt); d != time.Second {
		t.Errorf("%s", d)
	}
}

// Policies that were not normalised still give sensible delays.
func TestD1UnusualPolicies(t *testing.T) {
	cases := map[string]struct {
		policy policy.Retry
		want   time.Duration
	}{
		"multiplier below 1 counts as 1":       {policy.Retry{InitialBackoff: time.Second, BackoffMultiplier: 0.5, Jitter: policy.JitterNone}, time.Second},
		"multiplier that is not a number":      {policy.Retry{InitialBackoff: time.Second, BackoffMultiplier: math.NaN(), Jitter: policy.JitterNone}, time.Second},
		"negative backoff, decorrelated":       {policy.Retry{InitialBackoff: -time.Second, MaxBackoff: time.Second, Jitter: policy.JitterDecorrelated}, 0},
		"negative backoff, full":               {policy.Retry{InitialBackoff: -time.Second, MaxBackoff: time.Second, Jitter: policy.JitterFull}, 0},
		"backoff above the cap, decorrelated":  {policy.Retry{InitialBackoff: 2 * time.Second, MaxBackoff: time.Second, Jitter: policy.JitterDecorrelated}, time.Second},
		"nothing to wait, growing without end": {policy.Retry{BackoffMultiplier: math.Inf(1), Jitter: policy.JitterNone}, 0},
		"no spread, proportional":              {policy.Retry{InitialBackoff: time.Second, BackoffMultiplier: 1, Jitter: policy.JitterProportional}, time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for i := range 5 {
				if got := decision.Delay(&c.policy, 5, i); got != c.want {
					t.Errorf("retry %d: %s, want %s", i, got, c.want)
				}
			}
		})
	}
}

func TestASumOfDelaysStopsAtTheLongestDuration(t *testing.T) {
	const top = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		delays []time.Duration
		want   time.Duration
	}{
		{nil, 0}, {[]time.Duration{1, 0, 2}, 3}, {[]time.Duration{top - 1, 1}, top}, {[]time.Duration{1, top, 1}, top}, {[]time.Duration{top, top}, top},
	} {
		if got := decision.Sum(c.delays...); got != c.want {
			t.Errorf("%v: %d, want %d", c.delays, got, c.want)
		}
	}
}
