package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
)

func proved(t *testing.T, text string) (*policyfile.Document, []Finding, *subject) {
	t.Helper()
	d, err := policyfile.Parse("p", []byte(text), policyfile.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	list, err := Document(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &prover{document: d, budgets: d.Set.Budgets()}
	p.collect()
	return d, list, &p.subjects[0]
}

// TestT1UnboundedRetryIsThatOfTheLoop follows package decision from retry to retry, with the longest delay or the longest pushback
// each time, through random jobs with many attempts.
func TestT1UnboundedRetryIsThatOfTheLoop(t *testing.T) {
	documents := 5_000
	if testing.Short() {
		documents = 300
	}
	r := rand.New(rand.NewPCG(5, 2026))
	verdicts := map[bool]int{}
	for range documents {
		fields := []string{
			fmt.Sprintf("max_attempts: %d", pick(r, 2, 3, 30, 60, 200, 999, 1000)), "jitter: " + pick(r, "none", "full"),
			"backoff: " + pick(r, "1ms", "1s", "1h"), fmt.Sprintf("backoff_multiplier: %d", 1+r.IntN(3)),
			"backoff_cap: " + pick(r, "1h", "24h", "0"), "max_pushback: " + pick(r, "1s", "24h", "null"),
		}
		if r.IntN(4) == 0 {
			fields = append(fields, "overall_timeout: "+pick(r, "1h", "24h"))
		}
		_, list, s := proved(t, "version: 1\njobs:\n  j: {retry: {"+strings.Join(fields, ", ")+"}}\n")
		endless := false
		for _, pushback := range []time.Duration{0, policy.Unbounded} {
			endless = endless || s.within <= 0 && s.endless(pushback)
		}
		verdicts[endless]++
		if got := verdictOf(list, "unbounded-retry"); (got == Violated) != endless {
			t.Fatalf("proved %q, the loop is without end: %t\n%s", got, endless, fields)
		}
	}
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("one-sided: %v", verdicts)
	}
}

// endless retries until the policy stops, or for as many attempts as any document allows, or for 100 years of delays.
func (s *subject) endless(pushback time.Duration) bool {
	total := time.Duration(0)
	for n := 1; ; n++ {
		_, longest := decision.Bounds(&s.policy.Retry, n-1)
		v := decision.Next(&s.policy.Retry, &decision.State{
			Surface: s.key.Surface(), Attempt: n, Left: decision.Unbounded, LeftReason: policy.ReasonOverallTimeout, External: true, Delay: longest,
		}, &classify.Outcome{Kind: classify.Retryable, Pushback: pushback})
		if v.Action != decision.Retry {
			return n >= 1000
		}
		if total = decision.Sum(total, v.Delay); total >= policy.Unbounded {
			return true
		}
	}
}

// TestT1TimeoutUnreachableIsThatOfTheExecutor makes a call whose attempts hang: its first attempt ends with its own timeout and is
// retried, or with the work and is not.
func TestT1TimeoutUnreachableIsThatOfTheExecutor(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2026))
	verdicts := map[Verdict]int{}
	for range 300 {
		timeout := 1 + r.IntN(20)
		text := fmt.Sprintf("version: 1\npolicies:\n  a.B: {retry: {max_attempts: %d, backoff: 1ms, jitter: none, timeout: %dms, overall_timeout: %dms}}\n",
			1+r.IntN(3), timeout, pick(r, timeout, timeout+1, timeout+2, 1+r.IntN(20)))
		d, list, s := proved(t, text)
		attempts, _, took := run(t, d, time.Hour)
		own := s.policy.Retry.TimeoutPerAttempt
		// With a single attempt, or none left in time, the call ends with its first attempt; only its time tells which timeout it was.
		works := attempts > 1 || took == own && (s.policy.Retry.MaxAttempts == 1 || s.within > own)
		verdict := verdictOf(list, "timeout-unreachable")
		verdicts[verdict]++
		if (verdict == Holds) != works {
			t.Fatalf("proved %q; %d attempts in %s\n%s", verdict, attempts, took, text)
		}
	}
	if verdicts[Holds] == 0 || verdicts[Violated] == 0 {
		t.Errorf("one-sided: %v", verdicts)
	}
}

// TestT1LoadIsThatOfTheExecutor makes many calls at a time whose attempts all hang until their timeout, with random budgets and hedges.
// Hedges that nothing bounds are all launched; budgets leave no more attempts than is proved of them, after their burst.
func TestT1LoadIsThatOfTheExecutor(t *testing.T) {
	const calls, burst = 50, 2
	documents := 1_000
	if testing.Short() {
		documents = 60
	}
	r := rand.New(rand.NewPCG(13, 2026))
	verdicts := map[string]int{}
	for range documents {
		budgets := []string{"", "{kind: unlimited}", fmt.Sprintf("{kind: retry_ratio, ratio: %g, burst: %d}", pick(r, 0.1, 0.5, 1), burst),
			fmt.Sprintf("{kind: token_bucket, capacity: %d, refill_per_second: 1}", burst)}
		kind := r.IntN(len(budgets))
		declared, reference := "", ""
		if kind > 0 {
			declared, reference = "budgets:\n  b: "+budgets[kind]+"\n", ", budget: {name: b}"
		}
		hedge := pick(r, "", ", budget: {name: b}")
		if kind == 0 {
			hedge = ""
		}
		text := fmt.Sprintf("version: 1\n%spolicies:\n  a.B: {retry: {max_attempts: %d, backoff: 1ms, jitter: none, timeout: 100ms%s}, hedge: {enabled: true, max_hedges: %d, delay: 10ms%s%s}}\n",
			declared, 1+r.IntN(5), pick(r, "", reference), 1+r.IntN(3), hedge, pick(r, "", ", max_extra_load: 0.1"))
		d, list, s := proved(t, text)
		load := amplify.Of(s.policy, s.within, s.budgets)
		attempts, groups := runMany(t, d, calls)
		hedges, most := attempts-groups, groups*s.policy.Hedge.MaxHedges
		always, factor := verdictOf(list, "hedge-always-launches"), verdictOf(list, "load-factor")
		verdicts["hedge-always-launches "+string(always)]++
		verdicts["load-factor "+string(factor)]++
		switch {
		case always == Violated && hedges != most:
			t.Fatalf("nothing bounds the hedges, and %d of %d were launched\n%s", hedges, most, text)
		case always == Holds && hedges == most:
			t.Fatalf("something bounds the hedges, and all %d were launched\n%s", hedges, text)
		case factor == Violated && attempts <= calls*policy.CallLimits().Attempts.Max:
			t.Fatalf("nothing bounds the attempts, and %d calls made %d\n%s", calls, attempts, text)
		case float64(attempts) > calls*load.Budgeted+burst+1e-6:
			t.Fatalf("proved at most %g attempts per call, and %d calls made %d\n%s", load.Budgeted, calls, attempts, text)
		}
	}
	for _, code := range []string{"hedge-always-launches", "load-factor"} {
		if verdicts[code+" holds"] == 0 || verdicts[code+" violated"] == 0 {
			t.Errorf("one-sided: %v", verdicts)
		}
	}
	t.Log(verdicts)
}

// runMany makes calls at a time whose attempts hang until their timeout, and returns how many attempts and groups they started.
func runMany(t *testing.T, d *policyfile.Document, calls int) (attempts, groups int) {
	synctest.Test(t, func(t *testing.T) {
		var started, primaries atomic.Int32
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: d.Set})
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				_ = e.Do(t.Context(), policy.ParseKey("a.B"), func(ctx context.Context) error {
					started.Add(1)
					if a, ok := retry.AttemptFromContext(ctx); ok && a.HedgeIndex == 0 {
						primaries.Add(1)
					}
					<-ctx.Done()
					return errors.New("failed")
				})
			})
		}
		wg.Wait()
		e.Wait(t.Context())
		attempts, groups = int(started.Load()), int(primaries.Load())
	})
	return attempts, groups
}
