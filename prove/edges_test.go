package prove_test

import (
	"slices"
	"testing"

	"github.com/tenetdev/tenet/prove"
)

// finding returns the first finding of a code on a document.
func finding(t *testing.T, text, code string) prove.Finding {
	t.Helper()
	list := findings(t, text, "")
	replay(t, list)
	i := slices.IndexFunc(list, func(f prove.Finding) bool { return f.Code == code })
	if i < 0 {
		t.Fatalf("no finding %s", code)
	}
	return list[i]
}

// TestT1ABucketThatRefillsForMoreThanAnHourPaysForNoHedge: the bucket itself answers with waits of at most an hour.
func TestT1ABucketThatRefillsForMoreThanAnHourPaysForNoHedge(t *testing.T) {
	for timeout, want := range map[string]prove.Verdict{"2h": prove.Violated, "30h": prove.Holds} {
		f := finding(t, `version: 1
budgets: {b: {kind: token_bucket, capacity: 10, refill_per_second: 0.0001}}
policies:
  a.B:
    retry: {max_attempts: 1, timeout: `+timeout+`, budget: {name: b, cost: 10}}
    hedge: {enabled: true, trigger: p95, delay: 60s}
`, "hedge-never-launches")
		if f.Verdict != want {
			t.Errorf("timeout %s: %s: %s", timeout, f.Verdict, f.Message)
		}
	}
}
