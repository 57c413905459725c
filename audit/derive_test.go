package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

var (
	bg       = context.Background()
	errDown  = errors.New("down")
	errQuota = errors.New("quota")
	ends     = []error{
		nil, errDown, errQuota, context.DeadlineExceeded, classify.Permanent(errDown), classify.Business(errDown),
		classify.After(errDown, 30*time.Millisecond), classify.After(errDown, 2*time.Hour),
	}
)

func classifyQuota(_ any, err error) classify.Outcome {
	if !errors.Is(err, errQuota) {
		return classify.Default(nil, err)
	}
	return classify.Outcome{
		Kind: classify.Retryable, Category: classify.CategorySystem, Class: "quota", Reason: policy.ReasonError, Pushback: 5 * time.Millisecond,
		Attributes: map[string]string{"limit": "10"},
	}
}

// drawnPolicy draws a policy that uses every part of the decision core.
func drawnPolicy(t *rapid.T) policy.Policy {
	p := policy.Policy{ID: "rev-1"}
	r := &p.Retry
	r.MaxAttempts, r.InitialBackoff = rapid.IntRange(1, 4).Draw(t, "attempts"), 10*time.Millisecond
	r.Jitter = rapid.SampledFrom([]policy.Jitter{"none", "full", "equal", "proportional", "decorrelated"}).Draw(t, "jitter")
	r.TimeoutPerAttempt = rapid.SampledFrom([]time.Duration{0, 150 * time.Millisecond}).Draw(t, "timeout")
	r.OverallTimeout = rapid.SampledFrom([]time.Duration{0, 400 * time.Millisecond}).Draw(t, "overall")
	r.ClassifierName = rapid.SampledFrom([]string{"", "c"}).Draw(t, "classifier")
	r.RetryOn = rapid.SampledFrom([][]policy.Class{nil, {"timeout"}, {"wide"}}).Draw(t, "retry_on")
	r.AbortOn = rapid.SampledFrom([][]policy.Class{nil, {"eof"}}).Draw(t, "abort_on")
	r.Budget = policy.BudgetRef{Name: rapid.SampledFrom([]string{"", "few"}).Draw(t, "budget")}
	p.Hedge.Enabled = rapid.Bool().Draw(t, "hedged")
	p.Hedge.MaxHedges, p.Hedge.HedgeDelay = 2, 50*time.Millisecond
	p.Hedge.CancelOnFirstTerminal = rapid.Bool().Draw(t, "cancel")
	if rapid.Bool().Draw(t, "circuit") {
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 3}
	}
	return p
}

// TestA4EveryDecisionFollowsFromStoredEvents runs random calls under random policies, with per-call changes, and derives each
// judgement, group outcome, decision and delay again from the lines in the sink.
func TestA4EveryDecisionFollowsFromStoredEvents(t *testing.T) {
	decisions := 0
	rapid.Check(t, func(rt *rapid.T) {
		p := drawnPolicy(rt)
		script := rapid.SliceOfN(rapid.IntRange(0, len(ends)-1), 1, 12).Draw(rt, "script")
		latency := rapid.SliceOfN(rapid.SampledFrom([]int{0, 20, 75, 110, 151, 301, 501}), 1, 12).Draw(rt, "latency")
		cancelled := time.Duration(rapid.SampledFrom([]int{2000, 250, 60, 0}).Draw(rt, "cancelled")) * time.Millisecond
		mode := rapid.SampledFrom([]audit.Mode{audit.FailClosed, audit.Buffered}).Draw(rt, "mode")
		edited := rapid.Bool().Draw(rt, "edited")
		synctest.Test(t, func(t *testing.T) {
			compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
			if err != nil {
				t.Fatal(err)
			}
			var sink audit.MemorySink
			log, err := audit.Open(bg, &sink, audit.Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			few := budget.NewRegistry()
			few.Register("few", budget.NewTokenBucket(3, 0.001))
			e := retry.NewExecutor(retry.ExecutorOptions{
				Provider: policy.NewSet(policy.SetConfig{Calls: compiled}), Observer: log, Journal: log,
				Classifiers: map[string]classify.Classifier{"c": classify.Func(classifyQuota)},
				Budgets:     few,
				Classes:     []classify.Family{classify.Custom("quota", "wide", classify.Is(errQuota))},
			})
			ctx, cancel := context.WithCancel(bg)
			time.AfterFunc(cancelled, cancel)
			var options []retry.CallOption
			if edited {
				options = append(options, retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts++ }))
			}
			_ = e.Do(ctx, policy.ParseKey("user-service.GetUser"), func(ctx context.Context) error {
				a, _ := retry.AttemptFromContext(ctx)
				select {
				case <-time.After(time.Duration(latency[a.Number%len(latency)]) * time.Millisecond):
					return ends[script[a.Number%len(script)]]
				case <-ctx.Done():
					return ctx.Err()
				}
			}, options...)
			_ = e.Wait(bg)
			cancel()
			if err := log.Close(bg); err != nil {
				t.Fatal(err)
			}
			decisions += derive(t, sink.Events())
		})
	})
	if decisions == 0 {
		t.Error("no decision was checked")
	}
}

// derive checks stored events against the decision core and returns the number of decisions.
func derive(t *testing.T, events []audit.Event) (decisions int) {
	t.Helper()
	policies, outcomes, seen := map[string]*policy.Policy{}, map[int]classify.Outcome{}, map[string]bool{}
	for i := range events {
		e := &events[i]
		place := fmt.Sprint(e.WorkSeq, e.Type)
		if e.Type == audit.PolicySnapshot {
			p, err := e.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			policies[e.PolicyRevision] = p
			if revision, _ := p.Revise(); revision != e.PolicyRevision {
				t.Errorf("the snapshot's revision is %s, not %s", revision, e.PolicyRevision)
			}
			continue
		}
		if seen[place] {
			t.Errorf("recorded twice: %s", place)
		}
		seen[place] = true
		p := policies[e.PolicyRevision]
		outcome, err := e.Outcome()
		facts, judged, factsErr := e.JudgedFrom()
		switch {
		case e.Type == audit.ChainOpened || e.Type == audit.CircuitChanged:
			continue
		case p == nil:
			t.Fatalf("%s before the snapshot of its policy", e.Type)
		case err != nil || factsErr != nil:
			t.Fatal(err, factsErr)
		}
		want, rule := outcome, e.MatchedRule
		if judged {
			want, rule = decision.Judge(&p.Retry, &facts)
		}
		if e.Type == audit.Hedge {
			outcomes[e.Attempt] = outcome
		} else {
			decisions++
			if len(e.Group) > 1 && rule != decision.RuleContext {
				g := decision.Group{CancelOnFirstTerminal: p.Hedge.CancelOnFirstTerminal}
				for range e.Group {
					g.Launch()
				}
				for _, n := range e.Group {
					if _, known := outcomes[n]; !known {
						t.Errorf("attempt %d of the group is not recorded", n)
					}
					g.End(n, outcomes[n])
				}
				var deciding int
				if want, deciding = g.Outcome(); deciding != e.Deciding {
					t.Errorf("attempt %d decided, derived %d", e.Deciding, deciding)
				}
			}
			verdict, err := e.Verdict()
			if err != nil {
				t.Fatal(err)
			}
			admission := verdict.Reason == policy.ReasonBudgetDenied || verdict.Reason == policy.ReasonCircuitOpen
			state := e.State()
			if next := decision.Next(&p.Retry, &state, &outcome); next != verdict && !admission {
				t.Errorf("verdict %+v, derived %+v from %+v", verdict, next, state)
			}
			if admission && (!e.Denied || *e.BudgetAllowed && e.Circuit == "") {
				t.Errorf("%s: the answers of the budget and the breaker are not recorded: %+v", verdict.Reason, e)
			}
		}
		if diff := cmp.Diff(want, outcome); diff != "" || rule != e.MatchedRule {
			t.Errorf("%s of attempt %d by %s, derived by %s: %s", e.Type, e.Attempt, e.MatchedRule, rule, diff)
		}
	}
	return decisions
}

// TestA3LogsVerify checks that a rotated file that a log wrote in several runs is intact up to the signed heads.
func TestA3LogsVerify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for range 3 {
		sink, err := audit.OpenFile(path, audit.FileOptions{MaxSize: 5000})
		if err != nil {
			t.Fatal(err)
		}
		log, err := audit.Open(bg, sink, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			if err := log.OperatorAction(bg, audit.Operation{Actor: "ann", Action: "resolve", WorkID: fmt.Sprint(n)}); err != nil {
				t.Fatal(err)
			}
		}
		heads, err := sink.Heads(bg)
		if err := errors.Join(err, log.Close(bg), sink.Close()); err != nil {
			t.Fatal(err)
		}
		report, err := audit.Verify(bg, audit.NewFileSource(path), audit.VerifyOptions{Heads: heads})
		if err != nil || !report.Intact() || !report.TailVerified || len(report.Chains) != len(heads) {
			t.Errorf("%v: %+v", err, report)
		}
	}
}
