package budget

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
)

func TestR8RetryRatioExemptsFirstAttempts(t *testing.T) {
	b := NewRetryRatio(0, 1)
	if drain(b) != 1 {
		t.Fatal("a burst of 1 is 1 retry")
	}
	for range 1000 {
		if !first(b) {
			t.Fatal("a first attempt was refused")
		}
	}
	if retry(b) || hedge(b) {
		t.Error("an empty budget allowed an extra attempt")
	}
}

func TestR8RetryRatioChargesRetriesAndHedges(t *testing.T) {
	b := NewRetryRatio(0.5, 4)
	if !hedge(b) || !retry(b) || !ask(b, 3, KindRetry, 2).Allowed || hedge(b) {
		t.Fatal("a burst of 4 pays for a hedge, a retry and a retry of cost 2")
	}
	first(b)
	if retry(b) {
		t.Error("one call at 0.5 paid for a retry")
	}
	first(b)
	if ask(b, 1, KindRetry, 2).Allowed {
		t.Error("1 token paid for a cost of 2")
	}
	if !ask(b, 0, KindHedge, 0).Allowed || retry(b) {
		t.Error("two calls at 0.5 pay for one extra attempt")
	}
}

func TestR8RetryRatioKeepsNoMoreThanTheBurst(t *testing.T) {
	b := NewRetryRatio(0.2, 10)
	for range 10_000 {
		first(b)
	}
	if n := drain(b); n != 10 {
		t.Errorf("%d retries after a long quiet time, want 10", n)
	}
}

// TestR8RetryRatioBound compares the budget with a model that counts thousandths of a token: in no window do the extra
// attempts cost more than ratio·calls + burst.
func TestR8RetryRatioBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratio := rapid.IntRange(0, 2000).Draw(t, "ratio in thousandths")
		burst := rapid.IntRange(0, 20_000).Draw(t, "burst in thousandths")
		b := NewRetryRatio(float64(ratio)/1000, float64(burst)/1000)
		model := burst
		// headroom is the amount that the worst window that ends here could still spend.
		headroom := burst
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			cost := rapid.IntRange(-1, 4).Draw(t, "cost")
			switch kind := rapid.SampledFrom([]string{"call", "call", "retry", "hedge", "hedge at 0"}).Draw(t, "step"); kind {
			case "call":
				if !ask(b, 0, KindRetry, cost).Allowed {
					t.Fatal("a first attempt was refused")
				}
				model = min(model+ratio, burst)
				headroom = min(headroom+ratio, burst)
			default:
				idx, k := 1, KindRetry
				if kind != "retry" {
					k = KindHedge
				}
				if kind == "hedge at 0" {
					idx = 0
				}
				price := max(cost, 1) * 1000
				allowed := ask(b, idx, k, cost).Allowed
				if want := model >= price; allowed != want {
					t.Fatalf("%s of %d: allowed %v with %d thousandths", kind, price, allowed, model)
				}
				if allowed {
					model -= price
					headroom -= price
				}
				if headroom < 0 {
					t.Fatalf("a window overspent by %d thousandths", -headroom)
				}
			}
		}
	})
}

func TestR8RetryRatioBoundUnderConcurrency(t *testing.T) {
	const workers, times = 8, 2000
	b := NewRetryRatio(0.2, 10)
	extra := inParallel(workers, times, func(i int) bool {
		first(b)
		return ask(b, 1, AttemptKind(i%2), 1).Allowed
	})
	if bound := workers*times/5 + 10; extra > bound {
		t.Errorf("%d extra attempts, bound %d", extra, bound)
	}
}

// TestRetryRatioConcurrentCountIsExact: after concurrent calls, exactly the earned tokens can be spent, concurrently.
func TestRetryRatioConcurrentCountIsExact(t *testing.T) {
	const workers, times = 8, 1000
	b := NewRetryRatio(0.29, 1_000_000)
	b.tokens.Store(0)
	inParallel(workers, times, func(int) bool { return first(b) })
	if got := inParallel(workers, times, func(int) bool { return retry(b) }); got != 2320 {
		t.Errorf("%d retries after 8000 calls at 0.29, want 2320", got)
	}
}

func TestRetryRatioUnits(t *testing.T) {
	tests := []struct {
		give float64
		want int64
	}{
		{0.29, 290_000_000}, {0.2, 200_000_000}, {10, 10 * unit},
		{2.0 / 3, 666_666_666}, {1e-12, 0}, // rounds down
		{math.NaN(), 0}, {-1, 0}, {math.Inf(-1), 0}, {math.Inf(1), maxRatioTokens * unit}, {1e30, maxRatioTokens * unit},
	}
	for _, tt := range tests {
		if got := units(tt.give); got != tt.want {
			t.Errorf("units(%v) = %d, want %d", tt.give, got, tt.want)
		}
	}
}

func TestRetryRatioDoesNotAllocate(t *testing.T) {
	b := NewRetryRatio(0.2, 10)
	if n := testing.AllocsPerRun(100, func() { first(b); retry(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRetryRatioFullIsOnlyRead: first attempts only read a full budget, from any number of goroutines.
func TestRetryRatioFullIsOnlyRead(t *testing.T) {
	b := NewRetryRatio(0.2, 10)
	before := b.tokens.Load()
	inParallel(4, 100, func(int) bool { return first(b) })
	if b.tokens.Load() != before {
		t.Error("a full budget changed")
	}
}

func BenchmarkRetryRatioAllow(b *testing.B) {
	var ratio Budget = NewRetryRatio(0.2, 10)
	ctx, key, ref := context.Background(), policy.ParseKey("users.Get"), policy.BudgetRef{Name: "b", Cost: 1}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !ratio.AllowAttempt(ctx, key, 0, KindRetry, ref).Allowed {
				b.Fatal("refused")
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !ratio.AllowAttempt(ctx, key, 0, KindRetry, ref).Allowed {
					b.Error("refused")
				}
			}
		})
	})
}

func TestR8ARetryThatCostsMoreThanAnyBurstIsRefused(t *testing.T) {
	b := NewRetryRatio(1, maxRatioTokens)
	for _, cost := range []int{math.MaxInt, maxRatioTokens + 1} {
		if ask(b, 1, KindRetry, cost).Allowed {
			t.Errorf("a cost of %d is allowed", cost)
		}
	}
	if !ask(b, 1, KindRetry, maxRatioTokens).Allowed {
		t.Error("a cost of the burst is refused")
	}
}

func TestP8NoBudgetOfADocumentIsCut(t *testing.T) {
	highest := policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 1e-9, Burst: maxRatioTokens}
	b, err := New(highest)
	if err != nil {
		t.Fatal(err)
	}
	if l := *b.(*RetryRatio).limits.Load(); l != (ratioLimits{ratio: 1, burst: maxRatioTokens * unit}) {
		t.Errorf("%+v", l)
	}
	highest.Burst++
	if _, err := New(highest); err == nil {
		t.Error("a burst that would be cut is accepted")
	}
}
