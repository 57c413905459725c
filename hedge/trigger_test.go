package hedge

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

const ms = time.Millisecond

func digestOf(latencies ...time.Duration) *Digest {
	d := &Digest{}
	for _, l := range latencies {
		d.Add(l)
	}
	return d
}

func repeat(n int, l time.Duration) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = l
	}
	return all
}

func TestP4BuiltinTriggers(t *testing.T) {
	got := map[string]Trigger{}
	for _, name := range policy.Triggers() {
		trigger, ok := Builtin(name)
		if !ok {
			t.Errorf("%s is not built in", name)
		}
		got[name] = trigger
	}
	want := map[string]Trigger{
		"fixed": Fixed, "p50": Percentile(0.5), "p90": Percentile(0.9), "p95": Percentile(0.95), "p99": Percentile(0.99),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"", "p42", "after", "P95"} {
		if trigger, ok := Builtin(name); ok || trigger != nil {
			t.Errorf("%q is built in", name)
		}
	}
}

func TestR10Delay(t *testing.T) {
	h := policy.Hedge{HedgeDelay: 200 * ms}
	tests := []struct {
		name    string
		trigger Trigger
		digest  *Digest
		lo, hi  time.Duration
	}{
		{"fixed", Fixed, nil, 200 * ms, 200 * ms},
		{"fixed ignores latencies", Fixed, digestOf(repeat(100, 10*ms)...), 200 * ms, 200 * ms},
		{"after", After(30 * ms), nil, 30 * ms, 30 * ms},
		{"after a negative latency", After(-ms), nil, 0, 0},
		{"percentile without a digest", Percentile(0.9), nil, 200 * ms, 200 * ms},
		{"percentile of nothing", Percentile(0.9), &Digest{}, 200 * ms, 200 * ms},
		{"percentile of 49", Percentile(0.9), digestOf(repeat(49, 10*ms)...), 200 * ms, 200 * ms},
		{"percentile of 50", Percentile(0.9), digestOf(repeat(50, 10*ms)...), 9500 * time.Microsecond, 10500 * time.Microsecond},
		{"may exceed the fixed delay", Percentile(0.9), digestOf(repeat(50, time.Second)...), 950 * ms, 1050 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.trigger.Delay(h, tt.digest)
			if !ok || got < tt.lo || got > tt.hi {
				t.Errorf("%v %v, want %v to %v", got, ok, tt.lo, tt.hi)
			}
		})
	}
}

type custom struct{}

func (custom) Delay(policy.Hedge, *Digest) (time.Duration, bool) { return 0, false }

type without struct{ custom }

func (without) NeedsDigest() bool { return false }

func TestR10OnlyPercentileTriggersNeedADigest(t *testing.T) {
	got := map[string]bool{
		"fixed": NeedsDigest(Fixed), "after": NeedsDigest(After(ms)), "percentile": NeedsDigest(Percentile(0.5)),
		"custom": NeedsDigest(custom{}), "custom without": NeedsDigest(without{}),
	}
	want := map[string]bool{"fixed": false, "after": false, "percentile": true, "custom": true, "custom without": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPercentileOutOfRange(t *testing.T) {
	d := digestOf(append(repeat(50, ms), repeat(50, time.Second)...)...)
	for p, want := range map[Percentile]time.Duration{-1: ms, 0: ms, 1: time.Second, 7: time.Second, Percentile(math.NaN()): time.Second} {
		got, ok := p.Delay(policy.Hedge{}, d)
		if !ok || relativeError(got, want) > 0.05 {
			t.Errorf("Percentile(%v): %v, want about %v", float64(p), got, want)
		}
	}
}
