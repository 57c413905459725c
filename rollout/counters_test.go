package rollout_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/rollout"
)

func genDuration() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, 1<<36), func(us int64) time.Duration { return time.Duration(us) * time.Microsecond })
}

// TestS2SketchError: a quantile errs by at most 1/32 of its value, or by half a microsecond.
func TestS2SketchError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(genDuration(), 1, 50).Draw(t, "durations")
		var s rollout.Sketch
		for _, d := range list {
			s.Observe(d)
		}
		slices.Sort(list)
		q := rapid.Float64Range(-0.5, 1.5).Draw(t, "q")
		rank := min(max(int(math.Ceil(q*float64(len(list)))), 1), len(list))
		exact := list[rank-1]
		if err := (s.Quantile(q) - exact).Abs(); err > max(exact/32, 500*time.Nanosecond) {
			t.Fatalf("quantile %g of %v is %v, want %v", q, list, s.Quantile(q), exact)
		}
		if s.Count() != int64(len(list)) {
			t.Fatal("count", s.Count())
		}
	})
}

// TestS2SketchMerges: merging parts, in any split and through JSON, equals one sketch of everything.
func TestS2SketchMerges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole, merged rollout.Sketch
		for _, part := range rapid.SliceOfN(rapid.SliceOf(genDuration()), 0, 4).Draw(t, "parts") {
			var s, read rollout.Sketch
			for _, d := range part {
				s.Observe(d)
				whole.Observe(d)
			}
			out, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out, &read); err != nil {
				t.Fatal(err)
			}
			merged.Merge(read)
		}
		a, errA := json.Marshal(whole)
		b, errB := json.Marshal(merged)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Fatal(string(a), string(b), errA, errB)
		}
	})
}

func TestS2SketchEdges(t *testing.T) {
	var s rollout.Sketch
	if s.Quantile(0.95) != 0 || !s.IsZero() {
		t.Error("an empty sketch has a quantile")
	}
	s.Observe(-time.Second)
	s.Observe(math.MaxInt64)
	if low, high := s.Quantile(0), s.Quantile(1); low != 500*time.Nanosecond || high < 18*time.Hour {
		t.Error(low, high)
	}
	for _, bad := range []string{`{}`, `[1]`, `[-1,1]`, `[528,1]`, `[1,0]`, `[1,-1]`, `[1,1,0,1]`, `[1,1,527,1]`, `[1.5,1]`} {
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// TestS2SketchBuckets freezes the JSON form: clients in other languages write it.
func TestS2SketchBuckets(t *testing.T) {
	var s rollout.Sketch
	for _, d := range []time.Duration{0, 15 * time.Microsecond, 16 * time.Microsecond, 33 * time.Microsecond, time.Millisecond, time.Millisecond, time.Second, 1 << 62} {
		s.Observe(d)
	}
	out, err := json.Marshal(s)
	if err != nil || string(out) != `[0,1,15,1,1,1,16,1,79,2,159,1,257,1]` {
		t.Error(err, string(out))
	}
}

func TestS2CountersAdd(t *testing.T) {
	var c, total rollout.Counters
	c.Observe(time.Millisecond, 2, true)
	c.Observe(time.Millisecond, -1, false)
	c.Openings++
	out, err := json.Marshal(c)
	if want := `{"calls":2,"failures":1,"extra_attempts":2,"openings":1,"latency":[111,2]}`; err != nil || string(out) != want {
		t.Error(err, string(out))
	}
	if out, err := json.Marshal(rollout.Counters{}); err != nil || string(out) != `{}` {
		t.Error(err, string(out))
	}
	total.Add(c)
	total.Add(c)
	if total.Calls != 4 || total.Failures != 2 || total.ExtraAttempts != 4 || total.Openings != 2 || total.Latency.Count() != 4 || c.Latency.Count() != 2 {
		t.Errorf("%+v", total)
	}
	huge := rollout.Counters{Calls: math.MaxInt64}
	huge.Add(total)
	if huge.Calls != math.MaxInt64 {
		t.Error("calls overflow:", huge.Calls)
	}
}

// TestS2CountersAddClient: the clients' sums do not depend on what a client says about them itself.
func TestS2CountersAddClient(t *testing.T) {
	var total rollout.Counters
	total.AddClient(rollout.Counters{Calls: 10, Failures: 2, ExtraAttempts: 3, Openings: 1, Spread: rollout.Spread{Clients: 99}})
	total.AddClient(rollout.Counters{Calls: 20, Failures: 1})
	total.AddClient(rollout.Counters{})
	want := rollout.Spread{
		Clients: 2, CallsSquared: 500,
		Failures:      rollout.Moments{Squared: 5, TimesCalls: 40},
		ExtraAttempts: rollout.Moments{Squared: 9, TimesCalls: 30},
		Openings:      rollout.Moments{Squared: 1, TimesCalls: 10},
	}
	if diff := cmp.Diff(want, total.Spread); diff != "" {
		t.Error(diff)
	}
}

func TestS2CountersValidate(t *testing.T) {
	if err := (rollout.Counters{Calls: 2, Failures: 2, ExtraAttempts: 9, Openings: 1}).Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []rollout.Counters{{Calls: -1}, {Failures: -1}, {ExtraAttempts: -1}, {Openings: -1}, {Calls: 1, Failures: 2}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
