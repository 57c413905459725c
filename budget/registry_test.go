package budget

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

func ratioOf(ratio, burst float64) policy.Budget {
	return policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: ratio, Burst: burst}
}

func bucketOf(capacity, refill float64) policy.Budget {
	return policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: capacity, RefillPerSecond: refill}
}

func apply(t *testing.T, r *Registry, budgets map[string]policy.Budget) {
	t.Helper()
	if err := r.Apply(budgets); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, r *Registry, name string) Budget {
	t.Helper()
	b, ok := r.Get(name)
	if !ok {
		t.Fatalf("no budget %q", name)
	}
	return b
}

func TestRegisterRefuses(t *testing.T) {
	r := NewRegistry()
	if err := r.Register("a", Unlimited{}); err != nil {
		t.Fatal(err)
	}
	for problem, err := range map[string]error{
		"empty": r.Register("", Unlimited{}),
		"nil":   r.Register("b", nil),
		"taken": r.Register("a", Unlimited{}),
	} {
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: err = %v", problem, err)
		}
	}
	if _, ok := r.Get("b"); ok {
		t.Error("a refused budget was registered")
	}
}

func TestP13CodeWinsOverTheDocument(t *testing.T) {
	mine := NewConcurrency(1)
	for name, order := range map[string]func(r *Registry){
		"registered first": func(r *Registry) {
			_ = r.Register("a", mine)
			apply(t, r, map[string]policy.Budget{"a": ratioOf(0.2, 1), "b": ratioOf(0.2, 1)})
		},
		"document first": func(r *Registry) {
			apply(t, r, map[string]policy.Budget{"a": ratioOf(0.2, 1), "b": ratioOf(0.2, 1)})
			_ = r.Register("a", mine)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRegistry()
			order(r)
			if get(t, r, "a") != Budget(mine) {
				t.Error("the document's budget won")
			}
			if diff := cmp.Diff([]string{"a", "b"}, r.Names()); diff != "" {
				t.Error(diff)
			}
			apply(t, r, nil)
			if diff := cmp.Diff([]string{"a"}, r.Names()); diff != "" {
				t.Errorf("after an empty document: %s", diff)
			}
		})
	}
}

func TestP13ReloadKeepsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		apply(t, r, map[string]policy.Budget{"ratio": ratioOf(0.5, 8), "bucket": bucketOf(8, 1), "gone": ratioOf(1, 1), "free": {Kind: policy.BudgetUnlimited}})
		ratio, bucket := get(t, r, "ratio"), get(t, r, "bucket")
		ask(ratio, 1, KindRetry, 6)
		ask(bucket, 1, KindRetry, 6)

		apply(t, r, map[string]policy.Budget{"ratio": ratioOf(1, 20), "bucket": bucketOf(20, 4), "free": {Kind: policy.BudgetUnlimited}})
		if get(t, r, "ratio") != ratio || get(t, r, "bucket") != bucket {
			t.Fatal("a reload replaced budgets of the same kind")
		}
		if diff := cmp.Diff([]string{"bucket", "free", "ratio"}, r.Names()); diff != "" {
			t.Error(diff)
		}
		if a, b := drain(ratio), drain(bucket); a != 2 || b != 2 {
			t.Errorf("tokens after the reload: %d and %d, want the 2 that were left", a, b)
		}
		first(ratio)
		time.Sleep(time.Second)
		if a, b := drain(ratio), drain(bucket); a != 1 || b != 4 {
			t.Errorf("earned by a call and a second: %d and %d, want the new rates' 1 and 4", a, b)
		}
	})
}

func TestP13ReloadCutsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		apply(t, r, map[string]policy.Budget{"ratio": ratioOf(0.5, 8), "bucket": bucketOf(8, 1)})
		apply(t, r, map[string]policy.Budget{"ratio": ratioOf(0.5, 3), "bucket": bucketOf(3, 1)})
		apply(t, r, map[string]policy.Budget{"ratio": ratioOf(0.5, 9), "bucket": bucketOf(9, 1)})
		if a, b := drain(get(t, r, "ratio")), drain(get(t, r, "bucket")); a != 3 || b != 3 {
			t.Errorf("tokens %d and %d, want 3 each", a, b)
		}
	})
}

// TestRetryRatioSpendsNoMoreThanALoweredBurst: tokens above a lowered burst, earned by a call concurrent with the reload,
// cannot be spent.
func TestRetryRatioSpendsNoMoreThanALoweredBurst(t *testing.T) {
	b := NewRetryRatio(0.5, 2)
	b.tokens.Store(10 * unit)
	if n := drain(b); n != 2 {
		t.Errorf("%d retries, want 2", n)
	}
}

func TestP13ReloadReplacesAnotherKind(t *testing.T) {
	r := NewRegistry()
	apply(t, r, map[string]policy.Budget{"a": ratioOf(0.5, 8), "b": bucketOf(1, 1), "c": {Kind: policy.BudgetUnlimited}})
	apply(t, r, map[string]policy.Budget{"a": bucketOf(1, 1), "b": {Kind: policy.BudgetUnlimited}, "c": ratioOf(0.5, 8)})
	got := map[string]string{}
	for _, name := range r.Names() {
		got[name] = kindOf(get(t, r, name))
	}
	if diff := cmp.Diff(map[string]string{"a": "token bucket", "b": "unlimited", "c": "retry ratio"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestP13ReloadTakesDefaults(t *testing.T) {
	r := NewRegistry()
	apply(t, r, map[string]policy.Budget{"a": ratioOf(1, 8)})
	drain(get(t, r, "a"))
	apply(t, r, map[string]policy.Budget{"a": {Kind: policy.BudgetRetryRatio}})
	for range 5 {
		first(get(t, r, "a"))
	}
	if n := drain(get(t, r, "a")); n != 1 {
		t.Errorf("5 calls earned %d, want 1 at the default ratio of 0.2", n)
	}
}

func TestApplyIsAllOrNothing(t *testing.T) {
	r := NewRegistry()
	apply(t, r, map[string]policy.Budget{"a": ratioOf(0.5, 8)})
	a := get(t, r, "a")
	err := r.Apply(map[string]policy.Budget{"a": ratioOf(1, 1), "b": {Kind: "lottery"}, "c": bucketOf(-1, 1), "": ratioOf(1, 1)})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"budgets.b", "lottery", "budgets.c", "capacity", "no name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
	if diff := cmp.Diff([]string{"a"}, r.Names()); diff != "" {
		t.Error(diff)
	}
	if n := drain(a); n != 8 {
		t.Errorf("%d tokens, want the earlier 8", n)
	}
}

func TestRegistryConcurrent(t *testing.T) {
	r := NewRegistry()
	apply(t, r, map[string]policy.Budget{"a": ratioOf(0.2, 10)})
	inParallel(4, 100, func(i int) bool {
		if b, ok := r.Get("a"); ok {
			first(b)
			retry(b)
		}
		if i%10 == 0 {
			apply(t, r, map[string]policy.Budget{"a": ratioOf(0.2, float64(1+i))})
		}
		return len(r.Names()) == 1
	})
}
