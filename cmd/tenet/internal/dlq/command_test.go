package dlq

import (
	"testing"

	"github.com/tenetdev/tenet/job"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{"10/s": 10, "120/min": 2, "0.5/s": 0.5, "36/h": 0.01} {
		if got, err := parseRate("RATE", text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "none", "10", "10/", "0/s", "-1/s", "NaN/s", "x/s", "1/day", "1e9/s", "1/h", "Inf/s"} {
		if got, err := parseRate("RATE", text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestPlans(t *testing.T) {
	f := planFlags{rate: "10/s", canary: "5%", stopAt: "20%", stopLeast: 3, maxPending: 7}
	n, err := f.plan()
	want := job.RedrivePlan{Rate: 10, StopShare: 0.2, StopLeast: 3, MaxPending: 7}
	if err != nil || n.RedrivePlan != want || n.CanaryShare != 0.05 {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := (&planFlags{canary: "20", stopAt: "0.5"}).plan(); err != nil || n.Canary != 20 || n.StopShare != 0.5 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, f := range []planFlags{{canary: "-1"}, {canary: "0%"}, {canary: "x"}, {canary: "101%"}, {stopAt: "0"}, {stopAt: "20"}, {stopAt: "NaN%"}, {stopLeast: -1}, {maxPending: -1}} {
		if n, err := f.plan(); err == nil {
			t.Errorf("%+v: %+v", f, n)
		}
	}
}
