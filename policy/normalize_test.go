package policy

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

func normal(t *testing.T, p Policy, l Limits) Policy {
	t.Helper()
	got, err := p.Normalize(l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestP9DefaultPolicy(t *testing.T) {
	key := ParseKey("a.B")
	got := DefaultPolicyFor(key)
	want := Policy{Key: key, Meta: got.Meta, Retry: Retry{
		MaxAttempts: 3, InitialBackoff: 10 * ms, BackoffMultiplier: 2, MaxBackoff: 250 * ms, Jitter: JitterFull, MaxPushback: time.Minute,
	}, Hedge: Hedge{MaxHedges: 1, HedgeDelay: 200 * ms}} // not enabled
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Meta{})); diff != "" || got.Meta.Source != SourceDefault {
		t.Errorf("%s source %s", diff, got.Meta.Source)
	}
}

func TestP8DefaultsOfEachSurface(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		want   Retry
	}{
		"calls": {CallLimits(), Retry{MaxAttempts: 3, InitialBackoff: 10 * ms, MaxBackoff: 250 * ms, BackoffMultiplier: 2, Jitter: JitterFull, MaxPushback: time.Minute}},
		"jobs": {JobLimits(), Retry{MaxAttempts: 25, InitialBackoff: 200 * ms, MaxBackoff: 5 * time.Second, BackoffMultiplier: 2,
			Jitter: JitterProportional, JitterFactor: 0.2, MaxPushback: 7 * day}},
		"steps": {StepLimits(), Retry{MaxAttempts: 1, BackoffMultiplier: 1, Jitter: JitterNone, MaxPushback: time.Minute}},
	} {
		if diff := cmp.Diff(c.want, normal(t, Policy{}, c.limits).Retry); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if LimitsFor(c.limits.Surface).Attempts != c.limits.Attempts {
			t.Errorf("LimitsFor(%s) gives other limits", c.limits.Surface)
		}
	}
	if m := normal(t, Policy{Retry: Retry{InitialBackoff: ms}}, StepLimits()).Retry.BackoffMultiplier; m != 2 {
		t.Errorf("a step with a backoff has multiplier %g", m)
	}
}

func TestP8ClampsAreRecordedOnce(t *testing.T) {
	p := Policy{
		Retry: Retry{
			MaxAttempts: -1, InitialBackoff: -1, MaxBackoff: time.Hour, BackoffMultiplier: 0.5, Jitter: JitterProportional, JitterFactor: 2,
			TimeoutPerAttempt: 1, OverallTimeout: -1, MaxPushback: -1, Budget: BudgetRef{Name: "b", Cost: -1},
		},
		Hedge:   Hedge{Enabled: true, MaxHedges: 9, HedgeDelay: ms, MaxExtraLoad: 3, Budget: BudgetRef{Name: "b"}},
		Circuit: Circuit{Kind: CircuitRate, FailureRate: 7, Window: 48 * time.Hour, Cooldown: 1, MinimumCalls: -4},
	}
	got := normal(t, p, CallLimits())
	want := Policy{
		Retry: Retry{
			MaxAttempts: 1, InitialBackoff: 10 * ms, MaxBackoff: time.Minute, BackoffMultiplier: 1, Jitter: JitterProportional, JitterFactor: 1,
			TimeoutPerAttempt: ms, MaxPushback: time.Minute, Budget: BudgetRef{Name: "b", Cost: 1},
		},
		Hedge:   Hedge{Enabled: true, MaxHedges: 3, HedgeDelay: 10 * ms, TriggerName: TriggerFixed, MaxExtraLoad: 1, Budget: BudgetRef{Name: "b", Cost: 1}},
		Circuit: Circuit{Kind: CircuitRate, FailureRate: 1, Window: time.Hour, Cooldown: 100 * ms, MinimumCalls: 1, Probes: 1},
		Meta: Meta{
			normal:    true,
			Defaulted: []string{"retry.max_pushback", "hedge.trigger", "hedge.budget.cost", "circuit.probes"},
			Clamped: []string{
				"retry.max_attempts", "retry.backoff", "retry.backoff_cap", "retry.backoff_multiplier", "retry.jitter_factor", "retry.timeout", "retry.overall_timeout",
				"retry.budget.cost", "hedge.max_hedges", "hedge.delay", "hedge.max_extra_load",
				"circuit.cooldown", "circuit.failure_rate", "circuit.minimum_calls", "circuit.window",
			},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Meta{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(got, normal(t, got, CallLimits()), cmp.AllowUnexported(Meta{})); diff != "" {
		t.Errorf("normalising again changed: %s", diff)
	}
}

func TestP8Circuits(t *testing.T) {
	for kind, want := range map[CircuitKind]Circuit{
		CircuitConsecutive: {Kind: CircuitConsecutive, Failures: 5, Cooldown: 10 * time.Second, Probes: 1},
		CircuitRate:        {Kind: CircuitRate, FailureRate: 0.5, MinimumCalls: 20, Window: 10 * time.Second, Cooldown: 10 * time.Second, Probes: 1},
		CircuitSlow: {Kind: CircuitSlow, SlowRate: 0.5, SlowAfter: time.Second, MinimumCalls: 20, Window: 10 * time.Second,
			Cooldown: 10 * time.Second, Probes: 1},
		"": {},
	} {
		if diff := cmp.Diff(want, normal(t, Policy{Circuit: Circuit{Kind: kind}}, CallLimits()).Circuit); diff != "" {
			t.Errorf("%q: %s", kind, diff)
		}
	}
	nan := normal(t, Policy{Circuit: Circuit{Kind: CircuitRate, FailureRate: math.NaN()}}, CallLimits()).Circuit
	low := normal(t, Policy{Circuit: Circuit{Kind: CircuitSlow, SlowRate: -1}}, CallLimits()).Circuit
	if nan.FailureRate != 0.5 || low.SlowRate != 0.5 {
		t.Errorf("rates %g and %g", nan.FailureRate, low.SlowRate)
	}
}

func TestP7NotANumberTakesTheDefault(t *testing.T) {
	nan := math.NaN()
	p := normal(t, Policy{Retry: Retry{BackoffMultiplier: nan, Jitter: JitterProportional, JitterFactor: nan}, Hedge: Hedge{Enabled: true, MaxExtraLoad: nan}}, CallLimits())
	if p.Retry.BackoffMultiplier != 2 || p.Retry.JitterFactor != 0.1 || p.Hedge.MaxExtraLoad != 0 {
		t.Errorf("%+v", p)
	}
}

// TestP1DisabledFieldsCanBeWritten: JSON has neither NaN nor infinity, and a policy's hash also covers disabled fields.
func TestP1DisabledFieldsCanBeWritten(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		p := Policy{Hedge: Hedge{MaxExtraLoad: f}, Circuit: Circuit{FailureRate: f, SlowRate: f}}
		compiled, err := Compile(p, CallLimits(), SourceStatic)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(compiled.Meta.Defaulted, "circuit.failure_rate") {
			t.Errorf("defaulted: %v", compiled.Meta.Defaulted)
		}
	}
}

func TestP7UnknownEnumsAreErrors(t *testing.T) {
	for field, p := range map[string]Policy{
		"retry.jitter": {Retry: Retry{Jitter: "wild"}},
		"circuit.kind": {Circuit: Circuit{Kind: "wild"}},
	} {
		got, err := p.Normalize(CallLimits())
		var unknown *NormalizeError
		if !errors.As(err, &unknown) || unknown.Field != field || unknown.Value != "wild" || len(unknown.Known) < 3 {
			t.Errorf("%s: %v", field, err)
		}
		if diff := cmp.Diff(Policy{}, got, cmp.AllowUnexported(Meta{})); diff != "" {
			t.Errorf("%s: not a zero policy: %s", field, diff)
		}
		if _, err := Compile(p, CallLimits(), SourceStatic); !errors.As(err, &unknown) || err.Error() == "" {
			t.Errorf("Compile: %v", err)
		}
	}
	bad := Retry{Jitter: "wild"}
	if _, err := (Consumer{Steps: ConsumerSteps{Process: Step{Retry: bad}}}).Normalize(StepLimits()); err == nil {
		t.Error("a consumer with an unknown jitter was accepted")
	}
	if _, err := (Producer{Steps: ProducerSteps{Success: Step{Retry: bad}}}).Normalize(StepLimits()); err == nil {
		t.Error("a producer with an unknown jitter was accepted")
	}
}

func TestP8StepsMayHaveNoBackoff(t *testing.T) {
	r := normal(t, Policy{Retry: Retry{MaxAttempts: 5, InitialBackoff: -ms, MaxBackoff: -ms, OverallTimeout: time.Second}}, StepLimits())
	if r.Retry.InitialBackoff != 0 || r.Retry.MaxBackoff != 0 || r.Retry.OverallTimeout != 0 {
		t.Errorf("%+v", r.Retry)
	}
	if diff := cmp.Diff([]string{"retry.backoff", "retry.backoff_cap", "retry.overall_timeout"}, r.Meta.Clamped); diff != "" {
		t.Error(diff)
	}
	long := normal(t, Policy{Retry: Retry{InitialBackoff: 30 * day, MaxBackoff: day}}, StepLimits()).Retry
	if long.InitialBackoff != 30*day || long.MaxBackoff != day {
		t.Errorf("%+v", long)
	}
}

func TestP8ACapBelowTheBackoffIsRaisedForCallsAndWinsElsewhere(t *testing.T) {
	given := Policy{Retry: Retry{InitialBackoff: 5 * time.Second, MaxBackoff: 3 * time.Second}}
	for surface, want := range map[Surface]time.Duration{SurfaceCall: 5 * time.Second, SurfaceJob: 3 * time.Second, SurfaceStep: 3 * time.Second} {
		p := normal(t, given, LimitsFor(surface))
		if p.Retry.MaxBackoff != want || p.Retry.InitialBackoff != 5*time.Second || slices.Contains(p.Meta.Clamped, "retry.backoff_cap") != (surface == SurfaceCall) {
			t.Errorf("%s: %+v, %+v", surface, p.Retry, p.Meta)
		}
		if warned := given.Check(LimitsFor(surface)); len(warned) != 1 || !warned[0].Warning || warned[0].Path != "retry.backoff_cap" {
			t.Errorf("%s: warnings %v", surface, warned)
		}
	}
	absent := Policy{Retry: Retry{InitialBackoff: 10 * time.Second}}
	for surface, want := range map[Surface]time.Duration{SurfaceCall: 10 * time.Second, SurfaceJob: 10 * time.Second, SurfaceStep: 0} {
		if p := normal(t, absent, LimitsFor(surface)); p.Retry.MaxBackoff != want || len(p.Meta.Clamped) != 0 {
			t.Errorf("%s: a default cap shortens the wait: %+v, %+v", surface, p.Retry, p.Meta)
		}
	}
}

func TestP8EmptyQueueWaits(t *testing.T) {
	for name, c := range map[string]struct{ in, want EmptyQueue }{
		"absent":                   {EmptyQueue{}, EmptyQueue{Backoff: time.Second, BackoffMultiplier: 2, BackoffCap: time.Minute}},
		"cap below backoff":        {EmptyQueue{Backoff: 5 * time.Second, BackoffCap: 3 * time.Second}, EmptyQueue{Backoff: 5 * time.Second, BackoffMultiplier: 2, BackoffCap: 3 * time.Second}},
		"backoff over default cap": {EmptyQueue{Backoff: 2 * time.Minute}, EmptyQueue{Backoff: 2 * time.Minute, BackoffMultiplier: 2, BackoffCap: 2 * time.Minute}},
		"no cap":                   {EmptyQueue{BackoffCap: Unbounded, BackoffMultiplier: 100}, EmptyQueue{Backoff: time.Second, BackoffMultiplier: 100, BackoffCap: Unbounded}},
		"busy loop":                {EmptyQueue{Backoff: 1, BackoffCap: 1}, EmptyQueue{Backoff: 10 * ms, BackoffMultiplier: 2, BackoffCap: 10 * ms}},
	} {
		got, err := Consumer{Loop: ConsumerLoop{EmptyQueue: c.in}}.Normalize(StepLimits())
		if diff := cmp.Diff(c.want, got.Loop.EmptyQueue); diff != "" || err != nil {
			t.Errorf("%s: %s %v", name, diff, err)
		}
	}
	warned := Consumer{Loop: ConsumerLoop{EmptyQueue: EmptyQueue{Backoff: 2, BackoffCap: 1}}}.Check(StepLimits())
	want := []string{
		"loop.empty_queue.backoff: 2ns is below the limit and is raised to 10ms (warning)",
		"loop.empty_queue.backoff_cap: 1ns is below the limit and is raised to 10ms (warning)",
		"loop.empty_queue.backoff_cap: 1ns is below the backoff of 2ns and wins: no wait is longer (warning)",
	}
	if diff := cmp.Diff(want, lines(warned)); diff != "" {
		t.Error(diff)
	}
}

func anyRetry() *rapid.Generator[Retry] {
	durations := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }))
	floats := rapid.OneOf(rapid.Just(0.0), rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)))
	return rapid.Custom(func(t *rapid.T) Retry {
		return Retry{
			MaxAttempts: rapid.Int().Draw(t, "attempts"), InitialBackoff: durations.Draw(t, "backoff"), MaxBackoff: durations.Draw(t, "cap"),
			BackoffMultiplier: floats.Draw(t, "multiplier"), JitterFactor: floats.Draw(t, "factor"),
			Jitter:            rapid.SampledFrom([]Jitter{"", JitterNone, JitterFull, JitterProportional}).Draw(t, "jitter"),
			TimeoutPerAttempt: durations.Draw(t, "timeout"), OverallTimeout: durations.Draw(t, "overall"), MaxPushback: durations.Draw(t, "pushback"),
			Budget: BudgetRef{Name: rapid.SampledFrom([]string{"", "b"}).Draw(t, "budget"), Cost: rapid.Int().Draw(t, "cost")},
		}
	})
}

func TestP7NormalizeIsSafeAndIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := LimitsFor(rapid.SampledFrom([]Surface{SurfaceCall, SurfaceJob, SurfaceStep}).Draw(t, "surface"))
		p := Policy{Retry: anyRetry().Draw(t, "retry"), Category: rapid.SampledFrom([]Category{"", KVGet, "ODD"}).Draw(t, "category")}
		once, err := p.Normalize(l)
		if err != nil {
			t.Fatal(err)
		}
		r := once.Retry
		if r.MaxAttempts < l.Attempts.Min || r.MaxAttempts > l.Attempts.Max || r.InitialBackoff < l.Backoff.Min || r.InitialBackoff > l.Backoff.Max ||
			r.MaxBackoff > l.Cap.Max || r.MaxBackoff < 0 || (l.Surface == SurfaceCall && r.MaxBackoff < r.InitialBackoff) ||
			!(r.BackoffMultiplier >= 1 && r.BackoffMultiplier <= l.Multiplier.Max) || !(r.JitterFactor >= 0 && r.JitterFactor <= 1) ||
			r.TimeoutPerAttempt < 0 || r.OverallTimeout < 0 || r.MaxPushback <= 0 || r.Budget.Cost < 0 {
			t.Fatalf("unsafe: %+v", r)
		}
		twice, err := once.Normalize(l)
		if diff := cmp.Diff(once, twice, cmp.AllowUnexported(Meta{})); diff != "" || err != nil {
			t.Fatalf("twice: %v %s", err, diff)
		}
		once.Category = "" // Validate rejects an unknown one
		if err := once.Validate(l); err != nil {
			t.Fatalf("the normalized policy is invalid: %v", err)
		}
	})
}

func TestP7EachFieldIsNotedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := LimitsFor(rapid.SampledFrom([]Surface{SurfaceCall, SurfaceJob, SurfaceStep}).Draw(t, "surface"))
		if rapid.Bool().Draw(t, "tight") {
			l.Cap.Max = time.Minute
		}
		p := Policy{Retry: anyRetry().Draw(t, "retry"), Hedge: Hedge{Enabled: rapid.Bool().Draw(t, "hedged"), MaxHedges: rapid.Int().Draw(t, "hedges")}}
		once, err := p.Normalize(l)
		if err != nil {
			t.Fatal(err)
		}
		once.Retry.MaxAttempts, once.Retry.InitialBackoff = rapid.Int().Draw(t, "attempts, edited"), time.Duration(rapid.Int64().Draw(t, "backoff, edited"))
		twice, err := once.Normalize(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []Meta{once.Meta, twice.Meta} {
			all := slices.Sorted(slices.Values(slices.Concat(m.Defaulted, m.Clamped)))
			if len(slices.Compact(slices.Clone(all))) != len(all) {
				t.Fatalf("defaulted %v, clamped %v", m.Defaulted, m.Clamped)
			}
		}
	})
	p := normal(t, Policy{Retry: Retry{InitialBackoff: time.Second}}, CallLimits())
	if p.Retry.MaxBackoff != time.Second || !slices.Contains(p.Meta.Defaulted, "retry.backoff_cap") || len(p.Meta.Clamped) > 0 {
		t.Errorf("a defaulted cap: %+v", p.Meta)
	}
	p.Retry.MaxAttempts = 500
	if m := normal(t, p, CallLimits()).Meta; slices.Contains(m.Defaulted, "retry.max_attempts") || !slices.Contains(m.Clamped, "retry.max_attempts") {
		t.Errorf("an edited default: %+v", m)
	}
}

func TestP8HedgesAreClampedWhetherOrNotHedgingIsOn(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		in := Policy{Hedge: Hedge{Enabled: enabled, MaxHedges: 99, HedgeDelay: 1, MaxExtraLoad: 7}}
		p := normal(t, in, CallLimits())
		if p.Hedge.MaxHedges != 3 || p.Hedge.HedgeDelay != 10*ms || p.Hedge.MaxExtraLoad != 1 {
			t.Errorf("enabled %v: %+v", enabled, p.Hedge)
		}
		if diff := cmp.Diff([]string{"hedge.max_hedges", "hedge.delay", "hedge.max_extra_load"}, p.Meta.Clamped); diff != "" {
			t.Error(diff)
		}
		if warned := in.Check(CallLimits()); len(warned) < 2 || !warned[0].Warning && !warned[1].Warning {
			t.Errorf("enabled %v: the strict reading says %v", enabled, warned)
		}
	}
	if p := normal(t, Policy{Hedge: Hedge{MaxHedges: -1}}, CallLimits()); p.Hedge.MaxHedges != 1 {
		t.Errorf("%+v", p.Hedge)
	}
}

func TestP8AbsentHedgeFieldsOfCallsHaveDefaultsWhetherOrNotHedgingIsOn(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		p := normal(t, Policy{Hedge: Hedge{Enabled: enabled}}, CallLimits())
		if p.Hedge.MaxHedges != 1 || p.Hedge.HedgeDelay != 200*ms || p.Hedge.Enabled != enabled {
			t.Errorf("enabled %v: %+v", enabled, p.Hedge)
		}
		for _, field := range []string{"hedge.max_hedges", "hedge.delay"} {
			if !slices.Contains(p.Meta.Defaulted, field) {
				t.Errorf("enabled %v: %s is not among %v", enabled, field, p.Meta.Defaulted)
			}
		}
	}
	for _, limits := range []Limits{JobLimits(), StepLimits()} {
		if p := normal(t, Policy{}, limits); p.Hedge != (Hedge{}) {
			t.Errorf("%s: hedging that nothing mentions became %+v", limits.Surface, p.Hedge)
		}
	}
}

func TestP7AChangedCopyIsNoLongerCompiled(t *testing.T) {
	compiled, err := Compile(Policy{Retry: Retry{RetryOn: []Class{ClassTLS}}, Circuit: Circuit{Kind: CircuitRate}}, CallLimits(), SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	same := *compiled
	same.Key, same.Meta.Source = ParseKey("a.B"), SourceLKG
	if !same.Compiled() {
		t.Error("a copy under another key and source is not compiled")
	}
	for name, change := range map[string]func(*Policy){
		"retry":        func(p *Policy) { p.Retry.MaxAttempts = 500 },
		"backoff":      func(p *Policy) { p.Retry.InitialBackoff = 0 },
		"hedge":        func(p *Policy) { p.Hedge = Hedge{Enabled: true, MaxHedges: 50} },
		"circuit":      func(p *Policy) { p.Circuit.Cooldown = 0 },
		"list":         func(p *Policy) { p.Retry.RetryOn = []Class{ClassEOF} },
		"list, inside": func(p *Policy) { p.Retry.RetryOn[0] = ClassEOF },
	} {
		changed := *compiled
		change(&changed)
		if changed.Compiled() {
			t.Errorf("%s: still marked as compiled", name)
		}
		compiled.Retry.RetryOn[0] = ClassTLS
	}
}

func TestP1NormalizeAndCompileLeaveTheirInputAlone(t *testing.T) {
	in := Policy{Retry: Retry{RetryOn: []Class{ClassTLS}, MaxAttempts: 99}, Meta: Meta{Clamped: make([]string, 0, 8)}}
	p, err := Compile(in, CallLimits(), SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	if clone := p.Clone(); !p.Compiled() || p.Meta.Source != SourceStatic || clone.Compiled() {
		t.Errorf("meta %+v", p.Meta)
	}
	p.Retry.RetryOn[0] = "changed"
	if in.Retry.RetryOn[0] != ClassTLS || in.Retry.MaxAttempts != 99 || len(in.Meta.Clamped[:1][0]) != 0 {
		t.Errorf("changed: %+v", in)
	}
	if again, _ := p.Revise(); again != p.Meta.Revision && p.Retry.RetryOn[0] == ClassTLS {
		t.Errorf("revision %s, want %s", p.Meta.Revision, again)
	}
}

func TestP10EqualPoliciesHaveEqualRevisions(t *testing.T) {
	a, _ := Compile(Policy{Key: ParseKey("a"), Retry: Retry{MaxAttempts: 3}}, CallLimits(), SourceFile)
	b, _ := Compile(Policy{Key: ParseKey("b")}, CallLimits(), SourceStatic)
	c, _ := Compile(Policy{Retry: Retry{MaxAttempts: 4}}, CallLimits(), SourceFile)
	if a.Meta.Revision != b.Meta.Revision || a.Meta.Revision == c.Meta.Revision || len(a.Meta.Revision) != 64 {
		t.Errorf("revisions %q %q %q", a.Meta.Revision, b.Meta.Revision, c.Meta.Revision)
	}
}

func TestL1NormalizePipelines(t *testing.T) {
	in := Consumer{
		Loop: ConsumerLoop{
			Batch: Batch{Size: 50, MaxSize: 20, Interval: -1}, Concurrency: Concurrency{Min: 4}, Timeout: -1, Limit: -1, TransactionTimeout: -1,
			EmptyQueue: EmptyQueue{Backoff: ms, BackoffMultiplier: 99, Interval: 1},
		},
		Steps: ConsumerSteps{Process: Step{Retry: Retry{MaxAttempts: 2000}}},
	}
	c, err := in.Normalize(StepLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := ConsumerLoop{
		Batch: Batch{Size: 20, MaxSize: 20}, Concurrency: Concurrency{Value: 4, Min: 4},
		EmptyQueue: EmptyQueue{Backoff: 10 * ms, BackoffMultiplier: 99, BackoffCap: time.Minute},
	}
	if diff := cmp.Diff(want, c.Loop); diff != "" {
		t.Error(diff)
	}
	if c.Steps.Process.Retry.MaxAttempts != 1000 || c.Steps.Exception.Retry.MaxAttempts != 1 || c.Steps.Fetch.Retry.Jitter != JitterNone {
		t.Errorf("%+v", c.Steps)
	}
	zero, err := Consumer{}.Normalize(StepLimits())
	if q := zero.Loop.EmptyQueue; err != nil || q != (EmptyQueue{Backoff: time.Second, BackoffMultiplier: 2, BackoffCap: time.Minute}) || zero.Loop.Batch.Size != 1 {
		t.Errorf("%+v %v", zero.Loop, err)
	}
	p, err := Producer{}.Normalize(StepLimits())
	if err != nil || p.Loop.Batch.Size != 1 || p.Loop.Concurrency.Value != 1 || p.Steps.Produce.Retry.MaxAttempts != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

// TestL11NormalizeCopiesExtraAtAnyDepth checks that changing a nested value of the result does not change the original policy.
func TestL11NormalizeCopiesExtraAtAnyDepth(t *testing.T) {
	extra := func() map[string]any {
		return map[string]any{"queue": "q", "none": nil, "where": map[string]any{"shards": []any{1, []string{"a"}, nil}, "empty": map[string]int(nil)}}
	}
	given := Consumer{Steps: ConsumerSteps{Fetch: FetchStep{Extra: extra()}}}
	c, err := given.Normalize(StepLimits())
	if diff := cmp.Diff(extra(), c.Steps.Fetch.Extra); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	got := c.Steps.Fetch.Extra
	got["queue"] = "changed"
	where := got["where"].(map[string]any)
	where["empty"] = "changed"
	where["shards"].([]any)[1].([]string)[0] = "changed"
	where["shards"].([]any)[0] = "changed"
	if diff := cmp.Diff(extra(), given.Steps.Fetch.Extra); diff != "" {
		t.Error(diff)
	}
	if c, err := (Consumer{}).Normalize(StepLimits()); err != nil || c.Steps.Fetch.Extra != nil {
		t.Errorf("no extra became %v, %v", c.Steps.Fetch.Extra, err)
	}
}
