package retry_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

// TestR11OneCallsPolicyCannotChangeTheBreaker: an edit may name another kind, but the key's breaker stays as it is and must
// not count the quick attempts of that call as slow.
func TestR11OneCallsPolicyCannotChangeTheBreaker(t *testing.T) {
	retry.Age(time.Hour)
	p := exact(1)
	p.Circuit = policy.Circuit{Kind: policy.CircuitSlow, SlowAfter: time.Minute, MinimumCalls: 2}
	e := executor(t, p)
	edit := retry.WithPolicy(func(p *policy.Policy) { p.Circuit = policy.Circuit{Kind: policy.CircuitRate, Failures: 1} })
	for range 10 {
		if err := e.Do(bg, key, func(context.Context) error { return nil }, edit); err != nil {
			t.Fatalf("quick successes opened the breaker: %v", err)
		}
	}
}

// TestR11CallsOfAnOlderPolicyAreNotSlow: a call that began under a rate breaker does not measure its attempts, even if the
// breaker has since become a slow one.
func TestR11CallsOfAnOlderPolicyAreNotSlow(t *testing.T) {
	retry.Age(time.Hour)
	source := &provider{}
	p := exact(3)
	p.Circuit = policy.Circuit{Kind: policy.CircuitRate}
	source.set(t, p)
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{Provider: source})
	p.Circuit = policy.Circuit{Kind: policy.CircuitSlow, SlowAfter: time.Minute, MinimumCalls: 1}
	calls := 0
	quick := func(context.Context) error { return nil }
	err := e.Do(bg, key, func(ctx context.Context) error {
		if calls++; calls > 1 {
			return nil
		}
		source.set(t, p)
		_ = e.Do(ctx, key, quick) // updates the breaker to the new policy
		return errDown
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Do(bg, key, quick); err != nil {
		t.Errorf("a quick success opened the breaker: %v", err)
	}
}

// TestP12DocumentsNoneSurvivesAnEdit: the catalog must not fill a field that the document sets to none.
func TestP12DocumentsNoneSurvivesAnEdit(t *testing.T) {
	document, err := policyfile.Parse("d.yaml", []byte(`
version: 1
policies:
  user-service.GetUser: {category: NATS_PUBLISH, retry: {timeout: null}}
`), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: document.Set})
	err = e.Do(bg, key, func(ctx context.Context) error {
		if deadline, ok := ctx.Deadline(); ok {
			t.Errorf("the attempt has a timeout of %v", time.Until(deadline))
		}
		return nil
	}, retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 5 }))
	if err != nil {
		t.Fatal(err)
	}
}

// TestP12DocumentsNoneSurvivesACallsCategory: the category's timeout of 5 s applies only if the document does not set one.
func TestP12DocumentsNoneSurvivesACallsCategory(t *testing.T) {
	for _, c := range []struct {
		document string
		bounded  bool
	}{
		{"policies: {user-service.GetUser: {retry: {timeout: null}}}", false},
		{"defaults: {calls: {retry: {timeout: null}}}", false},
		{"defaults: {calls: {retry: {timeout: null}}}\npolicies: {user-service.GetUser: {retry: {max_attempts: 2}}}", false},
		{"policies: {user-service.GetUser: {retry: {max_attempts: 2}}}", true},
		{"defaults: {calls: {retry: {timeout: null}}}\npolicies: {user-service.GetUser: {retry: {timeout: 5}}}", true},
	} {
		document, err := policyfile.Parse("d.yaml", []byte("version: 1\n"+c.document), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: document.Set})
		for _, category := range []policy.Category{policy.NATSPublish, "RETRY_NATS_PUBLISH"} {
			err = e.Do(bg, key, func(ctx context.Context) error {
				if _, bounded := ctx.Deadline(); bounded != c.bounded {
					t.Errorf("%s, %s: timeout %v", c.document, category, bounded)
				}
				return errDown
			}, retry.WithCategory(category), retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 1 }))
			if got := failure(t, err, policy.ReasonAttemptsExhausted).Category; got != "RETRY_NATS_PUBLISH" {
				t.Errorf("category %q", got)
			}
		}
	}
}

func TestP12UnknownCategoryWarnsAndHasNoCode(t *testing.T) {
	l := &log{}
	e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Observer: l})
	op, calls := script(errDown)
	timeline, err := e.DoWithTimeline(bg, key, op, retry.WithCategory("NATS_PUBLSH"))
	if got := failure(t, err, policy.ReasonAttemptsExhausted); got.Category != "" || *calls != 3 || waits.All()[0] < 900*time.Millisecond {
		t.Errorf("code %q, %d calls, waited %v", got.Category, *calls, waits.All())
	}
	if warning := timeline.Attributes.Get(observe.AttrPolicyWarnings); !strings.Contains(warning, "NATS_PUBLSH") {
		t.Errorf("policy_warnings %q", warning)
	}
	for _, event := range l.of(observe.Decided) {
		if event.Work.Category.Code() != "" {
			t.Errorf("the event's code is %q", event.Work.Category.Code())
		}
	}
}

// TestP12AnEditSeesTheCategorysValues: NATS_CONNECT has 5 attempts.
func TestP12AnEditSeesTheCategorysValues(t *testing.T) {
	e, _ := tenettest.NewExecutor(retry.ExecutorOptions{})
	op, calls := script(errDown)
	_ = e.Do(bg, key, op, retry.WithCategory(policy.NATSConnect), retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts++ }))
	if *calls != 6 {
		t.Errorf("%d calls, want one more than the category's 5", *calls)
	}
}

func TestR2AnEditedCallKeepsTheRecordOfItsPolicy(t *testing.T) {
	source := &provider{err: policy.ErrProviderUnavailable}
	source.set(t, policy.Policy{Retry: policy.Retry{MaxAttempts: 99}})
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: source})
	op, _ := script(nil)
	timeline, _ := e.DoWithTimeline(bg, key, op, retry.WithPolicy(func(p *policy.Policy) { p.ID = "mine" }))
	for name, want := range map[string]string{
		observe.AttrMissingPolicyMode: "fallback", observe.AttrPolicyError: policy.ErrProviderUnavailable.Error(),
		observe.AttrPolicyClampedFields: "retry.max_attempts", observe.AttrPolicySource: "option",
	} {
		if got := timeline.Attributes.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestP12AnEditMayNameARegisteredClassifier(t *testing.T) {
	p := exact(1)
	p.Retry.ClassifierName = "nowhere"
	e := executor(t, p, func(o *retry.ExecutorOptions) { o.MissingClassifierMode = retry.FailureDeny })
	op, calls := script(nil)
	if err := e.Do(bg, key, op, retry.WithPolicy(func(p *policy.Policy) { p.Retry.ClassifierName = "" })); err != nil || *calls != 1 {
		t.Errorf("%v after %d calls", err, *calls)
	}
}

// slowFirst is a provider whose policy changes during its slow first answer.
type slowFirst struct {
	provider
	asked atomic.Int64
}

func (s *slowFirst) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	p, err := s.provider.Policy(ctx, k)
	if s.asked.Add(1) == 2 { // the first answer makes the key known
		time.Sleep(time.Minute)
	}
	return p, err
}

// TestR11ASlowAnswerDoesNotReplaceANewerPolicy: the newer policy's breaker is open and must stay open.
func TestR11ASlowAnswerDoesNotReplaceANewerPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &slowFirst{}
		withCircuit := func(k policy.CircuitKind) policy.Policy {
			p := exact(1)
			p.Circuit = policy.Circuit{Kind: k, Failures: 1, MinimumCalls: 1, Cooldown: time.Hour}
			return p
		}
		source.set(t, withCircuit(policy.CircuitConsecutive))
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: source})
		ok := func(context.Context) error { return nil }
		_ = e.Do(bg, key, ok)
		source.set(t, withCircuit(policy.CircuitConsecutive))
		go func() { _ = e.Do(bg, key, ok) }() // answers after a minute
		synctest.Wait()
		source.set(t, withCircuit(policy.CircuitRate))
		_ = e.Do(bg, key, func(context.Context) error { return errDown })
		failure(t, e.Do(bg, key, ok), policy.ReasonCircuitOpen)
		time.Sleep(2 * time.Minute)
		failure(t, e.Do(bg, key, ok), policy.ReasonCircuitOpen)
	})
}

func TestR11ABreakerResetByANewPolicyIsReported(t *testing.T) {
	source, l := &provider{}, &log{}
	p := exact(1)
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1}
	source.set(t, p)
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: source, Observer: l})
	_ = e.Do(bg, key, func(context.Context) error { return errDown })
	p.Circuit.Kind = policy.CircuitRate
	source.set(t, p)
	_ = e.Do(bg, key, func(context.Context) error { return nil })
	changes := l.of(observe.CircuitChanged)
	if len(changes) != 2 || *changes[1].Circuit != (observe.CircuitChange{From: "open", To: "closed"}) || changes[1].Work.Key != key {
		t.Errorf("%d changes of the breaker were reported", len(changes))
	}
}

func TestP12AnEditStaysWithinTheDocumentsLimits(t *testing.T) {
	document, err := policyfile.Parse("d.yaml", []byte("version: 1\nlimits: {calls: {max_attempts: 2}}\n"), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: document.Set})
	op, calls := script(errDown)
	quick := retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts, p.Retry.InitialBackoff = 5, time.Millisecond })
	if _ = e.Do(bg, key, op, quick); *calls != 2 {
		t.Errorf("%d attempts", *calls)
	}
}

func TestP8AnEditStaysWithinTheLimitsOfItsSurface(t *testing.T) {
	limits := policy.CallLimits()
	limits.Attempts.Max = 2
	e := retry.NewExecutor(retry.ExecutorOptions{Limits: &limits})
	for k, want := range map[policy.Key]int{key: 2, policy.JobKey("mail", "send"): 7} { // the options bound calls only
		err := e.Do(bg, k, func(ctx context.Context) error {
			if a, _ := retry.AttemptFromContext(ctx); a.MaxAttempts != want {
				t.Errorf("%s: %d attempts, want %d", k, a.MaxAttempts, want)
			}
			return nil
		}, retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 7 }))
		if err != nil {
			t.Error(err)
		}
	}
}

// TestP1AnInvalidEditLeavesThePolicy: an edit with an unknown value leaves the policy unchanged or, by
// MissingPolicyMode, refuses the call.
func TestP1AnInvalidEditLeavesThePolicy(t *testing.T) {
	for mode, want := range map[retry.FailureMode]int{retry.FailureFallback: 2, retry.FailureAllow: 1, retry.FailureDeny: 0} {
		synctest.Test(t, func(t *testing.T) {
			e := executor(t, exact(2), func(o *retry.ExecutorOptions) { o.MissingPolicyMode = mode })
			op, calls := script(errDown)
			timeline, err := e.DoWithTimeline(bg, key, op, retry.WithPolicy(func(p *policy.Policy) { p.Retry.Jitter = "wild" }))
			if err == nil || *calls != want || !strings.Contains(timeline.Attributes.Get(observe.AttrPolicyError), "retry.jitter") {
				t.Errorf("%s: %d attempts, %q, %v", mode, *calls, timeline.Attributes.Get(observe.AttrPolicyError), err)
			}
		})
	}
}

func TestP1BudgetsOfAHandMadeSetMustBeValid(t *testing.T) {
	e := retry.NewExecutor(retry.ExecutorOptions{
		Provider: policy.NewSet(policy.SetConfig{Budgets: map[string]policy.Budget{"b": {Kind: "wild"}}}),
	})
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "budgets.b") {
			t.Errorf("%q", text)
		}
	}()
	_ = e.Do(bg, key, func(context.Context) error { return nil })
	t.Error("the call returned")
}
