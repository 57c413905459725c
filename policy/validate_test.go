package policy

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func lines(v []Violation) []string {
	var list []string
	for _, x := range v {
		mark := ""
		if x.Warning {
			mark = " (warning)"
		}
		list = append(list, x.Path+": "+x.Problem+mark)
	}
	return list
}

func TestP6EveryViolationIsReported(t *testing.T) {
	p := Policy{
		Category: "ODD",
		Retry: Retry{
			MaxAttempts: -1, InitialBackoff: -1, MaxBackoff: -1, BackoffMultiplier: math.Inf(1), Jitter: "wild", JitterFactor: math.NaN(),
			TimeoutPerAttempt: -1, OverallTimeout: -1, MaxPushback: -1, RetryOn: []Class{ClassTLS, ClassEOF}, AbortOn: []Class{ClassEOF}, Budget: BudgetRef{Cost: -1},
		},
		Hedge:   Hedge{Enabled: true, MaxHedges: -1, HedgeDelay: -1, MaxExtraLoad: 2, Budget: BudgetRef{Cost: 1}},
		Circuit: Circuit{FailureRate: 2, Window: -1, Probes: -1},
	}
	want := []string{
		`category: unknown value "ODD"`, "retry.max_attempts: -1 must be at least 1", "retry.backoff: -1ns must be at least 0",
		"retry.backoff_multiplier: +Inf not a finite number", "retry.backoff_cap: -1ns must be at least 0", `retry.jitter: unknown value "wild"`,
		"retry.jitter_factor: NaN not a finite number", "retry.timeout: -1ns must be greater than 0", "retry.overall_timeout: -1ns must be greater than 0",
		"retry.max_pushback: -1ns must be greater than 0", "retry.budget.cost: -1 must be at least 1",
		"hedge.max_hedges: -1 must be at least 1", "hedge.delay: -1ns must be greater than 0", "hedge.max_extra_load: 2 must be at most 1",
		"circuit.failure_rate: 2 must be at most 1", "circuit.window: -1ns must be greater than 0", "circuit.probes: -1 must be at least 1",
		"retry.jitter_factor: has no effect with jitter wild (warning)", "retry.budget.name: missing", `retry.retry_on: class "eof" is also in abort_on`,
		"hedge.budget.name: missing", "circuit.kind: missing",
	}
	if diff := cmp.Diff(want, lines(p.Check(CallLimits()))); diff != "" {
		t.Error(diff)
	}
	var invalid *ValidationError
	if err := p.Validate(CallLimits()); !errors.As(err, &invalid) || len(invalid.Violations) != len(want)-1 || strings.Count(err.Error(), "\n") != len(want)-2 {
		t.Errorf("%v", err)
	}
	if err := (Policy{}).Validate(CallLimits()); err != nil {
		t.Errorf("an empty policy: %v", err)
	}
}

func TestP8ValuesBeyondLimitsAreWarnings(t *testing.T) {
	p := Policy{
		Retry:   Retry{MaxAttempts: 11, InitialBackoff: 2 * time.Minute, MaxBackoff: 90 * time.Second, BackoffMultiplier: 11, TimeoutPerAttempt: 1, OverallTimeout: 1},
		Hedge:   Hedge{Enabled: true, MaxHedges: 4, HedgeDelay: ms},
		Circuit: Circuit{Kind: CircuitSlow, Cooldown: ms, Window: 2 * time.Hour},
	}
	want := []string{
		"retry.max_attempts: 11 is above the limit and is lowered to 10 (warning)", "retry.backoff: 2m0s is above the limit and is lowered to 1m0s (warning)",
		"retry.backoff_cap: 1m30s is above the limit and is lowered to 1m0s (warning)", "retry.backoff_multiplier: 11 is above the limit and is lowered to 10 (warning)",
		"retry.timeout: 1ns is below the limit and is raised to 1ms (warning)", "retry.overall_timeout: 1ns is below the limit and is raised to 1ms (warning)",
		"retry.backoff_cap: 1m30s is below the backoff of 2m0s and is raised to it (warning)",
		"hedge.max_hedges: 4 is above the limit and is lowered to 3 (warning)", "hedge.delay: 1ms is below the limit and is raised to 10ms (warning)",
		"circuit.cooldown: 1ms is below the limit and is raised to 100ms (warning)", "circuit.window: 2h0m0s is above the limit and is lowered to 1h0m0s (warning)",
		"circuit.slow_after: not given, 1s is used (warning)",
	}
	if diff := cmp.Diff(want, lines(p.Check(CallLimits()))); diff != "" {
		t.Error(diff)
	}
	if err := p.Validate(CallLimits()); err != nil {
		t.Errorf("warnings are not errors: %v", err)
	}
}

func TestP6JobsAndQueues(t *testing.T) {
	both := Job{Timeout: 1, Retry: Retry{TimeoutPerAttempt: 1, Budget: BudgetRef{Name: "a"}}, Budget: BudgetRef{Name: "b"}, Circuit: Circuit{Failures: 1}}
	want := []string{
		"timeout: given twice, here and as retry.timeout", "budget: given twice, here and as retry.budget",
		"retry.timeout: 1ns is below the limit and is raised to 1ms (warning)", "circuit.kind: missing",
	}
	if diff := cmp.Diff(want, lines(both.Check(JobLimits()))); diff != "" {
		t.Error(diff)
	}
	queue := Queue{Concurrency: -1, Timeout: both.Timeout, Retry: both.Retry, Circuit: both.Circuit, Budget: BudgetRef{Cost: 2}}
	want = []string{
		"concurrency: -1 must be at least 1", "timeout: given twice, here and as retry.timeout", "budget.name: missing",
		"retry.timeout: 1ns is below the limit and is raised to 1ms (warning)", "circuit.kind: missing",
	}
	if diff := cmp.Diff(want, lines(queue.Check(JobLimits()))); diff != "" {
		t.Error(diff)
	}
	if both.Validate(JobLimits()) == nil || queue.Validate(JobLimits()) == nil || (Job{}).Validate(JobLimits()) != nil || (Queue{}).Validate(JobLimits()) != nil {
		t.Error("Validate disagrees with Check")
	}
	p := Job{Timeout: time.Second, Budget: BudgetRef{Name: "b"}, Retry: Retry{MaxAttempts: 2}}.Policy(JobKey("q", "t"))
	if p.Retry.TimeoutPerAttempt != time.Second || p.Retry.Budget.Name != "b" || p.Key != JobKey("q", "t") {
		t.Errorf("%+v", p)
	}
}

func TestP6Budgets(t *testing.T) {
	for name, c := range map[string]struct {
		budget Budget
		want   []string
	}{
		"unlimited":        {Budget{Kind: BudgetUnlimited}, nil},
		"bucket":           {Budget{Kind: BudgetTokenBucket, Capacity: 1, RefillPerSecond: 0.1}, nil},
		"ratio":            {Budget{Kind: BudgetRetryRatio}, nil},
		"none":             {Budget{}, []string{"kind: missing"}},
		"odd":              {Budget{Kind: "odd"}, []string{`kind: unknown value "odd"`}},
		"empty bucket":     {Budget{Kind: BudgetTokenBucket}, []string{"capacity: missing", "refill_per_second: missing"}},
		"foreign fields":   {Budget{Kind: BudgetUnlimited, Capacity: 1, Burst: 1}, []string{"kind: capacity and refill_per_second belong to token_bucket", "kind: ratio and burst belong to retry_ratio"}},
		"negative ratio":   {Budget{Kind: BudgetRetryRatio, Ratio: -1}, []string{"ratio: -1 must be greater than 0"}},
		"ratio too low":    {Budget{Kind: BudgetRetryRatio, Ratio: 1e-10}, []string{"ratio: 1e-10 must be at least 0.000000001"}},
		"burst too high":   {Budget{Kind: BudgetRetryRatio, Burst: 2e6}, []string{"burst: 2e+06 must be at most 1000000"}},
		"refill too high":  {Budget{Kind: BudgetTokenBucket, Capacity: 2e9, RefillPerSecond: 2e9}, []string{"capacity: 2e+09 must be at most 1000000000", "refill_per_second: 2e+09 must be at most 1000000000"}},
		"capacity too low": {Budget{Kind: BudgetTokenBucket, Capacity: 0.5, RefillPerSecond: 1}, []string{"capacity: 0.5 must be at least 1"}},
	} {
		if diff := cmp.Diff(c.want, lines(c.budget.Check())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if (c.budget.Validate() == nil) != (c.want == nil) {
			t.Errorf("%s: Validate disagrees", name)
		}
	}
	if b := (Budget{Kind: BudgetRetryRatio, Ratio: math.NaN()}).Normalize(); b.Ratio != 0.2 || b.Burst != 10 {
		t.Errorf("%+v", b)
	}
	if b := (Budget{Kind: BudgetTokenBucket, Capacity: 3}).Normalize(); b != (Budget{Kind: BudgetTokenBucket, Capacity: 3}) {
		t.Errorf("%+v", b)
	}
}

func TestL1Pipelines(t *testing.T) {
	c := Consumer{
		Loop: ConsumerLoop{
			Batch: Batch{Size: 9, MinSize: 10}, Concurrency: Concurrency{Value: 5, Max: 4}, Limit: -1, Timeout: -1,
			EmptyQueue: EmptyQueue{Interval: 1, BackoffMultiplier: 0.5},
		},
		Steps: ConsumerSteps{Process: Step{Retry: Retry{OverallTimeout: time.Second}}},
	}
	want := []string{
		"loop.timeout: -1ns must be greater than 0", "loop.limit: -1 must be greater than 0", "loop.empty_queue.backoff_multiplier: 0.5 must be at least 1",
		"loop.empty_queue.interval: 1ns reserved for later use", "loop.batch.size: 9 is below min_size 10", "loop.concurrency.value: 5 is above max 4",
		"steps.process.retry.overall_timeout: not allowed in a pipeline step",
	}
	if diff := cmp.Diff(want, lines(c.Check(StepLimits()))); diff != "" {
		t.Error(diff)
	}
	p := Producer{Loop: ProducerLoop{Batch: Batch{MinSize: 3, MaxSize: 2}}, Steps: ProducerSteps{Produce: Step{Retry: Retry{Budget: BudgetRef{Cost: 1}}}}}
	want = []string{"loop.batch.min_size: 3 is above max_size 2", "steps.produce.retry.budget.name: missing"}
	if diff := cmp.Diff(want, lines(p.Check(StepLimits()))); diff != "" {
		t.Error(diff)
	}
	if c.Validate(StepLimits()) == nil || p.Validate(StepLimits()) == nil || (Consumer{}).Validate(StepLimits()) != nil || (Producer{}).Validate(StepLimits()) != nil {
		t.Error("Validate disagrees with Check")
	}
	if got := (Violation{Path: "a", Problem: "b"}).String(); got != "a: b" {
		t.Errorf("%q", got)
	}
}
