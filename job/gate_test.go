package job

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
)

// TestJ19TheRateBoundsEveryWindow starts jobs at random moments, whenever the rate allows it, late as claims are, and counts all windows.
func TestJ19TheRateBoundsEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := policy.Rate{
			Count: rapid.IntRange(1, 7).Draw(t, "count"), Per: time.Duration(rapid.IntRange(1000, 2_000_000).Draw(t, "per")) * time.Microsecond, Burst: rapid.IntRange(1, 5).Draw(t, "burst"),
		}
		gate := NewGate([]StoredLimit{{ID: 1, LimitState: LimitState{
			LimitName: LimitName{Queue: "q", Name: "x"}, Setting: &policy.JobLimit{Name: "x", Rate: rate},
		}}})
		name := gate.Needs(&Record{Queue: "q"})[0]
		l, b, now := gate.byID[1], &Bucket{Name: name}, Stamp(time.Unix(1_800_000_000, 0))
		var starts []time.Time
		for range 60 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(rate.Per/time.Microsecond)/2).Draw(t, "pause")) * time.Microsecond)
			b.Unstarted += rapid.IntRange(0, b.starts(l, now)).Draw(t, "places")
			for range rapid.IntRange(0, b.Unstarted).Draw(t, "starts") {
				b.start(l, now)
				starts = append(starts, now)
			}
		}
		for i, from := range starts {
			n := 0
			for _, at := range starts[i:] {
				if at.Sub(from) < rate.Per {
					n++
				}
			}
			if n > rate.Count+rate.Burst {
				t.Fatalf("%d starts within %v, the limit is %d and a burst of %d", n, rate.Per, rate.Count, rate.Burst)
			}
		}
	})
}

// TestJ19TheNextPlaceOfARateComesWhenItSays checks that Due names the first moment with a place.
func TestJ19TheNextPlaceOfARateComesWhenItSays(t *testing.T) {
	gate := NewGate([]StoredLimit{{ID: 1, LimitState: LimitState{
		LimitName: LimitName{Queue: "q", Name: "x"}, Setting: &policy.JobLimit{Name: "x", Rate: policy.Rate{Count: 3, Per: time.Second, Burst: 2}},
	}}})
	l, now := gate.byID[1], Stamp(time.Unix(1_800_000_000, 0))
	b := &Bucket{Name: gate.Needs(&Record{Queue: "q"})[0], Waiting: 5, Held: 2, Unstarted: 2}
	if due := gate.Due(b, now); !due.IsZero() {
		t.Errorf("due %v although only a start makes room", due)
	}
	b.start(l, now)
	b.start(l, now)
	due := gate.Due(b, now)
	if n := b.starts(l, due.Add(-time.Microsecond)); n != 0 {
		t.Errorf("%d places before the time that is due", n)
	}
	if n := b.starts(l, due); n != 1 {
		t.Errorf("%d places when they are due, want 1", n)
	}
}

func TestJ19KeysNeverCollide(t *testing.T) {
	gate := NewGate([]StoredLimit{{ID: 1, LimitState: LimitState{
		LimitName: LimitName{Queue: "q", Name: "x"}, Setting: &policy.JobLimit{Name: "x", Key: []string{"meta.a", "meta.b"}, Concurrency: 1},
	}}})
	seen := map[string]string{}
	for _, a := range []string{"", "x", "x meta.b:y", `x" meta.b:"y`, "x\ny", "*", `\`} {
		for _, b := range []string{"", "y", "y z", `"`, "\x00"} {
			key := gate.Needs(&Record{Queue: "q", Meta: map[string]string{"a": a, "b": b}})[0]
			if other, taken := seen[key]; taken {
				t.Errorf("%q and %q have the key %q", other, fmt.Sprintf("%q %q", a, b), key)
			}
			seen[key] = fmt.Sprintf("%q %q", a, b)
		}
	}
}
