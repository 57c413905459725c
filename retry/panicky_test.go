package retry_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

type panickyBudget struct{}

func (panickyBudget) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	panic("boom")
}

func panickyBudgets(t *testing.T) *budget.Registry {
	t.Helper()
	r := budget.NewRegistry()
	if err := r.Register("b", panickyBudget{}); err != nil {
		t.Fatal(err)
	}
	return r
}

type triggerOf func(policy.Hedge, *hedge.Digest) (time.Duration, bool)

func (f triggerOf) Delay(h policy.Hedge, d *hedge.Digest) (time.Duration, bool) { return f(h, d) }

func boomTrigger(policy.Hedge, *hedge.Digest) (time.Duration, bool) { panic("boom") }

type triggersOf map[string]triggerOf

func (m triggersOf) asTriggers() map[string]hedge.Trigger {
	list := map[string]hedge.Trigger{}
	for name, f := range m {
		list[name] = f
	}
	return list
}

// startingFunc is an observer that is told of beginnings.
type startingFunc func(e *observe.Event)

func (f startingFunc) Observe(_ context.Context, e *observe.Event) { f(e) }
func (f startingFunc) Start(ctx context.Context, e *observe.Event) context.Context {
	f(e)
	return ctx
}

// TestR7PanicsOfUserCodeLeakNothing: whatever an observer panics at, budgets get back what they granted and the call ends
// once on record.
func TestR7PanicsOfUserCodeLeakNothing(t *testing.T) {
	for _, at := range []observe.EventType{
		observe.AttemptStarted, observe.AttemptEnded, observe.Decided, observe.CircuitChanged,
	} {
		for _, nth := range []int{1, 2, 3} {
			for _, hedged := range []bool{false, true} {
				for _, launch := range []bool{false, true} {
					name := fmt.Sprintf("%s/%d/hedged=%v/launch=%v", at, nth, hedged, launch)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { panicAt(t, at, nth, hedged, launch) })
					})
				}
			}
		}
	}
}

func panicAt(t *testing.T, at observe.EventType, nth int, hedged, launch bool) {
	p := exact(3)
	p.Hedge = policy.Hedge{Enabled: hedged, HedgeDelay: 100 * time.Millisecond}
	p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2}
	b := &counting{allow: 9, launch: launch}
	seen, ends := 0, 0
	observer := startingFunc(func(e *observe.Event) {
		if e.Type == observe.CallEnded {
			ends++
		}
		if e.Type == at {
			if seen++; seen == nth {
				panic("boom")
			}
		}
	})
	e := withBudget(t, p, b, func(o *retry.ExecutorOptions) { o.Observer = observer })
	func() {
		defer func() { _ = recover() }()
		op, _ := racing(after(150*time.Millisecond, errDown), after(100*time.Millisecond, errDown))
		_ = e.Do(bg, key, op)
	}()
	_ = e.Wait(bg)
	b.check(t)
	if ends != 1 {
		t.Errorf("the call ended %d times on record", ends)
	}
}

// onceBudget panics when it is asked for the nth time.
type onceBudget struct{ asked, nth int }

func (b *onceBudget) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	if b.asked++; b.asked == b.nth {
		panic("boom")
	}
	return budget.Allow()
}

func TestR11ProbeWhoseBudgetPanicsFreesItsSlot(t *testing.T) {
	for _, hedged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := exact(1)
			p.Hedge.Enabled = hedged
			p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1, Cooldown: time.Minute}
			e := withBudget(t, p, &onceBudget{nth: 2})
			_ = e.Do(bg, key, func(context.Context) error { return errDown })
			time.Sleep(time.Minute)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the budget's panic did not reach the caller")
					}
				}()
				_ = e.Do(bg, key, func(context.Context) error { return nil })
			}()
			if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
				t.Errorf("hedged %v: the breaker is bricked: %v", hedged, err)
			}
		})
	}
}

// releasing is a budget whose Release panics.
type releasing struct{}

func (releasing) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	d := budget.Allow()
	d.Release = func() { panic("boom") }
	return d
}

func TestR3RecoverPanicsCoversReleases(t *testing.T) {
	for _, observer := range []observe.Observer{nil, &log{}} {
		for _, hedge := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := exact(3)
				p.Hedge.Enabled = hedge
				e := withBudget(t, p, releasing{}, func(o *retry.ExecutorOptions) { o.RecoverPanics, o.Observer = true, observer })
				op, calls := script(errDown)
				failure(t, e.Do(bg, key, op), policy.ReasonPanicInBudget)
				if *calls != 1 {
					t.Errorf("%d calls after a panic", *calls)
				}
				slowFirst, _ := racing(after(time.Hour, nil), after(0, nil))
				if err := e.Do(bg, key, slowFirst); hedge && err != nil {
					t.Errorf("a success was lost: %v", err)
				}
				_ = e.Wait(bg)
			})
		}
	}
}
