package policy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestB4DefaultsOfALimit(t *testing.T) {
	for name, c := range map[string]struct{ given, want Limit }{
		"none":                    {Limit{}, Limit{}},
		"concurrency":             {Limit{Concurrency: 3}, Limit{Concurrency: 3}},
		"negative":                {Limit{Concurrency: -3, MaxWait: -1}, Limit{Concurrency: 1}},
		"rate":                    {Limit{Rate: Rate{Count: 50}}, Limit{Rate: Rate{Count: 50, Per: time.Second, Burst: 50}}},
		"rate out of range":       {Limit{Rate: Rate{Count: 2, Per: time.Microsecond, Burst: -1}}, Limit{Rate: Rate{2, time.Millisecond, 1}}},
		"adaptive":                {Limit{Adaptive: Adaptive{Enabled: true}}, Limit{Concurrency: 200, Adaptive: Adaptive{true, 1, 20}}},
		"adaptive, bounded":       {Limit{Concurrency: 10, Adaptive: Adaptive{Enabled: true}}, Limit{Concurrency: 10, Adaptive: Adaptive{true, 1, 10}}},
		"adaptive, out of bounds": {Limit{Concurrency: 10, Adaptive: Adaptive{true, 50, 1}}, Limit{Concurrency: 10, Adaptive: Adaptive{true, 10, 10}}},
		"adaptive, off":           {Limit{Adaptive: Adaptive{Min: -2, Initial: 5}}, Limit{Adaptive: Adaptive{Initial: 5}}},
		"too high":                {Limit{Concurrency: 1 << 40}, Limit{Concurrency: 1_000_000}},
	} {
		p, err := Policy{Limit: c.given}.Normalize(CallLimits())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, p.Limit); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		again, err := p.Normalize(CallLimits())
		if err != nil || again.Limit != p.Limit {
			t.Errorf("%s: normalised again: %+v, %v", name, again.Limit, err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var read Policy
		if err := json.Unmarshal(text, &read); err != nil || read.Limit != p.Limit {
			t.Errorf("%s: %s is read as %+v, %v", name, text, read.Limit, err)
		}
	}
}

func TestB4ViolationsOfALimit(t *testing.T) {
	for name, c := range map[string]struct {
		given Limit
		want  []string // paths
	}{
		"all well":                  {Limit{Concurrency: 5, MaxWait: 1, Rate: Rate{Count: 1}, Adaptive: Adaptive{true, 1, 5}}, nil},
		"ranges":                    {Limit{Concurrency: -1, MaxWait: -1, Rate: Rate{Count: -1}}, []string{"limit.concurrency", "limit.max_wait", "limit.rate.count"}},
		"a rate without a count":    {Limit{Rate: Rate{Burst: 2}}, []string{"limit.rate.count"}},
		"min above the highest":     {Limit{Concurrency: 5, Adaptive: Adaptive{true, 6, 0}}, []string{"limit.adaptive.min"}},
		"initial above the highest": {Limit{Adaptive: Adaptive{true, 0, 201}}, []string{"limit.adaptive.initial"}},
		"initial below min":         {Limit{Adaptive: Adaptive{true, 5, 4}}, []string{"limit.adaptive.initial"}},
		"a wait for nothing":        {Limit{MaxWait: 1}, []string{"limit.max_wait"}},
		"adaptive, but not enabled": {Limit{Adaptive: Adaptive{Min: 2}}, []string{"limit.adaptive"}},
	} {
		var paths []string
		for _, v := range (Policy{Limit: c.given}).Check(CallLimits()) {
			paths = append(paths, v.Path)
		}
		if diff := cmp.Diff(c.want, paths); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		step := Consumer{}
		step.Steps.Process.Limit = c.given
		if got := len(step.Check(StepLimits())); got != len(c.want) {
			t.Errorf("%s: %d violations in a step, want %d", name, got, len(c.want))
		}
	}
}

func TestB4AChangedLimitIsNotCompiled(t *testing.T) {
	p, err := Compile(Policy{Limit: Limit{Concurrency: 2}}, CallLimits(), SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	changed := *p
	changed.Limit.Concurrency = 3
	if !p.Compiled() || changed.Compiled() || (Policy{Limit: Limit{Concurrency: 2}}).IsZero() {
		t.Error("the limit does not count")
	}
}
