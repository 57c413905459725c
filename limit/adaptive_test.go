package limit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// TestB4VectorsOfTheAdaptiveLimit pins the arithmetic: limit' = limit · clamp(1.5 · unloaded / mean, 0.5, 1) + √limit.
func TestB4VectorsOfTheAdaptiveLimit(t *testing.T) {
	for name, c := range map[string]struct {
		before level
		limit  int
		sample sample
		after  level
		next   int
	}{
		"the first window":            {level{}, 20, sample{50 * ms, 20, false}, level{50 * ms, 1, 0, 0}, 24},
		"no queue":                    {level{50 * ms, 3, 0, 0}, 16, sample{60 * ms, 16, false}, level{50 * ms, 4, 0, 0}, 20},
		"latency doubled":             {level{50 * ms, 3, 0, 0}, 100, sample{100 * ms, 100, false}, level{50 * ms, 4, 0, 0}, 85},
		"at most halved":              {level{50 * ms, 3, 0, 2}, 100, sample{time.Second, 100, false}, level{50 * ms, 4, 0, 0}, 60},
		"half used, does not grow":    {level{50 * ms, 3, 0, 0}, 100, sample{60 * ms, 49, false}, level{50 * ms, 4, 0, 0}, 100},
		"half used, confirms":         {level{50 * ms, 3, 0, 2}, 100, sample{55 * ms, 49, false}, level{50 * ms, 0, 0, 3}, 100},
		"half used, but shrinks":      {level{50 * ms, 3, 0, 0}, 100, sample{300 * ms, 49, false}, level{50 * ms, 4, 0, 0}, 60},
		"a faster window":             {level{50 * ms, 3, 0, 0}, 16, sample{40 * ms, 16, false}, level{40 * ms, 4, 0, 0}, 20},
		"a probe begins":              {level{50 * ms, 19, 0, 0}, 16, sample{50 * ms, 16, false}, level{50 * ms, 0, 20, 0}, 8},
		"no probe while little is in": {level{50 * ms, 19, 0, 0}, 16, sample{60 * ms, 2, false}, level{50 * ms, 20, 0, 0}, 16},
		"a probe ends":                {level{50 * ms, 0, 20, 0}, 10, sample{70 * ms, 10, false}, level{70 * ms, 0, 0, 0}, 20},
		"a probe confirms":            {level{50 * ms, 0, 20, 0}, 10, sample{52 * ms, 10, false}, level{52 * ms, 0, 0, 1}, 20},
		"a probe confirms again":      {level{50 * ms, 0, 20, 3}, 10, sample{46 * ms, 10, false}, level{46 * ms, 0, 0, 3}, 20},
		"a confirmed latency changes": {level{50 * ms, 0, 20, 2}, 10, sample{70 * ms, 10, false}, level{70 * ms, 0, 0, 0}, 20},
		"no probe of the confirmed":   {level{50 * ms, 38, 0, 1}, 16, sample{50 * ms, 16, false}, level{50 * ms, 39, 0, 1}, 20},
		"a later probe":               {level{50 * ms, 39, 0, 1}, 16, sample{50 * ms, 16, false}, level{50 * ms, 0, 20, 1}, 8},
		"a probe finds a shorter one": {level{70 * ms, 0, 20, 0}, 10, sample{50 * ms, 10, false}, level{50 * ms, 19, 0, 0}, 20},
		"many timeouts":               {level{50 * ms, 3, 0, 0}, 100, sample{50 * ms, 100, true}, level{50 * ms, 3, 0, 0}, 50},
		"timeouts from the start":     {level{}, 20, sample{0, 20, true}, level{}, 10},
		"timeouts in a probe":         {level{50 * ms, 0, 20, 0}, 10, sample{70 * ms, 10, true}, level{50 * ms, 0, 0, 0}, 10},
		"a clock without steps":       {level{50 * ms, 3, 0, 0}, 16, sample{0, 16, false}, level{1, 4, 0, 0}, 20},
	} {
		after, next := c.before.after(c.limit, c.sample)
		if diff := cmp.Diff(c.after, after); next != c.next || diff != "" {
			t.Errorf("%s: limit %d, want %d %s", name, next, c.next, diff)
		}
	}
}

// TestB4TheAdaptiveLimitSettlesNearTheCapacity: the other side takes c attempts at a time, and beyond that latency grows in
// proportion. The limit settles between the capacity and 1.5 times the capacity and a margin for the growth by the root,
// from wherever it starts, and probes do not let it drift.
func TestB4TheAdaptiveLimitSettlesNearTheCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(4, 100).Draw(t, "capacity")
		limit := rapid.IntRange(1, 400).Draw(t, "initial")
		var v level
		for i := range 500 {
			mean := 50 * ms * time.Duration(max(limit, capacity)) / time.Duration(capacity)
			v, limit = v.after(limit, sample{Mean: mean, Peak: limit})
			if limit = min(max(limit, 1), 1000); i < 100 || v.Before > 0 {
				continue
			}
			if limit < capacity || limit > 2*capacity+12 {
				t.Fatalf("window %d: limit %d, capacity %d, %+v", i, limit, capacity, v)
			}
		}
	})
}
