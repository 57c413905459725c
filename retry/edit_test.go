package retry_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

// TestR11OneCallsPolicyCannotChangeTheBreaker: an edit may name another kind; the key's breaker goes on as it is and must
// not take the quick attempts of that call for slow ones.
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

// TestR11CallsOfAnOlderPolicyAreNotSlow: a call that began under a rate breaker and retries under a slow one does not know
// how long its attempts take.
func TestR11CallsOfAnOlderPolicyAreNotSlow(t *testing.T) {
	retry.Age(time.Hour)
	source := &versions{}
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
		_ = e.Do(ctx, key, quick) // brings the new policy to the breaker
		return errDown
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Do(bg, key, quick); err != nil {
		t.Errorf("a quick success opened the breaker: %v", err)
	}
}

// versions is a provider whose policy changes with its version.
type versions struct {
	n       atomic.Uint64
	current atomic.Pointer[policy.Policy]
}

func (v *versions) set(t *testing.T, p policy.Policy) {
	t.Helper()
	compiled, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	v.current.Store(compiled)
	v.n.Add(1)
}

func (v *versions) Policy(context.Context, policy.Key) (*policy.Policy, error) {
	return v.current.Load(), nil
}
func (v *versions) Version() uint64 { return v.n.Load() }
