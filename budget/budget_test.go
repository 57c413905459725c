package budget

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
)

func ask(b Budget, attemptIdx int, kind AttemptKind, cost int) Decision {
	return b.AllowAttempt(context.Background(), policy.Key{Name: "k"}, attemptIdx, kind, policy.BudgetRef{Name: "b", Cost: cost})
}

func first(b Budget) bool { return ask(b, 0, KindRetry, 1).Allowed }
func retry(b Budget) bool { return ask(b, 1, KindRetry, 1).Allowed }
func hedge(b Budget) bool { return ask(b, 1, KindHedge, 1).Allowed }

func TestAttemptKindString(t *testing.T) {
	got := []string{KindRetry.String(), KindHedge.String(), AttemptKind(7).String()}
	if diff := cmp.Diff([]string{"retry", "hedge", "AttemptKind(7)"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestP4New(t *testing.T) {
	tests := []struct {
		name    string
		give    policy.Budget
		want    Budget
		invalid bool
	}{
		{name: "unlimited", give: policy.Budget{Kind: policy.BudgetUnlimited}, want: Unlimited{}},
		{name: "token bucket", give: policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: 5, RefillPerSecond: 1}, want: &TokenBucket{}},
		{name: "retry ratio", give: policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.1, Burst: 3}, want: &RetryRatio{}},
		{name: "no kind", invalid: true},
		{name: "unknown kind", give: policy.Budget{Kind: "lottery"}, invalid: true},
		{name: "bucket without a size", give: policy.Budget{Kind: policy.BudgetTokenBucket}, invalid: true},
		{name: "negative ratio", give: policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: -1}, invalid: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := New(tt.give)
			var violations *policy.ValidationError
			if errors.As(err, &violations) != tt.invalid {
				t.Fatalf("err = %v", err)
			}
			if diff := cmp.Diff(kindOf(tt.want), kindOf(b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func kindOf(b Budget) string {
	switch b.(type) {
	case nil:
		return ""
	case Unlimited:
		return "unlimited"
	case *TokenBucket:
		return "token bucket"
	case *RetryRatio:
		return "retry ratio"
	}
	return "other"
}

func TestP4RetryRatioDefaults(t *testing.T) {
	b, err := New(policy.Budget{Kind: policy.BudgetRetryRatio})
	if err != nil {
		t.Fatal(err)
	}
	burst := drain(b)
	for range 5 { // 0.2 each
		first(b)
	}
	if got := [2]int{burst, drain(b)}; got != [2]int{10, 1} {
		t.Errorf("burst and what 5 calls earn = %v, want 10 and 1", got)
	}
}

func TestUnlimitedAllowsEverything(t *testing.T) {
	for i := range 100 {
		if d := ask(Unlimited{}, i, AttemptKind(i%2), 1000); !d.Allowed || d.Reason != policy.ReasonAllowed {
			t.Fatalf("attempt %d: %+v", i, d)
		}
	}
}

// drain counts the retries that b still allows.
func drain(b Budget) int {
	n := 0
	for retry(b) {
		n++
	}
	return n
}

func TestR8TokenBucketGatesEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewTokenBucket(3, 2)
		if !first(b) || !retry(b) || !hedge(b) {
			t.Fatal("a full bucket refused")
		}
		for name, refused := range map[string]bool{"first": !first(b), "retry": !retry(b), "hedge": !hedge(b)} {
			if !refused {
				t.Errorf("an empty bucket allowed a %s attempt", name)
			}
		}
		d := ask(b, 0, KindRetry, 1)
		if d.Reason != policy.ReasonBudgetDenied || d.Detail == "" {
			t.Errorf("refusal = %+v", d)
		}
		time.Sleep(499 * time.Millisecond)
		if first(b) {
			t.Error("refilled too early")
		}
		time.Sleep(time.Millisecond)
		if !first(b) || first(b) {
			t.Error("half a second at 2 per second is 1 token")
		}
		time.Sleep(time.Hour)
		if n := drain(b); n != 3 {
			t.Errorf("after an hour: %d tokens, want the capacity of 3", n)
		}
	})
}

// TestTokenBucketRefusalsDoNotDelayTheRefill checks that many refusals within a token's refill time do not round it away.
func TestTokenBucketRefusalsDoNotDelayTheRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewTokenBucket(1e9, 1)
		b.tokens = 0
		refused := 0
		for !first(b) {
			refused++
			time.Sleep(time.Millisecond)
		}
		if refused != 1000 {
			t.Errorf("refused for %d ms, want 1000", refused)
		}
	})
}

func TestR8TokenBucketCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewTokenBucket(5, 1)
		if ask(b, 0, KindRetry, 6).Allowed {
			t.Error("more than the capacity was allowed")
		}
		if !ask(b, 0, KindRetry, 3).Allowed || ask(b, 0, KindRetry, 3).Allowed {
			t.Error("5 tokens pay for a cost of 3 once")
		}
		if !ask(b, 0, KindRetry, 0).Allowed || !ask(b, 0, KindRetry, -4).Allowed || ask(b, 0, KindRetry, 0).Allowed {
			t.Error("a cost below 1 is 1: the 2 tokens left pay twice")
		}
	})
}

func TestTokenBucketOddNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name             string
		capacity, refill float64
		want             [2]int // attempts allowed at once, and after a second
	}{
		{"capacity NaN", nan, 1, [2]int{0, 0}},
		{"capacity negative", -5, 1, [2]int{0, 0}},
		{"capacity infinite", inf, 1, [2]int{9, 9}},
		{"refill NaN", 2, nan, [2]int{2, 0}},
		{"refill negative", 2, -1, [2]int{2, 0}},
		{"refill infinite", 2, inf, [2]int{2, 2}},
		{"both infinite", inf, inf, [2]int{9, 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewTokenBucket(tt.capacity, tt.refill)
				var got [2]int
				for i := range got {
					// One right after another: the bubble's clock stands still.
					for got[i] < 9 && first(b) {
						got[i]++
					}
					time.Sleep(time.Second)
				}
				if got != tt.want {
					t.Errorf("allowed %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestJ16TokenBucketWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewTokenBucket(4, 2)
		ref := policy.BudgetRef{Cost: 3}
		if w := b.Wait(ref); w != 0 {
			t.Errorf("full: wait %v", w)
		}
		for range 4 {
			first(b)
		}
		w := b.Wait(ref)
		if w < 1500*time.Millisecond || w > 1500*time.Millisecond+2 {
			t.Errorf("empty: wait %v, want 1.5s for 3 tokens", w)
		}
		time.Sleep(w - 3)
		if ask(b, 0, KindRetry, 3).Allowed {
			t.Error("allowed before the wait was over")
		}
		time.Sleep(3 * time.Nanosecond)
		if !ask(b, 0, KindRetry, 3).Allowed {
			t.Error("refused after the wait")
		}
		if w := b.Wait(policy.BudgetRef{Cost: 100}); w > 2*time.Second+2 {
			t.Errorf("cost above the capacity: wait %v, want the time until full", w)
		}
		never := NewTokenBucket(1, 0)
		first(never)
		for name, b := range map[string]*TokenBucket{"no refill": never, "no capacity": NewTokenBucket(0, 1)} {
			if w := b.Wait(ref); w != time.Hour {
				t.Errorf("%s: wait %v, want an hour", name, w)
			}
		}
	})
}

// TestR8TokenBucketBound draws costs and pauses: the cost allowed in any window stays within capacity + refill·time, and the
// reported waits are long enough.
func TestR8TokenBucketBound(t *testing.T) {
	type step struct {
		pause   time.Duration
		cost    int
		patient bool // waits as reported before its attempt
	}
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(rt, "capacity")
		refill := rapid.Float64Range(0.1, 1000).Draw(rt, "refill")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				pause:   time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(rt, "pause")),
				cost:    rapid.IntRange(1, capacity).Draw(rt, "cost"),
				patient: rapid.Bool().Draw(rt, "patient"),
			}
		}), 1, 60).Draw(rt, "steps")
		var spent []step // pause is the time since the start
		tooShort := time.Duration(0)
		synctest.Test(t, func(*testing.T) {
			b := NewTokenBucket(float64(capacity), refill)
			start := time.Now()
			for _, s := range steps {
				time.Sleep(s.pause)
				var wait time.Duration
				if s.patient {
					wait = b.Wait(policy.BudgetRef{Cost: s.cost})
					time.Sleep(wait)
				}
				if ask(b, 0, KindRetry, s.cost).Allowed {
					spent = append(spent, step{pause: time.Since(start), cost: s.cost})
				} else if s.patient {
					tooShort = max(wait, 1)
				}
			}
		})
		if tooShort > 0 {
			rt.Errorf("refused after the reported wait of %v", tooShort)
		}
		for i := range spent {
			total := 0
			for _, s := range spent[i:] {
				total += s.cost
				bound := float64(capacity) + (s.pause-spent[i].pause).Seconds()*refill
				if float64(total) > bound+1e-6 {
					rt.Fatalf("%d spent in a window that allows %v", total, bound)
				}
			}
		}
	})
}

// TestTokenBucketLateCaller: a caller that read the clock before another but asks after it neither loses tokens nor earns them
// twice.
func TestTokenBucketLateCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewTokenBucket(5, 1)
		b.tokens, b.at = 2, 10*time.Second // as if the other had asked at 10s
		if n := drain(b); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		time.Sleep(10 * time.Second)
		if first(b) {
			t.Error("the time up to 10s was earned twice")
		}
	})
}

func TestTokenBucketConcurrent(t *testing.T) {
	b := NewTokenBucket(500, 0)
	if got := inParallel(8, 200, func(int) bool { return retry(b) }); got != 500 {
		t.Errorf("%d allowed, want 500", got)
	}
}

// inParallel runs f workers × times and counts how often it returned true.
func inParallel(workers, times int, f func(i int) bool) int {
	counts := make([]int, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range times {
				if f(i) {
					counts[w]++
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

func TestR7ConcurrencyHoldsUntilReleased(t *testing.T) {
	b := NewConcurrency(3)
	var launch AtLaunch = b
	if !launch.AskAtLaunch() {
		t.Error("a budget of running attempts is asked at launch")
	}
	one, two := ask(b, 0, KindRetry, 1), ask(b, 0, KindHedge, 2)
	if !one.Allowed || !two.Allowed || b.InFlight() != 3 {
		t.Fatalf("%+v %+v, %d in flight", one, two, b.InFlight())
	}
	if d := ask(b, 0, KindRetry, 1); d.Allowed || d.Reason != policy.ReasonBudgetDenied || d.Release != nil {
		t.Errorf("over the limit: %+v", d)
	}
	one.Release()
	if ask(b, 0, KindRetry, 2).Allowed {
		t.Error("one free place let a cost of 2 in")
	}
	two.Release()
	if b.InFlight() != 0 || !ask(b, 0, KindRetry, 3).Allowed {
		t.Error("the slots were not released")
	}
	for _, limit := range []int{0, -1} {
		if ask(NewConcurrency(limit), 0, KindRetry, 1).Allowed {
			t.Errorf("a limit of %d allowed an attempt", limit)
		}
	}
}

func TestConcurrencyIsNeverExceeded(t *testing.T) {
	b := NewConcurrency(4)
	inParallel(8, 500, func(i int) bool {
		d := ask(b, 0, KindRetry, i%3)
		if n := b.InFlight(); n > 4 || n < 0 {
			t.Errorf("%d in flight", n)
		}
		if d.Allowed {
			d.Release()
		}
		return d.Allowed
	})
	if b.InFlight() != 0 {
		t.Errorf("%d left in flight", b.InFlight())
	}
}

func TestOnlyBudgetsThatRefillWithTimeWait(t *testing.T) {
	got := map[string]bool{}
	for name, b := range map[string]Budget{
		"unlimited": Unlimited{}, "token bucket": NewTokenBucket(1, 1), "retry ratio": NewRetryRatio(1, 1), "concurrency": NewConcurrency(1),
	} {
		_, got[name] = b.(Waiter)
	}
	want := map[string]bool{"unlimited": false, "token bucket": true, "retry ratio": false, "concurrency": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
