package ui

import (
	"slices"
	"testing"
	"time"

	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
)

func TestFiguresAreWrittenForPeople(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0 %", 0.0004: "0.04 %", 0.052: "5.2 %", 0.126: "13 %", 0.9949: "99.5 %", 0.996: "99.6 %", 0.99999: "99.9 %", 1: "100 %",
	} {
		if got := percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
	for s, want := range map[float64]string{
		0: "0 s", 0.0004: "0.4 ms", 0.0351: "35 ms", 0.9994: "999 ms", 0.9996: "1 s", 1.24: "1.2 s", 59.7: "1 min", 200: "3 min 20 s", 7500: "2 h 5 min", 273600: "3 d 4 h",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v s: %s, want %s", s, got, want)
		}
	}
	for n, want := range map[any]string{0: "0", 999: "999", 1234567: "1,234,567", -1000: "−1,000", uint64(1 << 20): "1,048,576", "x": "x"} {
		if got := number(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

func TestU2AttemptsPerFinishedJobLeaveOutMinutesWithoutOne(t *testing.T) {
	h := &api.StatsHistory{Times: make([]time.Time, 16), Total: api.NewSeries(16)}
	h.Total.Amplification[3], h.Total.Amplification[5] = 2, 1 // the other minutes have none
	for _, c := range newCharts(h, &span{length: time.Hour, together: 8}) {
		if values := c.Series[0].Values; c.ID == "amplification" && (*values[0] != 1.5 || values[1] != nil) {
			t.Errorf("%v and %v, want 1.5 and a gap", *values[0], values[1])
		}
	}
}

// TestU2ChartsCountJobsExactly: the figures above the charts of the overview do.
func TestU2ChartsCountJobsExactly(t *testing.T) {
	h := &api.StatsHistory{Times: make([]time.Time, 1), Total: api.NewSeries(1)}
	h.Total.Ready[0] = 12345
	for _, c := range newCharts(h, &span{length: time.Hour, together: 1}) {
		if s := c.Series[0]; c.ID == "backlog" && s.Last != "12,345" {
			t.Errorf("%s %s", s.Name, s.Last)
		}
	}
}

// TestU2ChartsGoForwardInTimeAfterTheClockWasSetBack: they begin at the step, as a line cannot lead back.
func TestU2ChartsGoForwardInTimeAfterTheClockWasSetBack(t *testing.T) {
	start := time.Unix(1e9, 0)
	h := &api.StatsHistory{Total: api.NewSeries(6)}
	for i, second := range []int{0, 10, 20, -3600, -3590, -3580} {
		h.Times = append(h.Times, start.Add(time.Duration(second)*time.Second))
		h.Total.Ready[i] = i
	}
	for _, c := range newCharts(h, &span{length: 15 * time.Minute, together: 1}) {
		if !slices.Equal(c.X, []float64{0, 10, 20}) || c.Start != start.Add(-time.Hour).Unix() || c.ID == "backlog" && *c.Series[0].Values[0] != 3 {
			t.Errorf("%s: %v from %d", c.ID, c.X, c.Start)
		}
	}
}

// TestU4ALatencyThatIsNotKnownYetDoesNotSayThatThereAreNoCalls: there may be calls, of clients with fewer than 20 each.
func TestU4ALatencyThatIsNotKnownYetDoesNotSayThatThereAreNoCalls(t *testing.T) {
	if v := newMeasureView(rollout.Measure{Name: rollout.ReasonLatency, Finding: rollout.Unknown}); v.Known || v.Finding != "too few calls yet" {
		t.Errorf("%+v", v)
	}
}
