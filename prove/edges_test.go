package prove_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
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

func TestT1NothingBoundsAJobThatMayBePostponed(t *testing.T) {
	for field, want := range map[string]string{
		"circuit: {kind: consecutive, cooldown: 10m}": "job/.a:b: at most 3s of attempts, and delays without bound; a breaker, a budget or a limit may postpone attempts without counting them",
		"limits: [{name: one, concurrency: 1}]":       "job/.a:b: at most 3s of attempts, and delays without bound; a breaker, a budget or a limit may postpone attempts without counting them",
		"category: \"\"":                              "job/.a:b: at most 3s of attempts and 3s of delays, or 13s in all with the longest pushback every time",
	} {
		f := finding(t, `version: 1
jobs:
  "a:b": {`+field+`, retry: {max_attempts: 3, timeout: 1s, backoff: 1s, backoff_cap: 5s, jitter: none, max_pushback: 5s}}
`, "worst-case-time")
		if !strings.HasPrefix(f.Message, want) {
			t.Errorf("%s: %s", field, f.Message)
		}
	}
}

// TestT1AnErrorThatAsksForAWaitIsRetriedWhateverAbortOnHolds: the finding must not say that its class is never retried.
func TestT1AnErrorThatAsksForAWaitIsRetriedWhateverAbortOnHolds(t *testing.T) {
	o, _ := decision.Judge(&policy.Retry{RetryOn: []policy.Class{"http_503"}, AbortOn: []policy.Class{"http_5xx"}},
		&decision.Facts{Failed: true, Mark: classify.MarkAfter, Pushback: time.Second, Classes: []classify.Match{{Class: "http_503"}}})
	f := finding(t, "version: 1\npolicies:\n  a.B: {retry: {retry_on: [http_503, timeout], abort_on: [http_5xx]}}\n", "class-never-matches")
	if want := `a.B: class "http_503" is retried only where the error asks for a wait: abort_on holds "http_5xx"`; f.Message != want || o.Kind != classify.Retryable {
		t.Errorf("%s, %s", o.Kind, f.Message)
	}
}

// TestT1TheLongestPushbackIsOneThatTheCallWaitsFor: four waits of 50 years each, not one of 100 that ends the call.
func TestT1TheLongestPushbackIsOneThatTheCallWaitsFor(t *testing.T) {
	f := finding(t, "version: 1\npolicies: {a.B: {retry: {max_attempts: 5, max_pushback: 438000h}}}\n", "unbounded-retry")
	if f.Verdict != prove.Violated || f.Counterexample.Steps[0].Answer != "retry after 438000h0m0s" {
		t.Errorf("%s: %s: %+v", f.Verdict, f.Message, f.Counterexample)
	}
}

func TestT1NoNameOfAHedgeThatIsOffMustComeFromCode(t *testing.T) {
	for hedge, want := range map[string]bool{"enabled: false, ": false, "enabled: true, delay: 20ms, ": true} {
		list := findings(t, "version: 1\ndeclared: {budgets: [global], triggers: [own]}\npolicies:\n  a.B: {hedge: {"+hedge+"trigger: own, budget: {name: global}}}\n", "")
		if got := slices.ContainsFunc(list, func(f prove.Finding) bool { return f.Code == "names-from-code" }); got != want {
			t.Errorf("hedge: {%s…}: %v, want %v", hedge, got, want)
		}
	}
}

// TestT1FindingsWhosePathsReadAlikeAreBothReported: jobs.mail.retry.budget may belong to either type.
func TestT1FindingsWhosePathsReadAlikeAreBothReported(t *testing.T) {
	lines := map[int]bool{}
	for _, f := range findings(t, `version: 1
budgets: {small: {kind: token_bucket, capacity: 1, refill_per_second: 1}}
jobs:
  mail: {retry: {budget: {name: small, cost: 2}}}
  mail.retry: {budget: {name: small, cost: 3}}
`, "") {
		if f.Code == "budget-never-admits" && f.Verdict == prove.Violated {
			lines[f.Line] = true
		}
	}
	if !lines[4] || !lines[5] {
		t.Errorf("reported in lines %v", lines)
	}
}

// TestT1FindingsOfNamesWithDotsAreInTheirOwnLines: budgets.b.scope may be a budget or a field of one, and so on.
func TestT1FindingsOfNamesWithDotsAreInTheirOwnLines(t *testing.T) {
	lines := map[string]int{}
	for _, f := range findings(t, `version: 1
budgets:
  b: {kind: unlimited, scope: process}
  b.scope: {kind: unlimited}
consumers:
  a.b.loop.timeout: {}
  a.b: {loop: {timeout: 1s}, steps: {process: {retry: {max_attempts: 3, backoff: 2s, jitter: none}}}}
`, "") {
		if f.Verdict == prove.Violated {
			lines[f.Code+" "+f.Path] = f.Line
		}
	}
	want := map[string]int{"budget-never-binds budgets.b": 3, "budget-never-binds budgets.b.scope": 4, "attempt-unreachable consumers.a.b.loop.timeout": 7}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
