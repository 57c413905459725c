package rollout_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/rollout"
)

func TestS2ParseSteps(t *testing.T) {
	steps, err := rollout.ParseSteps(" 1%, 2.5 %,100%", time.Minute)
	want := []rollout.Step{{Share: 0.01, Hold: time.Minute}, {Share: 0.025, Hold: time.Minute}, {Share: 1, Hold: time.Minute}}
	if diff := cmp.Diff(want, steps); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, text := range []string{"", "10", "x%", "0%", "-1%", "101%", "NaN%", "10%,1%", "10%,"} {
		if steps, err := rollout.ParseSteps(text, 0); err == nil {
			t.Errorf("%q was read as %v", text, steps)
		}
	}
}

func TestS2PlanDefaults(t *testing.T) {
	plan := rollout.Plan{}.WithDefaults()
	if err := plan.Validate(); err != nil {
		t.Error(err)
	}
	steps, err := rollout.ParseSteps("1%,10%,50%,100%", rollout.DefaultHold)
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		steps[i].MinSamples = rollout.DefaultMinSamples
	}
	want := rollout.Plan{
		Steps:      steps,
		Thresholds: rollout.Thresholds{FailureShare: 0.01, ExtraAttempts: 0.05, Latency: 0.25, Openings: 0.005},
		Confidence: 0.999,
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Error(diff)
	}
	own := rollout.Plan{Steps: []rollout.Step{{Share: 0.5}}}
	own.WithDefaults()
	if own.Steps[0].Hold != 0 {
		t.Error("WithDefaults changed its receiver")
	}
}

func TestS2PlanFaultsHavePaths(t *testing.T) {
	nan := math.NaN()
	plan := rollout.Plan{
		Steps: []rollout.Step{
			{Share: 0.5}, {}, {Share: 0.1}, {Share: 1.1}, {Share: nan}, {Share: -0.1},
			{Labels: map[string]string{"": "x", "zone": ""}}, {Share: 1, Hold: -1, MinSamples: -1},
		},
		Thresholds: rollout.Thresholds{FailureShare: -1, ExtraAttempts: nan, Latency: 1e7, Openings: 1e-7},
		Confidence: 1,
	}
	var faults *policy.ValidationError
	if !errors.As(plan.Validate(), &faults) {
		t.Fatal("the plan is valid")
	}
	var paths []string
	for _, v := range faults.Violations {
		paths = append(paths, v.Path)
	}
	want := []string{
		"steps[1].share", "steps[2].share", "steps[3].share", "steps[4].share", "steps[5].share",
		"steps[6].labels", "steps[6].labels", "steps[7].hold", "steps[7].min_samples",
		"thresholds.failure_share", "thresholds.extra_attempts", "thresholds.latency", "thresholds.openings", "confidence",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}

func TestS2PlanAsJSON(t *testing.T) {
	const text = `{"steps":[{"share":0.01,"hold":90,"min_samples":500},{"labels":{"zone":"a"},"hold":0.25},{"share":1}],"thresholds":{"latency":0.5},"confidence":0.99}`
	var plan rollout.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(plan); err != nil || string(out) != text {
		t.Error(err, string(out))
	}
	for hold, want := range map[string]time.Duration{`"5m"`: 5 * time.Minute, `1.5`: 1500 * time.Millisecond, `null`: 0} {
		var step rollout.Step
		if err := json.Unmarshal([]byte(`{"share":1,"hold":`+hold+`}`), &step); err != nil || step.Hold != want {
			t.Errorf("hold %s: %v %v", hold, step.Hold, err)
		}
	}
	for _, bad := range []string{`{"hold":"soon"}`, `{"hold":[]}`, `{"hold":1e300}`, `{"shares":1}`, `{"share":"all"}`} {
		if err := json.Unmarshal([]byte(bad), new(rollout.Step)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// TestS2AssignVectors freezes the assignment: clients in other languages follow it.
func TestS2AssignVectors(t *testing.T) {
	for _, v := range []struct {
		client string
		seed   uint64
		want   float64
	}{
		{"", 0, 0.6848974799809221},
		{"client-1", 0, 0.43167745559135695},
		{"client-1", 1, 0.7419229455073443},
		{"client-2", 1, 0.5808865452285301},
		{"orders-7f9c/é", math.MaxUint64, 0.7954372964367917},
	} {
		if got := rollout.Assign(v.client, v.seed); got != v.want {
			t.Errorf("%q, %d: %.17g, want %.17g", v.client, v.seed, got, v.want)
		}
	}
}

// TestS2SharesAreNested: a client of a step stays selected in every later one, and a share selects about its share.
func TestS2SharesAreNested(t *testing.T) {
	plan := rollout.Plan{Steps: []rollout.Step{{Labels: map[string]string{"zone": "a", "tier": "1"}}, {Share: 0.01}, {Share: 0.1}, {Labels: map[string]string{"zone": "b"}, Share: 0.5}, {Share: 1}}}
	rapid.Check(t, func(t *rapid.T) {
		labels := map[string]string{"zone": rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone"), "tier": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "tier")}
		place := rollout.Assign(rapid.String().Draw(t, "client"), rapid.Uint64().Draw(t, "seed"))
		if place < 0 || place >= 1 {
			t.Fatalf("place %g", place)
		}
		was := false
		for step := range plan.Steps {
			is := plan.Selects(step, place, labels)
			if was && !is {
				t.Fatalf("step %d drops a client", step)
			}
			was = is
		}
		if !was {
			t.Fatal("the step of all clients leaves one out")
		}
		if plan.Selects(0, place, labels) != (labels["zone"] == "a" && labels["tier"] == "1") {
			t.Fatal("step 0 does not select by its labels")
		}
	})
	selected := 0
	for i := range 20000 {
		if rollout.Assign(string(rune('a'+i%26))+time.Duration(i).String(), 42) < 0.1 {
			selected++
		}
	}
	if selected < 1850 || selected > 2150 {
		t.Errorf("a share of 10 %% selects %d of 20000", selected)
	}
}
