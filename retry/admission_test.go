package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// counting is a budget that allows the first `allow` attempts and counts grants and releases.
type counting struct {
	allow    int
	launch   bool
	asked    []int
	granted  atomic.Int64
	released atomic.Int64
}

func (c *counting) AllowAttempt(_ context.Context, _ policy.Key, i int, _ budget.AttemptKind, _ policy.BudgetRef) budget.Decision {
	c.asked = append(c.asked, i)
	if len(c.asked) > c.allow {
		return budget.Deny("counted out")
	}
	c.granted.Add(1)
	d := budget.Allow()
	d.Release = func() { c.released.Add(1) }
	return d
}

func (c *counting) AskAtLaunch() bool { return c.launch }

func (c *counting) check(t *testing.T) {
	t.Helper()
	if g, r := c.granted.Load(), c.released.Load(); g != r {
		t.Errorf("%d attempts granted, %d released", g, r)
	}
}

func withBudget(t *testing.T, p policy.Policy, b budget.Budget, change ...func(*retry.ExecutorOptions)) *retry.Executor {
	t.Helper()
	registry := budget.NewRegistry()
	if err := registry.Register("b", b); err != nil {
		t.Fatal(err)
	}
	p.Retry.Budget.Name = "b"
	return executor(t, p, append(change, func(o *retry.ExecutorOptions) { o.Budgets = registry })...)
}

func TestR7FirstAttemptDeniedRunsNothing(t *testing.T) {
	b := &counting{}
	op, calls := script(errDown)
	timeline, err := withBudget(t, exact(3), b).DoWithTimeline(bg, key, op)
	e := failure(t, err, policy.ReasonBudgetDenied)
	if *calls != 0 || e.Attempts != 0 || !errors.Is(err, retry.ErrBudgetDenied) {
		t.Errorf("%d calls, %v", *calls, err)
	}
	if len(timeline.Attempts) != 1 || !timeline.Attempts[0].Denied || timeline.Attempts[0].BudgetAllowed {
		t.Errorf("records %+v", timeline.Attempts)
	}
	if detail := timeline.Attempts[0].Outcome.Attributes[observe.AttrDetail]; detail != "counted out" {
		t.Errorf("detail %q", detail)
	}
	b.check(t)
}

func TestR4ErrorOfARefusalSaysHowLongItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(1)
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Minute}
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: provide(t, p)})
		op, _ := script(errDown)
		if opened := failure(t, e.Do(bg, key, op), policy.ReasonAttemptsExhausted); opened.RetryAfter != 0 {
			t.Errorf("nothing was refused, but the error asks for a wait of %v", opened.RetryAfter)
		}
		time.Sleep(20 * time.Second)
		if refused := failure(t, e.Do(bg, key, op), policy.ReasonCircuitOpen); refused.RetryAfter != 40*time.Second {
			t.Errorf("the breaker stays open for 40s, but the error says %v", refused.RetryAfter)
		}
	})
}

// talking is a budget with its own reasons. It allows the first two attempts.
type talking struct{ counting }

func (b *talking) AllowAttempt(ctx context.Context, k policy.Key, i int, kind budget.AttemptKind, ref policy.BudgetRef) budget.Decision {
	d := b.counting.AllowAttempt(ctx, k, i, kind, ref)
	d.Reason, d.Detail = policy.Reason("hard_limit"), fmt.Sprintf("asked for attempt %d", i)
	if d.Allowed {
		d.Reason = "soft_limit"
	}
	return d
}

func TestR5BudgetsOwnReasonAndDetailAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(3)
		p.Retry.ClassifierName = "c"
		shared := map[string]string{"detail": "classified", "k": "v"}
		l := &log{}
		e := withBudget(t, p, &talking{counting{allow: 2}}, func(o *retry.ExecutorOptions) {
			o.Observer = l
			o.Classifiers = map[string]classify.Classifier{"c": classify.Func(func(any, error) classify.Outcome {
				return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError, Attributes: shared}
			})}
		})
		op, _ := script(errDown)
		timeline, err := e.DoWithTimeline(bg, key, op)
		failure(t, err, policy.ReasonBudgetDenied)
		want := []map[string]string{
			{"budget_reason": "soft_limit", "detail": "classified; asked for attempt 0", "k": "v"},
			{"budget_reason": "soft_limit", "detail": "classified; asked for attempt 1", "k": "v"},
			{"budget_reason": "hard_limit", "detail": "asked for attempt 2"},
		}
		for i, a := range timeline.Attempts {
			if diff := cmp.Diff(want[i], a.Outcome.Attributes); diff != "" {
				t.Errorf("attempt %d: %s", a.Attempt, diff)
			}
			if reason := a.BudgetReason; reason != policy.ReasonAllowed && reason != policy.ReasonBudgetDenied {
				t.Errorf("attempt %d: %s is not a known reason", a.Attempt, reason)
			}
		}
		if len(timeline.Attempts) != 3 || len(shared) != 2 {
			t.Errorf("%d attempts; the classifier's attributes are %v", len(timeline.Attempts), shared)
		}
		for i, ended := range l.of(observe.AttemptEnded) {
			if diff := cmp.Diff(want[i], ended.Attempt.Outcome.Attributes); diff != "" {
				t.Errorf("event %d: %s", i, diff)
			}
		}
		text, err := json.Marshal(timeline)
		if err != nil || !strings.Contains(string(text), `"attributes":{"budget_reason":"hard_limit","detail":"asked for attempt 2"}`) {
			t.Errorf("%s %v", text, err)
		}
	})
}

func TestR7RetryDeniedBeforeTheWaitKeepsTheOperationsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 1}
		op, calls := script(errDown)
		start := time.Now()
		timeline, err := withBudget(t, exact(3), b).DoWithTimeline(bg, key, op)
		failure(t, err, policy.ReasonBudgetDenied)
		if *calls != 1 || !errors.Is(err, errDown) || time.Since(start) != 0 {
			t.Errorf("%d calls, %v, waited %v", *calls, err, time.Since(start))
		}
		if len(timeline.Attempts) != 2 || timeline.Attempts[0].Denied || !timeline.Attempts[1].Denied {
			t.Errorf("records %+v, want one real and one denied", timeline.Attempts)
		}
		if timeline.Reason != policy.ReasonBudgetDenied {
			t.Errorf("timeline's reason %s", timeline.Reason)
		}
		b.check(t)
	})
}

func TestR5ARetryDeniedBeforeTheWaitIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(5)
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2}
		op, _ := script(errDown)
		timeline, err := executor(t, p).DoWithTimeline(bg, key, op)
		failure(t, err, policy.ReasonCircuitOpen)
		denied := timeline.Attempts[len(timeline.Attempts)-1]
		if !denied.Denied || denied.Circuit != "open" || denied.Backoff != 0 || denied.RetryIndex != 2 {
			t.Errorf("%+v", denied)
		}
	})
}

func TestR7BudgetSeesLaunchOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 9}
		op, _ := script(errDown)
		_ = withBudget(t, exact(3), b).Do(bg, key, op)
		if len(b.asked) != 3 || b.asked[0] != 0 || b.asked[1] != 1 || b.asked[2] != 2 {
			t.Errorf("asked for %v", b.asked)
		}
		b.check(t)
	})
}

func TestR7ReleaseRunsOnceHoweverAnAttemptEnds(t *testing.T) {
	for name, launch := range map[string]bool{"asked when decided": false, "asked at launch": true} {
		t.Run(name, func(t *testing.T) {
			for end, run := range map[string]func(ctx context.Context, cancel func()) error{
				"success": func(context.Context, func()) error { return nil },
				"failure": func(context.Context, func()) error { return errDown },
				"cancel":  func(_ context.Context, cancel func()) error { cancel(); return errDown },
				"panic":   func(context.Context, func()) error { panic("boom") },
			} {
				t.Run(end, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := &counting{allow: 9, launch: launch}
						ctx, cancel := context.WithCancel(bg)
						defer cancel()
						func() {
							defer func() { _ = recover() }()
							_ = withBudget(t, exact(3), b).Do(ctx, key, func(ctx context.Context) error { return run(ctx, cancel) })
						}()
						b.check(t)
						if b.granted.Load() == 0 {
							t.Error("nothing was granted")
						}
					})
				})
			}
		})
	}
}

func TestR7GrantOfARetryThatIsNeverLaunchedIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 9}
		ctx, cancel := context.WithCancel(bg)
		time.AfterFunc(5*time.Millisecond, cancel) // during the wait of 10 ms
		op, calls := script(errDown)
		err := withBudget(t, exact(3), b).Do(ctx, key, op)
		failure(t, err, policy.ReasonCanceled)
		if *calls != 1 || b.granted.Load() != 2 {
			t.Errorf("%d calls, %d granted", *calls, b.granted.Load())
		}
		b.check(t)
	})
}

func TestR2BudgetNotFound(t *testing.T) {
	p := exact(2)
	p.Retry.Budget.Name = "nowhere"
	for mode, want := range map[retry.FailureMode]int{retry.FailureFallback: 2, retry.FailureAllow: 2, retry.FailureDeny: 0} {
		synctest.Test(t, func(t *testing.T) {
			op, calls := script(errDown)
			timeline, err := executor(t, p, func(o *retry.ExecutorOptions) { o.MissingBudgetMode = mode }).DoWithTimeline(bg, key, op)
			if *calls != want {
				t.Errorf("%s: %d calls, want %d (%v)", mode, *calls, want, err)
			}
			if got := timeline.Attempts[0].BudgetReason; got != policy.ReasonBudgetNotFound {
				t.Errorf("%s: budget_reason %q", mode, got)
			}
			if timeline.Attributes.Get(observe.AttrBudgetNotFound) != "nowhere" {
				t.Errorf("%s: not recorded", mode)
			}
		})
	}
}

func TestP13PlansFollowTheRegistry(t *testing.T) {
	p := exact(1)
	p.Retry.Budget.Name = "b"
	static := provide(t, p)
	for name, source := range map[string]policy.Provider{
		"with versions":    static,
		"without versions": unversioned(func() (*policy.Policy, error) { return static.Policy(bg, policy.Key{}) }),
	} {
		t.Run(name, func(t *testing.T) {
			var registry budget.Registry
			e := retry.NewExecutor(retry.ExecutorOptions{Provider: source, Budgets: &registry})
			do := func() (observe.Timeline, error) {
				return e.DoWithTimeline(bg, key, func(context.Context) error { return nil })
			}
			if timeline, err := do(); err != nil || timeline.Attributes.Get(observe.AttrBudgetNotFound) != "b" {
				t.Errorf("%v %+v", err, timeline.Attributes)
			}
			apply := func(b policy.Budget) {
				if err := registry.Apply(map[string]policy.Budget{"b": b}); err != nil {
					t.Fatal(err)
				}
			}
			apply(policy.Budget{Kind: policy.BudgetRetryRatio})
			if timeline, err := do(); err != nil || timeline.Attempts[0].BudgetReason != policy.ReasonAllowed {
				t.Errorf("a new budget: %v %+v", err, timeline.Attempts)
			}
			apply(policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: 1, RefillPerSecond: 1e-9})
			_, first := do()
			_, second := do()
			if failure(t, second, policy.ReasonBudgetDenied); first != nil {
				t.Errorf("a budget of another kind: %v", first)
			}
			if err := registry.Register("b", budget.Unlimited{}); err != nil { // the registration in code wins
				t.Fatal(err)
			}
			if _, err := do(); err != nil {
				t.Errorf("a budget registered in code: %v", err)
			}
		})
	}
}

// TestR8ExtraAttemptsStayWithinTheRatio checks that extra attempts never exceed ratio · calls + burst, with any backoff,
// latency and hedging.
func TestR8ExtraAttemptsStayWithinTheRatio(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		calls := rapid.IntRange(1, 60).Draw(rt, "calls")
		latency := time.Duration(rapid.IntRange(0, 500).Draw(rt, "latency_ms")) * time.Millisecond
		backoff := time.Duration(rapid.IntRange(1, 2000).Draw(rt, "backoff_ms")) * time.Millisecond
		hedged := rapid.Bool().Draw(rt, "hedged")
		failures := rapid.IntRange(0, 100).Draw(rt, "failure_percent")
		synctest.Test(t, func(t *testing.T) {
			p := exact(5)
			p.Retry.InitialBackoff, p.Retry.MaxBackoff = backoff, time.Minute
			p.Hedge = policy.Hedge{Enabled: hedged, MaxHedges: 3, HedgeDelay: 50 * time.Millisecond}
			b, err := budget.New(policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 5})
			if err != nil {
				t.Fatal(err)
			}
			e := withBudget(t, p, b)
			var attempts atomic.Int64
			for i := range calls {
				go func() {
					time.Sleep(time.Duration(i%7) * 30 * time.Millisecond)
					_ = e.Do(bg, key, func(ctx context.Context) error {
						n := attempts.Add(1)
						time.Sleep(latency)
						if int(n*37%100) < failures {
							return errDown
						}
						return nil
					})
				}()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if extra, bound := attempts.Load()-int64(calls), 0.2*float64(calls)+5; float64(extra) > bound {
				t.Errorf("%d extra attempts for %d calls, bound %.1f", extra, calls, bound)
			}
		})
	})
}

func tripping(failures int) policy.Policy {
	p := exact(1)
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: failures, Cooldown: time.Minute}
	return p
}

func TestR11BreakerOpensAndLetsAProbeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		e := executor(t, tripping(2), func(o *retry.ExecutorOptions) { o.Observer = l })
		op, calls := script(errDown, errDown, nil)
		_ = e.Do(bg, key, op)
		_ = e.Do(bg, key, op)
		err := e.Do(bg, key, op)
		if o := failure(t, err, policy.ReasonCircuitOpen).Outcome; o.Kind != classify.Abort || o.Reason != policy.ReasonCircuitOpen {
			t.Errorf("the outcome of a refused call: %+v", o)
		}
		if !errors.Is(err, retry.ErrCircuitOpen) || *calls != 2 {
			t.Errorf("%v after %d calls", err, *calls)
		}
		time.Sleep(time.Minute)
		if err := e.Do(bg, key, op); err != nil {
			t.Errorf("probe: %v", err)
		}
		var states []string
		for _, ev := range l.of(observe.CircuitChanged) {
			states = append(states, ev.Circuit.From+">"+ev.Circuit.To)
		}
		if len(states) != 3 || states[0] != "closed>open" || states[1] != "open>half_open" || states[2] != "half_open>closed" {
			t.Errorf("changes %v", states)
		}
	})
}

func TestR11BusinessErrorsAndCancellationsDoNotOpenIt(t *testing.T) {
	e := executor(t, tripping(1))
	_ = e.Do(bg, key, func(context.Context) error { return classify.Business(errDown) })
	ctx, cancel := context.WithCancel(bg)
	_ = e.Do(ctx, key, func(context.Context) error { cancel(); return errDown })
	if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
		t.Errorf("the breaker opened: %v", err)
	}
}

func TestR11ProbeThatPanicsOrIsCancelledFreesItsSlot(t *testing.T) {
	for name, end := range map[string]func(cancel func()){
		"panic":  func(func()) { panic("boom") },
		"cancel": func(cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := executor(t, tripping(1))
				_ = e.Do(bg, key, func(context.Context) error { return errDown })
				time.Sleep(time.Minute)
				ctx, cancel := context.WithCancel(bg)
				defer cancel()
				func() {
					defer func() { _ = recover() }()
					_ = e.Do(ctx, key, func(context.Context) error { end(cancel); return errDown })
				}()
				time.Sleep(time.Minute)
				if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
					t.Errorf("the slot was not freed: %v", err)
				}
			})
		})
	}
}

func TestR7OpenBreakerStopsARetryBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := tripping(2)
		p.Retry.MaxAttempts = 5
		op, calls := script(errDown)
		start := time.Now()
		timeline, err := executor(t, p).DoWithTimeline(bg, key, op)
		if o := failure(t, err, policy.ReasonCircuitOpen).Outcome; o.Kind != classify.Retryable {
			t.Errorf("the outcome is not that of the last attempt: %+v", o)
		}
		if *calls != 2 || time.Since(start) != 10*time.Millisecond || !errors.Is(err, errDown) {
			t.Errorf("%d calls in %v: %v", *calls, time.Since(start), err)
		}
		if last := timeline.Attempts[len(timeline.Attempts)-1]; !last.Denied || last.Outcome.Reason != policy.ReasonCircuitOpen {
			t.Errorf("last record %+v", last)
		}
	})
}

func TestR7ADeniedFirstAttemptReleasesItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 1}
		e := withBudget(t, tripping(1), b)
		_ = e.Do(bg, key, func(context.Context) error { return errDown })
		time.Sleep(time.Minute)
		failure(t, e.Do(bg, key, func(context.Context) error { return nil }), policy.ReasonBudgetDenied)
		b.allow = 99
		if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
			t.Errorf("the denied attempt kept the probe: %v", err)
		}
	})
}

// provider serves the policy that it currently holds.
type provider struct {
	version atomic.Uint64
	current atomic.Pointer[policy.Policy]
	err     error
}

func (p *provider) Policy(context.Context, policy.Key) (*policy.Policy, error) {
	return p.current.Load(), p.err
}
func (p *provider) Version() uint64 { return p.version.Load() }

func (p *provider) set(t *testing.T, next policy.Policy) {
	t.Helper()
	compiled, err := policy.Compile(next, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	p.current.Store(compiled)
	p.version.Add(1)
}

func TestR11ChangedCircuitPolicyReachesALiveBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &provider{}
		source.set(t, tripping(5))
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: source})
		fail := func() error { return e.Do(bg, key, func(context.Context) error { return errDown }) }
		_, _, _ = fail(), fail(), fail()
		source.set(t, tripping(4))
		_ = fail() // the fourth in a row: the count was kept, and the new bound applies
		failure(t, fail(), policy.ReasonCircuitOpen)
		next := tripping(4)
		next.Circuit = policy.Circuit{}
		source.set(t, next)
		failure(t, fail(), policy.ReasonAttemptsExhausted) // switched off
	})
}

func TestP13ReloadKeepsABudgetsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(1)
		p.Retry.Budget.Name = "shared"
		compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceFile)
		if err != nil {
			t.Fatal(err)
		}
		document := func() *policy.Set {
			return policy.NewSet(policy.SetConfig{Calls: compiled, Budgets: map[string]policy.Budget{
				"shared": {Kind: policy.BudgetTokenBucket, Capacity: 3, RefillPerSecond: 0.001},
			}})
		}
		source := &reloading{}
		source.Store(document())
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: source})
		do := func() error { return e.Do(bg, key, func(context.Context) error { return nil }) }
		if err := errors.Join(do(), do()); err != nil {
			t.Fatal(err)
		}
		source.Store(document())
		if err := do(); err != nil {
			t.Fatal(err)
		}
		failure(t, do(), policy.ReasonBudgetDenied)
	})
}

// reloading is a provider of a document that is replaced as a whole.
type reloading struct{ atomic.Pointer[policy.Set] }

func (r *reloading) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	return r.Load().Policy(ctx, k)
}
func (r *reloading) Set() *policy.Set { return r.Load() }
