package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestR2ProviderError(t *testing.T) {
	fallback := exact(4)
	for name, c := range map[string]struct {
		mode    retry.FailureMode
		policy  *policy.Policy
		calls   int
		reason  policy.Reason
		wantErr error
	}{
		"fallback with a policy":    {retry.FailureFallback, &fallback, 4, policy.ReasonAttemptsExhausted, errDown},
		"fallback without a policy": {retry.FailureFallback, nil, 3, policy.ReasonAttemptsExhausted, errDown},
		"allow":                     {retry.FailureAllow, &fallback, 1, policy.ReasonAttemptsExhausted, errDown},
		"deny":                      {retry.FailureDeny, &fallback, 0, policy.ReasonNoPolicy, retry.ErrNoPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &provider{err: policy.ErrProviderUnavailable}
				if c.policy != nil {
					source.set(t, *c.policy)
				}
				op, calls := script(errDown)
				e := retry.NewExecutor(retry.ExecutorOptions{Provider: source, MissingPolicyMode: c.mode})
				timeline, err := e.DoWithTimeline(bg, key, op)
				failure(t, err, c.reason)
				if *calls != c.calls || !errors.Is(err, c.wantErr) {
					t.Errorf("%d calls, want %d: %v", *calls, c.calls, err)
				}
				if mode := timeline.Attributes.Get(observe.AttrMissingPolicyMode); mode != c.mode.String() {
					t.Errorf("missing_policy_mode %q", mode)
				}
				if text := timeline.Attributes.Get(observe.AttrPolicyError); !strings.Contains(text, "unavailable") {
					t.Errorf("policy_error %q", text)
				}
			})
		})
	}
}

// unversioned is a provider that is asked anew for every call.
type unversioned func() (*policy.Policy, error)

func (u unversioned) Policy(context.Context, policy.Key) (*policy.Policy, error) { return u() }

func TestR2TheErrorIsWhatTheProviderSaysNow(t *testing.T) {
	for _, said := range []error{policy.ErrProviderUnavailable, fmt.Errorf("again: %w", policy.ErrPolicyFetchFailed), nil} { // nil: neither a policy nor an error
		now := said
		source := unversioned(func() (*policy.Policy, error) { return nil, now })
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: source, MissingPolicyMode: retry.FailureDeny})
		op, calls := script(nil)
		_ = e.Do(bg, key, op)
		now = policy.ErrPolicyFetchFailed
		timeline, err := e.DoWithTimeline(bg, key, op)
		failure(t, err, policy.ReasonNoPolicy)
		if !errors.Is(err, now) || said != nil && errors.Is(err, said) || *calls != 0 {
			t.Errorf("%v first, then %v: %v, %d calls", said, now, err, *calls)
		}
		if text := timeline.Attributes.Get(observe.AttrPolicyError); text != now.Error() {
			t.Errorf("policy_error %q", text)
		}
	}
}

// patient is a provider of one version that fails callers who have gone.
type patient struct{ policy.Provider }

func (p patient) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrProviderUnavailable, err)
	}
	return p.Provider.Policy(ctx, k)
}
func (patient) Version() uint64 { return 1 }

func TestR2ACallerWhoGivesUpLeavesNoPolicyBehind(t *testing.T) {
	for _, known := range []bool{false, true} {
		e, _ := tenettest.NewExecutor(retry.ExecutorOptions{
			Provider: patient{provide(t, exact(5))}, MissingPolicyMode: retry.FailureDeny,
		})
		if known {
			e.Policy(bg, key)
		}
		gone, cancel := context.WithCancel(bg)
		cancel()
		_ = e.Do(gone, key, func(context.Context) error { return nil })
		op, calls := script(errDown)
		failure(t, e.Do(bg, key, op), policy.ReasonAttemptsExhausted)
		if *calls != 5 {
			t.Errorf("%d calls", *calls)
		}
	}
}

func TestP7PolicyThatCannotBeNormalisedIsAProviderError(t *testing.T) {
	source := &provider{}
	source.current.Store(&policy.Policy{Retry: policy.Retry{Jitter: "wild"}})
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: source, MissingPolicyMode: retry.FailureDeny})
	op, calls := script(nil)
	err := e.Do(bg, key, op)
	failure(t, err, policy.ReasonNoPolicy)
	if _, ok := errors.AsType[*policy.NormalizeError](err); !ok || *calls != 0 {
		t.Errorf("%v, %d calls", err, *calls)
	}
}

func TestP7UncompiledPoliciesAreNormalised(t *testing.T) {
	source := &provider{}
	source.current.Store(&policy.Policy{Retry: policy.Retry{MaxAttempts: 99, InitialBackoff: 1}})
	e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Provider: source})
	op, calls := script(errDown)
	timeline, _ := e.DoWithTimeline(bg, key, op)
	if *calls != 10 || len(waits.All()) != 9 {
		t.Errorf("%d calls", *calls)
	}
	if fields := timeline.Attributes.Get(observe.AttrPolicyClampedFields); fields != "retry.max_attempts,retry.backoff" {
		t.Errorf("clamped %q", fields)
	}
}

// TestP7AWrapperThatChangesACompiledPolicyDoesNotEscapeTheLimits: the mark of being compiled ends with the first change.
func TestP7AWrapperThatChangesACompiledPolicyDoesNotEscapeTheLimits(t *testing.T) {
	inner := provide(t, exact(3))
	source := unversioned(func() (*policy.Policy, error) {
		p, err := inner.Policy(bg, key)
		changed := *p
		changed.Retry.MaxAttempts, changed.Retry.InitialBackoff = 500, 1
		return &changed, err
	})
	e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Provider: source})
	op, calls := script(errDown)
	timeline, _ := e.DoWithTimeline(bg, key, op)
	if *calls != 10 || waits.All()[0] < time.Millisecond {
		t.Errorf("%d calls, first wait %v", *calls, waits.All()[0])
	}
	if fields := timeline.Attributes.Get(observe.AttrPolicyClampedFields); fields != "retry.max_attempts,retry.backoff" {
		t.Errorf("clamped %q", fields)
	}
	if p := e.Policy(bg, key); p.Meta.Revision != "" {
		t.Errorf("it has the revision of another policy: %s", p.Meta.Revision)
	}
}

func TestR2ClassifierNotFound(t *testing.T) {
	p := exact(2)
	p.Retry.ClassifierName = "tea leaves"
	for mode, want := range map[retry.FailureMode]int{retry.FailureFallback: 2, retry.FailureAllow: 2, retry.FailureDeny: 0} {
		synctest.Test(t, func(t *testing.T) {
			op, calls := script(errDown)
			timeline, err := executor(t, p, func(o *retry.ExecutorOptions) { o.MissingClassifierMode = mode }).DoWithTimeline(bg, key, op)
			if *calls != want || timeline.Attributes.Get(observe.AttrClassifierNotFound) != "tea leaves" {
				t.Errorf("%s: %d calls, %v", mode, *calls, err)
			}
			if mode == retry.FailureDeny && !errors.Is(err, retry.ErrNoClassifier) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestC4ClassWithoutAMatcherIsOnRecord(t *testing.T) {
	p := exact(1)
	p.Retry.AbortOn = []policy.Class{"http_503", "quota_exceeded"}
	op, _ := script(errDown)
	timeline, _ := executor(t, p).DoWithTimeline(bg, key, op)
	if got := timeline.Attributes.Get(observe.AttrClassNotFound); got != "http_503,quota_exceeded" {
		t.Errorf("class_not_found %q", got)
	}
}

func TestC2ClassesDecide(t *testing.T) {
	errQuota := errors.New("quota")
	quota := classify.Custom("quota_exceeded", "", classify.Is(errQuota))
	for name, c := range map[string]struct {
		change func(*policy.Policy)
		err    error
		calls  int
		rule   string
	}{
		"abort_on":            {func(p *policy.Policy) { p.Retry.AbortOn = []policy.Class{"quota_exceeded"} }, fmt.Errorf("%w", errQuota), 1, "abort_on"},
		"abort_on, other":     {func(p *policy.Policy) { p.Retry.AbortOn = []policy.Class{"quota_exceeded"} }, errDown, 3, "default"},
		"retry_on listed":     {func(p *policy.Policy) { p.Retry.RetryOn = []policy.Class{"quota_exceeded"} }, errQuota, 3, "default"},
		"retry_on not listed": {func(p *policy.Policy) { p.Retry.RetryOn = []policy.Class{"timeout"} }, errQuota, 1, "retry_on"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := exact(3)
				c.change(&p)
				e := executor(t, p, func(o *retry.ExecutorOptions) { o.Classes = []classify.Family{quota} })
				op, calls := script(c.err)
				_ = e.Do(bg, key, op) // unobserved
				unobserved := *calls
				*calls = 0
				timeline, _ := e.DoWithTimeline(bg, key, op)
				if *calls != c.calls || unobserved != c.calls {
					t.Errorf("%d calls observed, %d unobserved, want %d", *calls, unobserved, c.calls)
				}
				if rule := string(timeline.Attempts[0].Rule); rule != c.rule {
					t.Errorf("rule %s, want %s", rule, c.rule)
				}
			})
		})
	}
}

func TestC5ClassifierOfAForeignTypeIsNeverRetried(t *testing.T) {
	p := exact(3)
	p.Retry.ClassifierName = "numbers"
	e := executor(t, p, func(o *retry.ExecutorOptions) {
		o.Classifiers = map[string]classify.Classifier{"numbers": classify.Typed(func(int, error) classify.Outcome {
			return classify.Outcome{Kind: classify.Retryable}
		})}
	})
	_, timeline, err := retry.DoValueWithTimeline(bg, e, key, func(context.Context) (string, error) { return "", errDown })
	failure(t, err, policy.ReasonNonRetryable)
	o := timeline.Attempts[0].Outcome
	if o.Reason != policy.ReasonClassifierTypeMismatch || o.Attributes["expected_type"] != "int" || o.Attributes["got_type"] != "string" {
		t.Errorf("%+v", o)
	}
}

func TestClassifierJudgesValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(3)
		p.Retry.ClassifierName = "ready"
		e := executor(t, p, func(o *retry.ExecutorOptions) {
			o.Classifiers = map[string]classify.Classifier{"ready": classify.Typed(func(ready bool, err error) classify.Outcome {
				if ready {
					return classify.Default(nil, err)
				}
				return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}
			})}
		})
		calls := 0
		v, err := retry.DoValue(bg, e, key, func(context.Context) (bool, error) { calls++; return calls == 3, nil })
		if !v || err != nil || calls != 3 {
			t.Errorf("%v, %v after %d calls", v, err, calls)
		}
	})
}

func TestR3RecoverPanics(t *testing.T) {
	boom := func() { panic("boom") }
	classifier := classify.Func(func(any, error) classify.Outcome { boom(); return classify.Outcome{} })
	for part, set := range map[string]func(*policy.Policy, *retry.ExecutorOptions){
		"classifier": func(p *policy.Policy, o *retry.ExecutorOptions) {
			p.Retry.ClassifierName = "c"
			o.Classifiers = map[string]classify.Classifier{"c": classifier}
		},
		"budget": func(p *policy.Policy, o *retry.ExecutorOptions) {
			p.Retry.Budget.Name = "b"
			o.Budgets = panickyBudgets(t)
		},
		"observer": func(_ *policy.Policy, o *retry.ExecutorOptions) {
			o.Observer = observe.Func(func(_ context.Context, e *observe.Event) {
				if e.Type == observe.AttemptEnded {
					boom()
				}
			})
		},
		"trigger": func(p *policy.Policy, o *retry.ExecutorOptions) {
			p.Hedge = policy.Hedge{Enabled: true, TriggerName: "t"}
			o.Triggers = triggersOf{"t": boomTrigger}.asTriggers()
		},
	} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, o := exact(3), retry.ExecutorOptions{}
				set(&p, &o)
				o.Provider = provide(t, p)
				o.RecoverPanics = true
				e := retry.NewExecutor(o)
				slow := func(ctx context.Context) error {
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
					}
					return errDown
				}
				err := e.Do(bg, key, slow)
				failure(t, err, policy.Reason("panic_in_"+part))
				if p, ok := errors.AsType[*retry.PanicError](err); !ok || p.Part != part || p.Value != "boom" {
					t.Errorf("%v", err)
				}
				_ = e.Wait(bg)

				o.RecoverPanics = false
				e = retry.NewExecutor(o)
				func() {
					defer func() {
						if v := recover(); v != "boom" {
							t.Errorf("without RecoverPanics the caller recovered %v", v)
						}
					}()
					_ = e.Do(bg, key, slow)
					if part == "trigger" { // asked at the start of each group
						t.Error("did not panic")
					}
				}()
				_ = e.Wait(bg)
			})
		})
	}
}

func TestR3PanicOfAnUnhedgedAttemptReachesTheCallerAsItself(t *testing.T) {
	l := &log{}
	e := executor(t, exact(3), func(o *retry.ExecutorOptions) { o.Observer = l })
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = e.Do(bg, key, func(context.Context) error { panic("boom") })
	}()
	ended := l.of(observe.CallEnded)
	if len(ended) != 1 || ended[0].Timeline.Reason != policy.ReasonPanicInOperation || len(ended[0].Timeline.Attempts) != 1 {
		t.Errorf("on record: %+v", ended)
	}
}

func TestP2KeysAreBoundedAndEvictionIsReportedOnce(t *testing.T) {
	l := &log{}
	e := executor(t, exact(1), func(o *retry.ExecutorOptions) { o.Observer, o.MaxKeys = l, 8 })
	for i := range 100 {
		if err := e.Do(bg, policy.Key{Name: fmt.Sprint(i)}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.reports(policy.ReasonKeyEvicted); n != 1 {
		t.Errorf("%d reports of eviction", n)
	}
}

func TestSetGlobalOnlyBeforeFirstUse(t *testing.T) {
	retry.ResetGlobal()
	defer retry.ResetGlobal()
	if err := retry.SetGlobal(nil); err == nil {
		t.Error("nil was accepted")
	}
	e := executor(t, exact(1))
	if err := retry.SetGlobal(e); err != nil {
		t.Fatal(err)
	}
	if retry.DefaultExecutor() != e {
		t.Error("not the default")
	}
	if err := retry.SetGlobal(e); err == nil {
		t.Error("a second SetGlobal was accepted")
	}
}
