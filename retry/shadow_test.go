package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// shadowed runs a call under p beside the trial of other, and returns its decisions.
func shadowed(t *testing.T, p, other policy.Policy, op retry.Operation, change ...func(*retry.ExecutorOptions)) (decisions []*observe.Decision) {
	t.Helper()
	l := &log{}
	change = append([]func(*retry.ExecutorOptions){func(o *retry.ExecutorOptions) {
		o.Observer, o.Shadow = l, provide(t, other)
		o.Classifiers = map[string]classify.Classifier{"c": classify.Func(classifyQuota)}
	}}, change...)
	_ = executor(t, p, change...).Do(bg, key, op)
	for _, e := range l.events {
		if e.Type == observe.Decided {
			decisions = append(decisions, e.Decision)
		}
	}
	return decisions
}

func TestT6APolicyUnderTrialHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, calls := script(errDown)
		began := time.Now()
		decisions := shadowed(t, exact(4), exact(2), op)
		if *calls != 4 || time.Since(began) != 70*time.Millisecond || len(decisions) != 4 {
			t.Errorf("%d attempts in %s, %d decisions", *calls, time.Since(began), len(decisions))
		}
		for i, d := range decisions {
			exhausted := d.Shadow != nil && d.Shadow.Verdict.Reason == policy.ReasonAttemptsExhausted && d.Shadow.Verdict.Action == decision.Stop && d.Shadow.Revision != ""
			if differs := i == 1 || i == 2; differs != exhausted || !differs && d.Shadow != nil { // the trial allows two attempts
				t.Errorf("decision %d: %+v, under trial %+v", i+1, d.Verdict, d.Shadow)
			}
		}
	})
}

// TestT6TheSamePolicyNeverDiverges: the trial decides from the same facts, state and seed.
func TestT6TheSamePolicyNeverDiverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := randomPolicy(rt)
		script := rapid.SliceOfN(rapid.IntRange(0, len(ends)-1), 1, 12).Draw(rt, "script")
		latency := rapid.SliceOfN(rapid.SampledFrom([]int{0, 20, 75, 110, 151, 301, 501}), 1, 12).Draw(rt, "latency")
		synctest.Test(t, func(t *testing.T) {
			for i, d := range shadowed(t, p, p, scripted(script, latency)) {
				if d.Shadow != nil {
					t.Errorf("decision %d: %+v, under trial %+v", i+1, d.Verdict, d.Shadow.Verdict)
				}
			}
			time.Sleep(time.Minute) // of losers
		})
	})
}

// TestT6ATrialDecidesAsThePolicyWouldInTheSameState compares the trial with package decision.
func TestT6ATrialDecidesAsThePolicyWouldInTheSameState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, other := randomPolicy(rt), randomPolicy(rt)
		p.Hedge.Enabled, p.Retry.OverallTimeout, other.Retry.OverallTimeout = false, 0, 0
		other.Retry.ClassifierName = p.Retry.ClassifierName
		script := rapid.SliceOfN(rapid.IntRange(0, len(ends)-1), 1, 12).Draw(rt, "script")
		synctest.Test(t, func(t *testing.T) {
			under, _ := provide(t, other).Policy(bg, key)
			for i, d := range shadowed(t, p, other, scripted(script, []int{1})) {
				s := d.State
				if decision.Draws(under.Retry.Jitter) && s.Seed == 0 {
					continue // the policy in force draws nothing, so that the seed is not in the event
				}
				want := d.Verdict
				if d.Rule != "" {
					o, _ := decision.Judge(&under.Retry, &d.Facts)
					want = decision.Next(&under.Retry, &s, &o)
				}
				if got := d.Verdict; d.Shadow != nil {
					if got = d.Shadow.Verdict; got == d.Verdict {
						t.Errorf("decision %d: %+v is not a divergence", i+1, got)
					}
					if got != want {
						t.Errorf("decision %d: under trial %+v, want %+v", i+1, got, want)
					}
				} else if got != want {
					t.Errorf("decision %d: %+v, want %+v", i+1, got, want)
				}
			}
		})
	})
}

func TestT6AnOverallTimeoutUnderTrialCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := script(errDown)
		short := exact(4)
		short.Retry.OverallTimeout = 25 * time.Millisecond
		for name, p := range map[string]policy.Policy{"beside none": exact(4), "beside another": withOverall(exact(4), time.Hour)} {
			decisions := shadowed(t, p, short, op)
			if d := decisions[1].Shadow; decisions[0].Shadow != nil || d == nil || d.Verdict.Reason != policy.ReasonOverallTimeout {
				t.Errorf("%s: %+v, %+v", name, decisions[0].Shadow, d)
			}
		}
		if d := shadowed(t, withOverall(exact(4), 25*time.Millisecond), exact(4), op); d[1].Shadow == nil || d[1].Shadow.Verdict.Action != decision.Retry {
			t.Errorf("without the timeout: %+v", d[1].Shadow)
		}
	})
}

func withOverall(p policy.Policy, d time.Duration) policy.Policy {
	p.Retry.OverallTimeout = d
	return p
}

// TestT6ARefusedRetryIsNotADivergence: the record cannot show what the trial's own budget would have answered.
func TestT6ARefusedRetryIsNotADivergence(t *testing.T) {
	p := exact(4)
	p.Retry.Budget.Name = "none"
	op, calls := script(errDown)
	tight := budget.NewRegistry()
	tight.Register("none", budget.NewTokenBucket(1, 0)) // the first attempt takes the only token
	decisions := shadowed(t, p, exact(4), op, func(o *retry.ExecutorOptions) { o.Budgets = tight })
	if len(decisions) != 1 || *calls != 1 {
		t.Fatalf("%d decisions after %d attempts: no retry was refused", len(decisions), *calls)
	}
	if d := decisions[0]; d.Verdict.Reason != policy.ReasonBudgetDenied || d.Shadow != nil {
		t.Errorf("%+v, under trial %+v", d.Verdict, d.Shadow)
	}
}

func TestT6OptionsOfACallApplyToTheTrial(t *testing.T) {
	l := &log{}
	e := executor(t, exact(4), func(o *retry.ExecutorOptions) { o.Observer, o.Shadow = l, provide(t, exact(2)) })
	op, _ := script(errDown)
	_ = e.Do(bg, key, op, retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 3 }))
	for _, event := range l.events {
		if event.Type == observe.Decided && event.Decision.Shadow != nil {
			t.Errorf("the call set the maximum for both: %+v", event.Decision.Shadow)
		}
	}
}

// panicky is a provider that panics.
type panicky struct{}

func (panicky) Policy(context.Context, policy.Key) (*policy.Policy, error) { panic("no policy today") }

func TestT6AProviderUnderTrialThatFailsHasNoEffect(t *testing.T) {
	op, calls := script(errDown)
	for _, d := range shadowed(t, exact(2), exact(1), op, func(o *retry.ExecutorOptions) { o.Shadow, o.RecoverPanics = panicky{}, true }) {
		if d.Shadow != nil {
			t.Errorf("%+v", d.Shadow)
		}
	}
	if *calls != 2 {
		t.Errorf("%d attempts", *calls)
	}
}

// loading is a provider whose first answer takes a minute, as that of a control plane that is away.
type loading struct{}

func (loading) Policy(ctx context.Context, _ policy.Key) (*policy.Policy, error) {
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	return nil, policy.ErrProviderUnavailable
}

func TestT6WorkNeverWaitsForAProviderUnderTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(2)
		p.Retry.OverallTimeout = time.Second
		e := executor(t, p, func(o *retry.ExecutorOptions) { o.Observer, o.Shadow = &log{}, loading{} })
		op, calls := script(errDown, nil)
		if err := e.Do(bg, key, op); err != nil || *calls != 2 {
			t.Errorf("%v after %d attempts", err, *calls)
		}
	})
}

// A job's own maximum of attempts binds the trial too.
func TestT6AJobsOwnMaximumBindsTheTrial(t *testing.T) {
	l := &log{}
	e := executor(t, exact(9), func(o *retry.ExecutorOptions) { o.Observer, o.Shadow = l, provide(t, exact(2)) })
	op, _ := script(errDown)
	for before := range 4 {
		_ = e.Once(bg, retry.Work{Key: key, ID: "w", Turn: before + 1, Attempts: before, MaxAttempts: 4}, op)
	}
	for _, event := range l.events {
		if event.Type != observe.Decided {
			continue
		}
		n, differs := event.Decision.State.Attempt, event.Decision.Shadow != nil
		if want := n == 2 || n == 3; differs != want {
			t.Errorf("after attempt %d of at most 4, or 2 under trial: %+v", n, event.Decision.Shadow)
		}
	}
}

// BenchmarkShadow compares calls beside a policy under trial with calls without one.
func BenchmarkShadow(b *testing.B) {
	made := func(attempts int) policy.Provider {
		p := exact(attempts)
		p.Retry.InitialBackoff = time.Millisecond
		compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
		if err != nil {
			b.Fatal(err)
		}
		return policy.NewSet(policy.SetConfig{Calls: compiled})
	}
	none := observe.Func(func(context.Context, *observe.Event) {})
	failing := func(context.Context) error { return errDown }
	passing := func(context.Context) error { return nil }
	for _, c := range []struct {
		name   string
		shadow policy.Provider
		op     retry.Operation
	}{
		{"success/none", nil, passing}, {"success/shadow", made(2), passing},
		{"failure/none", nil, failing}, {"failure/same", made(3), failing}, {"failure/diverges", made(2), failing},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := retry.NewExecutor(retry.ExecutorOptions{
				Provider: made(3), Observer: none, Shadow: c.shadow, Wait: func(context.Context, time.Duration) error { return nil },
			})
			b.ReportAllocs()
			for b.Loop() {
				_ = e.Do(bg, key, c.op)
			}
		})
	}
}
