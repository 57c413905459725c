package rollout_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/rollout"
)

// TestS2ReportsAddUpToTheirClients sends the calls of some clients in reports, through two servers whose parts a store adds.
func TestS2ReportsAddUpToTheirClients(t *testing.T) {
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)+math.Abs(b)) })
	rapid.Check(t, func(t *rapid.T) {
		clients := rapid.IntRange(1, 4).Draw(t, "clients")
		totals := make([]rollout.Counters, clients)
		seen := make([]rollout.Counters, clients)
		var parts [2]rollout.Counters
		for range rapid.IntRange(1, 12).Draw(t, "reports") {
			i := rapid.IntRange(0, clients-1).Draw(t, "client")
			var delta rollout.Counters
			for range rapid.IntRange(0, 30).Draw(t, "calls") {
				delta.Observe(time.Duration(rapid.IntRange(1, 1e9).Draw(t, "took")), rapid.IntRange(0, 2).Draw(t, "extra"), rapid.Bool().Draw(t, "failed"))
			}
			totals[i].Add(delta)
			parts[rapid.IntRange(0, 1).Draw(t, "flush")].AddReport(&seen[i], delta)
		}
		var want, got rollout.Counters
		for _, c := range totals {
			want.AddClient(c)
		}
		got.Add(parts[0])
		got.Add(parts[1])
		if diff := cmp.Diff(want.Spread, got.Spread, near); diff != "" {
			t.Fatal(diff)
		}
		if want.Calls != got.Calls || want.Failures != got.Failures || want.Latency.Count() != got.Latency.Count() {
			t.Fatalf("want %+v, got %+v", want, got)
		}
	})
}
