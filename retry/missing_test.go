package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
				edited := e.Do(bg, key, op, retry.WithPolicy(func(*policy.Policy) {}))
				failure(t, edited, c.reason)
				if *calls != 2*c.calls || !errors.Is(edited, c.wantErr) {
					t.Errorf("%d calls with a policy that the call has edited, want %d: %v", *calls-c.calls, c.calls, edited)
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

func TestR2TheOriginOfThePolicyIsAlwaysRecorded(t *testing.T) {
	down := policy.ErrProviderUnavailable
	compiled, err := policy.Compile(exact(3), policy.CallLimits(), policy.SourceLKG)
	if err != nil {
		t.Fatal(err)
	}
	raw := exact(3)
	wild := policy.Policy{Retry: policy.Retry{Jitter: "wild"}}
	for name, c := range map[string]struct {
		policy   *policy.Policy
		err      error
		source   policy.Source
		fallback string
		id       string
	}{
		"compiled":                    {compiled, nil, policy.SourceLKG, "", "rev-1"},
		"compiled with an error":      {compiled, down, policy.SourceLKG, "", "rev-1"},
		"uncompiled":                  {&raw, nil, policy.SourceStatic, "", "rev-1"},
		"uncompiled with an error":    {&raw, down, policy.SourceStatic, "", "rev-1"},
		"zero":                        {&policy.Policy{}, nil, policy.SourceStatic, "", ""},
		"zero with an error":          {&policy.Policy{Key: key, Meta: policy.Meta{Source: policy.SourceRemote}}, down, policy.SourceDefault, "true", ""},
		"none with an error":          {nil, down, policy.SourceDefault, "true", ""},
		"neither":                     {nil, nil, policy.SourceDefault, "true", ""},
		"an invalid policy":           {&wild, nil, policy.SourceDefault, "true", ""},
		"an invalid policy, an error": {&wild, down, policy.SourceDefault, "true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := retry.NewExecutor(retry.ExecutorOptions{Provider: unversioned(func() (*policy.Policy, error) { return c.policy, c.err })})
			op, _ := script(nil)
			timeline, err := e.DoWithTimeline(bg, key, op)
			if err != nil {
				t.Fatal(err)
			}
			edited, err := e.DoWithTimeline(bg, key, op, retry.WithPolicy(func(*policy.Policy) {}))
			if err != nil {
				t.Fatal(err)
			}
			a := timeline.Attributes
			if source := a.Get(observe.AttrPolicySource); source != string(c.source) || edited.Attributes.Get(observe.AttrPolicySource) != "option" {
				t.Errorf("policy_source %q", source)
			}
			if a.Get(observe.AttrPolicyFallback) != c.fallback || edited.Attributes.Get(observe.AttrPolicyFallback) != c.fallback {
				t.Errorf("policy_fallback %q", a.Get(observe.AttrPolicyFallback))
			}
			if timeline.PolicyID != c.id {
				t.Errorf("policy %q", timeline.PolicyID)
			}
		})
	}
	for mode, want := range map[retry.FailureMode]string{retry.FailureFallback: "true", retry.FailureAllow: "", retry.FailureDeny: ""} {
		e := retry.NewExecutor(retry.ExecutorOptions{MissingPolicyMode: mode, Provider: unversioned(func() (*policy.Policy, error) { return nil, down })})
		op, _ := script(nil)
		timeline, _ := e.DoWithTimeline(bg, key, op)
		if a := timeline.Attributes; a.Get(observe.AttrPolicyFallback) != want || a.Get(observe.AttrPolicySource) != "default" {
			t.Errorf("%s: %+v", mode, a)
		}
	}
}

func TestP7DefaultedFieldsAreRecorded(t *testing.T) {
	source := unversioned(func() (*policy.Policy, error) {
		return &policy.Policy{Retry: policy.Retry{MaxAttempts: 2, MaxBackoff: time.Second, Jitter: policy.JitterNone, MaxPushback: time.Second, BackoffMultiplier: 3}}, nil
	})
	op, _ := script(nil)
	timeline, _ := retry.NewExecutor(retry.ExecutorOptions{Provider: source}).DoWithTimeline(bg, key, op)
	a := timeline.Attributes
	if a.Get(observe.AttrPolicyNormalized) != "true" || a.Get(observe.AttrPolicyDefaulted) != "retry.backoff,hedge.max_hedges,hedge.delay" || a.Get(observe.AttrPolicyClampedFields) != "" {
		t.Errorf("%+v", a)
	}
}

// unversioned is a provider without versions, which is asked for every call.
type unversioned func() (*policy.Policy, error)

func (u unversioned) Policy(context.Context, policy.Key) (*policy.Policy, error) { return u() }

func TestR2TheErrorIsTheProvidersCurrentOne(t *testing.T) {
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

// patient is a provider with one version that fails calls whose context is done.
type patient struct{ policy.Provider }

func (p patient) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrProviderUnavailable, err)
	}
	return p.Provider.Policy(ctx, k)
}
func (patient) Version() uint64 { return 1 }

func TestR2ACancelledCallCachesNoPolicy(t *testing.T) {
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

// TestP7AWrapperThatChangesACompiledPolicyDoesNotEscapeTheLimits: the first change removes the mark of a compiled policy.
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

func TestC4AClassWithoutAMatcherIsRecorded(t *testing.T) {
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

func TestD6AClassifiersOwnReasonIsADetail(t *testing.T) {
	shared := map[string]string{"detail": "since noon", "k": "v"}
	for _, c := range []struct {
		said       classify.Outcome
		reason     policy.Reason
		attributes map[string]string
	}{
		{classify.Outcome{Kind: classify.Success, Reason: "empty"}, policy.ReasonSuccess, map[string]string{"detail": "empty"}},
		{classify.Outcome{Kind: classify.Retryable, Reason: "busy", Attributes: shared}, policy.ReasonError, map[string]string{"detail": "since noon; busy", "k": "v"}},
		{classify.Outcome{Kind: classify.NonRetryable, Reason: "refused"}, policy.ReasonNonRetryable, map[string]string{"detail": "refused"}},
		{classify.Outcome{Kind: classify.Abort, Reason: "user 4711 left"}, policy.ReasonAborted, map[string]string{"detail": "user 4711 left"}},
		{classify.Outcome{Kind: classify.Retryable}, policy.ReasonError, nil},
		{classify.Outcome{Kind: classify.Retryable, Reason: policy.ReasonTransport}, policy.ReasonTransport, nil},
	} {
		p := exact(1)
		p.Retry.ClassifierName = "c"
		l := &log{}
		e := executor(t, p, func(o *retry.ExecutorOptions) {
			o.Observer = l
			o.Classifiers = map[string]classify.Classifier{"c": classify.Func(func(any, error) classify.Outcome { return c.said })}
		})
		op, _ := script(nil)
		timeline, _ := e.DoWithTimeline(bg, key, op)
		for _, got := range []classify.Outcome{timeline.Attempts[0].Outcome, l.of(observe.Decided)[0].Decision.Outcome} {
			if diff := cmp.Diff(c.attributes, got.Attributes); got.Reason != c.reason || diff != "" {
				t.Errorf("%+v is recorded as %s: %s", c.said, got.Reason, diff)
			}
		}
	}
	if shared["detail"] != "since noon" {
		t.Error("the classifier's own attributes were changed")
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
		"journal": func(_ *policy.Policy, o *retry.ExecutorOptions) {
			o.Journal = journalFunc(func(*observe.Event) error { boom(); return nil })
		},
		"provider": func(_ *policy.Policy, o *retry.ExecutorOptions) {
			o.Provider = unversioned(func() (*policy.Policy, error) { boom(); return nil, nil })
		},
		"trigger": func(p *policy.Policy, o *retry.ExecutorOptions) {
			p.Hedge = policy.Hedge{Enabled: true, TriggerName: "t"}
			o.Triggers = triggersOf{"t": boomTrigger}.asTriggers()
		},
	} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, o := exact(3), retry.ExecutorOptions{}
				if set(&p, &o); o.Provider == nil {
					o.Provider = provide(t, p)
				}
				o.RecoverPanics = true
				e := retry.NewExecutor(o)
				slow := func(ctx context.Context) error {
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
					}
					return errDown
				}
				reason := policy.Reason("panic_in_" + part)
				if !slices.ContainsFunc(policy.Reasons(), func(r policy.ReasonInfo) bool { return r.Reason == reason }) {
					t.Errorf("%s is not documented", reason)
				}
				for _, options := range [][]retry.CallOption{nil, {retry.WithPolicy(func(*policy.Policy) {})}} {
					failure(t, e.Do(bg, key, slow, options...), reason)
				}
				err := e.Do(bg, key, slow)
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
					if part == "trigger" { // called at the start of each group
						t.Error("did not panic")
					}
				}()
				_ = e.Wait(bg)
			})
		})
	}
}

type journalFunc func(*observe.Event) error

func (f journalFunc) Append(_ context.Context, e *observe.Event) error { return f(e) }

func TestR13APanickingObserverDoesNotEndTheCall(t *testing.T) {
	for _, at := range []observe.EventType{
		observe.CallStarted, observe.AttemptStarted, observe.AttemptEnded, observe.Decided, observe.CircuitChanged, observe.CallEnded, "any",
	} {
		for _, hedged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hedged %v", at, hedged), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := exact(3)
					p.Hedge.Enabled = hedged
					p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2, Cooldown: 100 * time.Millisecond}
					reported := 0
					b := &counting{allow: 9}
					e := withBudget(t, p, b, func(o *retry.ExecutorOptions) {
						o.RecoverPanics = true
						o.Observer = startingFunc(func(e *observe.Event) {
							if e.Type == observe.Reported && e.Report.Reason == policy.ReasonPanicInObserver && e.Report.Panic == "boom" {
								reported++
							}
							if e.Type == at || at == "any" {
								panic("boom")
							}
						})
					})
					op, calls := script(errDown, nil)
					if err := e.Do(bg, key, op); err != nil || *calls != 2 {
						t.Errorf("%v after %d calls", err, *calls)
					}
					op, _ = script(errDown)
					failure(t, e.Do(bg, key, op), policy.ReasonCircuitOpen)
					if reported == 0 {
						t.Error("the panic was not reported to the observer")
					}
					_ = e.Wait(bg)
					b.check(t)
				})
			})
		}
	}
}

// contextless is a Starter that returns no context.
type contextless struct{ observe.Observer }

func (contextless) Start(context.Context, *observe.Event) context.Context { return nil }

func TestR13AStarterWithoutAContextDoesNotEndTheCall(t *testing.T) {
	for _, hedge := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := exact(2)
			p.Hedge.Enabled = hedge
			e := executor(t, p, func(o *retry.ExecutorOptions) {
				o.Observer = observe.Multi(contextless{&log{}}, contextless{&log{}}, startingFunc(func(*observe.Event) {}))
			})
			op, calls := script(errDown, nil)
			if err := e.Do(bg, key, op); err != nil || *calls != 2 {
				t.Errorf("%v after %d calls", err, *calls)
			}
		})
	}
}

func TestR13APanickingJournalDoesNotUndoASuccess(t *testing.T) {
	l := &log{}
	e := executor(t, exact(3), func(o *retry.ExecutorOptions) {
		o.Observer, o.RecoverPanics, o.Journal = l, true, journalFunc(func(*observe.Event) error { panic("boom") })
	})
	if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if l.reports(policy.ReasonPanicInJournal) != 1 {
		t.Error("not reported")
	}
}

func TestR3AProviderIsAskedAgainAfterAPanic(t *testing.T) {
	source, broken := &provider{}, true
	source.set(t, exact(3))
	e := retry.NewExecutor(retry.ExecutorOptions{RecoverPanics: true, Provider: panickyProvider{source, &broken}})
	ok := func(context.Context) error { return nil }
	failure(t, e.Do(bg, key, ok), policy.ReasonPanicInProvider)
	broken = false
	if err := e.Do(bg, key, ok); err != nil {
		t.Error(err)
	}
}

type panickyProvider struct {
	*provider
	broken *bool
}

func (p panickyProvider) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	if *p.broken {
		panic("boom")
	}
	return p.provider.Policy(ctx, k)
}

func TestR3APanicOfAnUnhedgedAttemptReachesTheCallerUnchanged(t *testing.T) {
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
		t.Errorf("recorded: %+v", ended)
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

func TestP2KeysInUseOutliveOthers(t *testing.T) {
	p := exact(1)
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Hour}
	for _, limit := range []int{2, 8, 100} {
		e := executor(t, p, func(o *retry.ExecutorOptions) { o.MaxKeys = limit })
		_ = e.Do(bg, key, func(context.Context) error { return errDown })
		for i := range 10 * limit {
			failure(t, e.Do(bg, key, func(context.Context) error { return nil }), policy.ReasonCircuitOpen) // its breaker was kept
			other := policy.Key{Name: fmt.Sprint(i)}
			for range 2 {
				if err := e.Do(bg, other, func(context.Context) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestP2TheLeastRecentlyUsedKeyLosesItsState(t *testing.T) {
	p := exact(1)
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Hour}
	for _, limit := range []int{1, 2, 8, 100} {
		e := executor(t, p, func(o *retry.ExecutorOptions) { o.MaxKeys = limit })
		name := func(i int) policy.Key { return policy.Key{Name: fmt.Sprint("key-", i)} }
		ok := func(context.Context) error { return nil }
		for i := range limit + 1 { // opens the breaker of each, and drops the first
			_ = e.Do(bg, name(i), func(context.Context) error { return errDown })
		}
		for i := limit; i > 0; i-- {
			failure(t, e.Do(bg, name(i), ok), policy.ReasonCircuitOpen)
		}
		if err := e.Do(bg, name(0), ok); err != nil { // in place of the least recently used of the first limit keys
			t.Errorf("limit %d: %v", limit, err)
		}
		if err := e.Do(bg, name(limit), ok); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func TestP2ConcurrentCallsOfManyKeysFindTheirOwnState(t *testing.T) {
	p := exact(1)
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive}
	e := executor(t, p, func(o *retry.ExecutorOptions) { o.MaxKeys = 16 })
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 2000 {
				k := policy.Key{Namespace: "n", Name: fmt.Sprint("key-", (i*(g+1))%40)}
				err := e.Do(bg, k, func(ctx context.Context) error {
					if a, _ := retry.AttemptFromContext(ctx); a.Key != k {
						return fmt.Errorf("%s got the state of %s", a.Key, k)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkBeyondMaxKeys measures calls whose keys are not kept.
func BenchmarkBeyondMaxKeys(b *testing.B) {
	for _, limit := range []int{64, 1024, 16384} {
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			e := retry.NewExecutor(retry.ExecutorOptions{MaxKeys: limit, Observer: observe.Func(func(context.Context, *observe.Event) {})})
			keys := make([]policy.Key, 4*limit)
			for i := range keys {
				keys[i] = policy.Key{Name: fmt.Sprint("key-", i)}
			}
			ok := retry.Operation(func(context.Context) error { return nil })
			for i := 0; b.Loop(); i++ {
				_ = e.Do(bg, keys[i%len(keys)], ok)
			}
		})
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
