package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestP8TighteningNarrowsBoundsAndDefaults(t *testing.T) {
	l, found := CallLimits().Tighten(Tightening{MaxAttempts: 2, MinBackoff: 20 * ms, MaxBackoffCap: 100 * ms, MaxMultiplier: 1.5, MaxHedges: 2, MinHedgeDelay: time.Second})
	if len(found) != 0 {
		t.Fatal(found)
	}
	want := CallLimits()
	want.Attempts = Range[int]{Default: 2, Min: 1, Max: 2}
	want.Backoff = Range[time.Duration]{Default: 20 * ms, Min: 20 * ms, Max: 100 * ms}
	want.Cap = Range[time.Duration]{Default: 100 * ms, Min: 20 * ms, Max: 100 * ms}
	want.Multiplier = Range[float64]{Default: 1.5, Min: 1, Max: 1.5}
	want.Hedges.Max = 2
	want.HedgeDelay.Min, want.HedgeDelay.Default = time.Second, time.Second
	if diff := cmp.Diff(want, l); diff != "" {
		t.Error(diff)
	}
	if same, found := JobLimits().Tighten(Tightening{}); len(found) != 0 || !cmp.Equal(same, JobLimits()) {
		t.Errorf("nothing to tighten: %v %+v", found, same)
	}
}

func TestP8TighteningNeverWidens(t *testing.T) {
	l, found := CallLimits().Tighten(Tightening{MaxAttempts: 11, MinBackoff: 1, MaxBackoffCap: time.Hour, MaxMultiplier: 11, MaxHedges: 4, MinHedgeDelay: time.Hour})
	want := []string{
		"max_attempts: would widen the limit of 10", "min_backoff: would widen the limit of 1ms", "max_backoff_cap: would widen the limit of 1m0s",
		"max_backoff_multiplier: would widen the limit of 10", "max_hedges: would widen the limit of 3", "min_hedge_delay: is above the highest allowed value 1m0s",
	}
	if diff := cmp.Diff(want, lines(found)); diff != "" || !cmp.Equal(l, CallLimits()) {
		t.Errorf("%s %+v", diff, l)
	}
	_, found = CallLimits().Tighten(Tightening{MaxBackoffCap: 1, MinBackoff: 2 * time.Minute})
	if diff := cmp.Diff([]string{"min_backoff: is above the highest allowed value 1m0s", "max_backoff_cap: is below the lowest allowed value 1ms"}, lines(found)); diff != "" {
		t.Error(diff)
	}
	_, found = CallLimits().Tighten(Tightening{MaxBackoffCap: time.Second, MinBackoff: 2 * time.Second})
	if diff := cmp.Diff([]string{"min_backoff: is above max_backoff_cap"}, lines(found)); diff != "" {
		t.Error(diff)
	}
}

func TestP8ATightenedStepHasACap(t *testing.T) {
	l, found := StepLimits().Tighten(Tightening{MaxBackoffCap: time.Minute, MinBackoff: time.Second})
	if len(found) != 0 {
		t.Fatal(found)
	}
	for _, r := range []Retry{{}, {InitialBackoff: 30 * time.Second}, {InitialBackoff: time.Hour, MaxBackoff: time.Hour}} {
		p, err := (Policy{Retry: r}).Normalize(l)
		if err != nil || p.Retry.MaxBackoff != time.Minute || p.Retry.InitialBackoff < time.Second || p.Retry.InitialBackoff > time.Minute {
			t.Errorf("%+v: %+v %v", r, p.Retry, err)
		}
	}
	if l, _ := StepLimits().Tighten(Tightening{MinBackoff: time.Second}); l.Cap.Default != 0 {
		t.Errorf("a shortest backoff gave steps a cap of %v", l.Cap.Default)
	}
}
