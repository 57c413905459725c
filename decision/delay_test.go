package decision_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

var jitters = []policy.Jitter{
	policy.JitterNone, policy.JitterFull, policy.JitterEqual, policy.JitterProportional, policy.JitterDecorrelated,
}

// waits draws durations of every magnitude.
func waits(t *rapid.T, label string) time.Duration {
	magnitude := rapid.SampledFrom([]time.Duration{1, 1000, time.Millisecond, time.Second, time.Hour, 1 << 53, math.MaxInt64}).Draw(t, label+" magnitude")
	return time.Duration(rapid.Int64Range(0, int64(magnitude)).Draw(t, label))
}

// policies draws normalized policies of all surfaces: a cap of 0 means no cap, and a cap is not shorter than the backoff.
func policies(t *rapid.T) *policy.Retry {
	r := policy.Retry{
		MaxAttempts:    rapid.IntRange(1, 1000).Draw(t, "attempts"),
		InitialBackoff: waits(t, "backoff"),
		BackoffMultiplier: rapid.OneOf(
			rapid.SampledFrom([]float64{1, 1.0000001, 1.1, 1.5, 2, 3, 10}), rapid.Float64Range(1, 10),
		).Draw(t, "multiplier"),
		Jitter:      rapid.SampledFrom(jitters).Draw(t, "jitter"),
		MaxPushback: max(waits(t, "max pushback"), 1),
	}
	if rapid.Bool().Draw(t, "capped") {
		r.MaxBackoff = max(waits(t, "cap"), r.InitialBackoff, 1)
	}
	if r.Jitter == policy.JitterProportional {
		r.JitterFactor = rapid.Float64Range(0, 1).Draw(t, "factor")
	}
	return &r
}

func seeds(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "seed") }

// ceiling is the longest delay that a policy allows.
func ceiling(r *policy.Retry) time.Duration {
	if r.MaxBackoff == 0 {
		return math.MaxInt64
	}
	return r.MaxBackoff
}

func TestD1GrowsToTheCap(t *testing.T) {

	cases := map[string]struct {
		policy policy.Retry
		want   []time.Duration
	}{
		"doubling":        {policy.Retry{InitialBackoff: 10 * ms, BackoffMultiplier: 2, MaxBackoff: 100 * ms}, []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 100 * ms}},
		"half as much":    {policy.Retry{InitialBackoff: 10 * ms, BackoffMultiplier: 1.5, MaxBackoff: 30 * ms}, []time.Duration{10 * ms, 15 * ms, 22500 * time.Microsecond, 30 * ms}},
		"truncated":       {policy.Retry{InitialBackoff: 3, BackoffMultiplier: 1.5, MaxBackoff: 9}, []time.Duration{3, 4, 6, 9}},
		"constant":        {policy.Retry{InitialBackoff: 7 * ms, BackoffMultiplier: 1, MaxBackoff: 100 * ms}, []time.Duration{7 * ms, 7 * ms, 7 * ms}},
		"no multiplier":   {policy.Retry{InitialBackoff: 7 * ms, MaxBackoff: 100 * ms}, []time.Duration{7 * ms, 7 * ms}},
		"no wait":         {policy.Retry{BackoffMultiplier: 2, MaxBackoff: 100 * ms}, []time.Duration{0, 0, 0}},
		"no cap":          {policy.Retry{InitialBackoff: time.Hour, BackoffMultiplier: 10}, []time.Duration{time.Hour, 10 * time.Hour, 100 * time.Hour}},
		"cap = backoff":   {policy.Retry{InitialBackoff: ms, BackoffMultiplier: 2, MaxBackoff: ms}, []time.Duration{ms, ms, ms}},
		"cap < backoff":   {policy.Retry{InitialBackoff: 2 * ms, BackoffMultiplier: 2, MaxBackoff: ms}, []time.Duration{ms, ms, ms}},
		"negative wait":   {policy.Retry{InitialBackoff: -ms, BackoffMultiplier: 2, MaxBackoff: ms}, []time.Duration{0, 0, 0}},
		"negative cap":    {policy.Retry{InitialBackoff: ms, BackoffMultiplier: 2, MaxBackoff: -ms}, []time.Duration{ms, 2 * ms, 4 * ms}},
		"odd cap of days": {policy.Retry{InitialBackoff: 1 << 52, BackoffMultiplier: 2, MaxBackoff: 1<<53 + 1}, []time.Duration{1 << 52, 1 << 53, 1<<53 + 1, 1<<53 + 1}},
	}
	for name, c := range cases {
		for _, jitter := range []policy.Jitter{policy.JitterNone, ""} {
			t.Run(fmt.Sprintf("%s/%q", name, jitter), func(t *testing.T) {
				c.policy.Jitter = jitter
				var got []time.Duration
				for i := range c.want {
					got = append(got, decision.Delay(&c.policy, 42, i))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestD1SaturatesAtAMillionRetries(t *testing.T) {
	const i = 1_000_000
	backoffs := []time.Duration{0, 1, time.Millisecond, time.Hour, math.MaxInt64}
	for _, multiplier := range []float64{1, 1.0000001, 1.5, 2, 10, math.MaxFloat64, math.Inf(1)} {
		for _, backoff := range backoffs {
			for _, limit := range []time.Duration{0, backoff, backoff + min(time.Second, math.MaxInt64-backoff), math.MaxInt64} {
				r := policy.Retry{InitialBackoff: backoff, BackoffMultiplier: multiplier, MaxBackoff: limit, JitterFactor: 1}
				for _, r.Jitter = range []policy.Jitter{policy.JitterNone, policy.JitterFull, policy.JitterEqual, policy.JitterProportional} {
					if d := decision.Delay(&r, 7, i); d < 0 || d > ceiling(&r) {
						t.Errorf("%s × %g^%d, cap %s, %s: %s", backoff, multiplier, i, limit, r.Jitter, d)
					}
				}
				r.Jitter = policy.JitterNone
				if d := decision.Delay(&r, 7, i); multiplier >= 1.5 && backoff > 0 && d != ceiling(&r) {
					t.Errorf("%s × %g^%d, cap %s: %s is not the cap", backoff, multiplier, i, limit, d)
				}
			}
		}
	}
	r := policy.Retry{InitialBackoff: time.Second, BackoffMultiplier: 1.0000001, Jitter: policy.JitterNone}
	if d := decision.Delay(&r, 7, i); d != time.Duration(referenceBase(&r, i)) || d/time.Millisecond != 1105 {
		t.Errorf("a slow growth without a cap gives %s", d)
	}
	r = policy.Retry{InitialBackoff: math.MaxInt64 / 2, Jitter: policy.JitterDecorrelated}
	if d := decision.Delay(&r, 7, i); d < r.InitialBackoff {
		t.Errorf("decorrelated jitter without a cap gives %s", d)
	}
}

func TestD1NeverNegativeNorAboveTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, seed, i := policies(t), seeds(t), rapid.IntRange(0, 2000).Draw(t, "i")
		d := decision.Delay(r, seed, i)
		if d < 0 || d > ceiling(r) {
			t.Fatalf("delay %d of %+v, cap %d", d, *r, ceiling(r))
		}
	})
}

func TestD1UnjitteredDelaysNeverShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, i := policies(t), rapid.IntRange(0, 2000).Draw(t, "i")
		r.Jitter = policy.JitterNone
		if a, b := decision.Delay(r, 0, i), decision.Delay(r, 0, i+1); a > b {
			t.Fatalf("%d then %d", a, b)
		}
	})
}

func TestD2JitterStaysInItsRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, seed, i := policies(t), seeds(t), rapid.IntRange(0, 100).Draw(t, "i")
		got := decision.Delay(r, seed, i)
		plain := *r
		plain.Jitter = policy.JitterNone
		d := decision.Delay(&plain, seed, i)
		lo, hi := d, d
		switch r.Jitter {
		case policy.JitterFull:
			lo = 0
		case policy.JitterEqual:
			lo = d / 2
		case policy.JitterProportional: // one nanosecond and one rounding in either direction
			spread := float64(d)*r.JitterFactor*(1+1e-15) + 1
			lo, hi = max(0, time.Duration(float64(d)*(1-1e-15)-spread)), ceiling(r)
			if top := float64(d)*(1+1e-15) + spread; top < float64(hi) {
				hi = time.Duration(top)
			}
		case policy.JitterDecorrelated:
			lo, hi = r.InitialBackoff, ceiling(r)
			previous := r.InitialBackoff
			if i > 0 {
				previous = decision.Delay(r, seed, i-1)
			}
			if previous <= hi/3 {
				hi = 3 * previous
			}
		}
		if got < lo || got > hi {
			t.Fatalf("%s: %d outside %d … %d", r.Jitter, got, lo, hi)
		}
	})
}

// drawn returns the delays before retry i for many units of work.
func drawn(r *policy.Retry, i, n int) []time.Duration {
	list := make([]time.Duration, n)
	for k := range list {
		list[k] = decision.Delay(r, decision.Seed(fmt.Sprint("work-", k)), i)
	}
	return list
}

func TestD2SpreadsOverTheWholeRange(t *testing.T) {

	cases := []struct {
		jitter policy.Jitter
		i      int
		lo, hi time.Duration
	}{
		{policy.JitterFull, 0, 0, 100 * ms},
		{policy.JitterFull, 1, 0, 200 * ms},
		{policy.JitterFull, 9, 0, 1000 * ms},
		{policy.JitterEqual, 0, 50 * ms, 100 * ms},
		{policy.JitterEqual, 9, 500 * ms, 1000 * ms},
		{policy.JitterProportional, 0, 80 * ms, 120 * ms},
		{policy.JitterProportional, 3, 640 * ms, 960 * ms},
		{policy.JitterProportional, 9, 800 * ms, 1000 * ms},
		{policy.JitterDecorrelated, 0, 100 * ms, 300 * ms},
	}
	const n = 4000
	for _, c := range cases {
		t.Run(fmt.Sprint(c.jitter, c.i), func(t *testing.T) {
			r := policy.Retry{InitialBackoff: 100 * ms, BackoffMultiplier: 2, MaxBackoff: 1000 * ms, Jitter: c.jitter, JitterFactor: 0.2}
			var buckets [10]int
			for _, d := range drawn(&r, c.i, n) {
				if d < c.lo || d > c.hi {
					t.Fatalf("%s outside %s … %s", d, c.lo, c.hi)
				}
				buckets[min(10*(d-c.lo)/(c.hi-c.lo), 9)]++
			}
			for k, count := range buckets {
				if count < n/10*8/10 || count > n/10*12/10 {
					t.Errorf("tenth %d holds %d of %d: %v", k, count, n, buckets)
				}
			}
		})
	}
}

func TestD2DelaysDoNotPileUpAtTheCap(t *testing.T) {
	const n = 4000
	for _, jitter := range []policy.Jitter{policy.JitterFull, policy.JitterEqual, policy.JitterProportional, policy.JitterDecorrelated} {
		for _, i := range []int{3, 4, 10, 100} {
			t.Run(fmt.Sprint(jitter, i), func(t *testing.T) {
				r := policy.Retry{
					InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 2, MaxBackoff: time.Second,
					Jitter: jitter, JitterFactor: 0.5,
				}
				list := drawn(&r, i, n)
				slices.Sort(list)
				atCap := n - len(list[:must(slices.BinarySearch(list, time.Second))])
				distinct := len(slices.Compact(list))
				if atCap > n/1000 || distinct < n*99/100 {
					t.Errorf("%d of %d delays are the cap, %d are distinct", atCap, n, distinct)
				}
			})
		}
	}
}

func must(i int, _ bool) int { return i }

func TestD2TinyRangesAreUsedCompletely(t *testing.T) {
	r := policy.Retry{InitialBackoff: 2, BackoffMultiplier: 1, MaxBackoff: 2, Jitter: policy.JitterFull}
	count := map[time.Duration]int{}
	for _, d := range drawn(&r, 0, 3000) {
		count[d]++
	}
	for d := range time.Duration(3) {
		if count[d] < 800 || count[d] > 1200 {
			t.Errorf("%d ns was drawn %d times of 3000", d, count[d])
		}
	}
	r.Jitter, r.JitterFactor = policy.JitterProportional, 1
	for _, d := range drawn(&r, 0, 100) {
		if d < 0 || d > 2 {
			t.Errorf("%d ns", d)
		}
	}
}

func TestD2DecorrelatedFollowsItsPreviousDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, seed := policies(t), seeds(t)
		r.Jitter = policy.JitterDecorrelated
		n := rapid.IntRange(1, 60).Draw(t, "n")
		var got []time.Duration
		for i := range n {
			got = append(got, decision.Delay(r, seed, i))
		}
		if diff := cmp.Diff(referenceDelays(r, seed, n), got); diff != "" {
			t.Fatalf("%+v: %s", *r, diff)
		}
	})
}

func TestD2DecorrelatedGrowsAndIsCutAtTheCap(t *testing.T) {
	r := policy.Retry{InitialBackoff: 10 * time.Millisecond, MaxBackoff: time.Second, Jitter: policy.JitterDecorrelated}
	var sum time.Duration
	for _, d := range drawn(&r, 50, 2000) {
		if d < r.InitialBackoff || d > r.MaxBackoff {
			t.Fatalf("%s outside 10ms … 1s", d)
		}
		sum += d
	}
	if mean := sum / 2000; mean < 300*time.Millisecond || mean > 700*time.Millisecond {
		t.Errorf("the mean of late delays is %s", mean)
	}
}

func TestD3SeedsOfWork(t *testing.T) {
	cases := map[string]uint64{ // the first eight bytes of well-known SHA-256 values
		"":    0xe3b0c44298fc1c14,
		"abc": 0xba7816bf8f01cfea,
	}
	for id, want := range cases {
		if got := decision.Seed(id); got != want {
			t.Errorf("Seed(%q) = %x, want %x", id, got, want)
		}
	}
	if decision.StepSeed("tx-1", "process") != decision.Seed("tx-1/process") {
		t.Error("a step's seed is not that of transaction/step")
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.String().Draw(t, "id")
		if got, want := decision.Seed(id), referenceSeed(id); got != want {
			t.Fatalf("Seed(%q) = %x, want %x", id, got, want)
		}
	})
}

// TestD3DrawsArePublishedSplitMix64: with full jitter over the whole range, a delay is the upper 63 bits of the draw.
func TestD3DrawsArePublishedSplitMix64(t *testing.T) {
	published := map[uint64][]uint64{ // outputs of the authors' C program
		0:       {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec, 0x1b39896a51a8749b},
		1234567: {6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821},
	}
	r := policy.Retry{InitialBackoff: math.MaxInt64, BackoffMultiplier: 1, Jitter: policy.JitterFull}
	for seed, outputs := range published {
		for i, z := range outputs {
			if got := referenceDraw(seed, i).Uint64(); got != z {
				t.Errorf("reference: draw %d of seed %d is %x, want %x", i, seed, got, z)
			}
			if got := uint64(decision.Delay(&r, seed, i)); got != z>>1 {
				t.Errorf("draw %d of seed %d is %x, want %x", i, seed, got, z>>1)
			}
		}
	}
}

func TestD3DelaysEqualTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, seed, n := policies(t), seeds(t), rapid.IntRange(1, 40).Draw(t, "n")
		var got []time.Duration
		for i := range n {
			got = append(got, decision.Delay(r, seed, i))
		}
		if diff := cmp.Diff(referenceDelays(r, seed, n), got); diff != "" {
			t.Fatalf("%+v: %s", *r, diff)
		}
	})
}

// TestD3EveryProductIsRounded: the delays would differ if two products were fused or kept in wider registers.
func TestD3EveryProductIsRounded(t *testing.T) {
	for _, multiplier := range []float64{1.1, 1.3, 1.7, 2.3, 3.3, 9.9} {
		for _, backoff := range []time.Duration{3, 333_333_333, 1_000_000_007} {
			r := policy.Retry{InitialBackoff: backoff, BackoffMultiplier: multiplier, Jitter: policy.JitterNone}
			for i := range 60 {
				if got, want := decision.Delay(&r, 0, i), time.Duration(referenceBase(&r, i)); got != want {
					t.Errorf("%d × %g^%d = %d, want %d", backoff, multiplier, i, got, want)
				}
			}
		}
	}
}

func TestD3DifferentWorkSpreadsAndTheSameWorkRepeats(t *testing.T) {
	r := policy.Retry{InitialBackoff: time.Second, BackoffMultiplier: 2, MaxBackoff: time.Minute, JitterFactor: 0.1}
	for _, r.Jitter = range jitters {
		if got, want := decision.Draws(r.Jitter), r.Jitter != policy.JitterNone; got != want {
			t.Errorf("Draws(%s) = %t", r.Jitter, got)
		}
		a, b := drawn(&r, 3, 50), drawn(&r, 3, 50)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: the same work got other delays: %s", r.Jitter, diff)
		}
		slices.Sort(a)
		if spread := len(slices.Compact(a)) > 1; spread != decision.Draws(r.Jitter) {
			t.Errorf("%s: spread %t", r.Jitter, spread)
		}
	}
}

func TestD3DelayIsSafeForConcurrentUse(t *testing.T) {
	r := policy.Retry{InitialBackoff: time.Millisecond, BackoffMultiplier: 2, MaxBackoff: time.Minute, Jitter: policy.JitterDecorrelated}
	want := decision.Delay(&r, 9, 20)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if got := decision.Delay(&r, 9, 20); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
	group.Wait()
}

func TestD2EveryDelayIsWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, i := policies(t), rapid.IntRange(0, 1000).Draw(t, "retry")
		lowest, highest := decision.Bounds(r, i)
		if d := decision.Delay(r, seeds(t), i); lowest < 0 || d < lowest || d > highest || highest > ceiling(r) {
			t.Fatalf("retry %d of %+v waits %s, bounds %s and %s", i, *r, d, lowest, highest)
		}
	})
}

func TestD2BoundsOfDecorrelatedJitterTripleUpToTheCap(t *testing.T) {
	const s = time.Second
	r := policy.Retry{InitialBackoff: s, MaxBackoff: 40 * s, Jitter: policy.JitterDecorrelated}
	for i, want := range []time.Duration{3 * s, 9 * s, 27 * s, 40 * s, 40 * s} {
		if lowest, highest := decision.Bounds(&r, i); lowest != s || highest != want {
			t.Errorf("retry %d: from %s to %s, want %s to %s", i, lowest, highest, s, want)
		}
	}
}

func TestD2BoundsAreReached(t *testing.T) {
	const s = time.Second
	for jitter, want := range map[policy.Jitter][2]time.Duration{
		policy.JitterNone: {4 * s, 4 * s}, policy.JitterFull: {0, 4 * s}, policy.JitterEqual: {2 * s, 4 * s},
		policy.JitterProportional: {3 * s, 5 * s}, policy.JitterDecorrelated: {s, 10 * s},
	} {
		r := policy.Retry{InitialBackoff: s, BackoffMultiplier: 2, MaxBackoff: 10 * s, Jitter: jitter, JitterFactor: 0.25}
		if lowest, highest := decision.Bounds(&r, 2); lowest != want[0] || highest != want[1] {
			t.Errorf("%s: from %s to %s, want %v", jitter, lowest, highest, want)
		}
		near := [2]time.Duration{math.MaxInt64, 0}
		for seed := range uint64(20000) {
			d := decision.Delay(&r, decision.Seed(fmt.Sprint(seed)), 2)
			near[0], near[1] = min(near[0], d), max(near[1], d)
		}
		if near[0] > want[0]+100*time.Millisecond || near[1] < want[1]-100*time.Millisecond {
			t.Errorf("%s: 20,000 seeds wait from %s to %s, bounds %v", jitter, near[0], near[1], want)
		}
	}
}
