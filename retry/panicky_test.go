package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
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

// startingFunc is an observer that also receives start events.
type startingFunc func(e *observe.Event)

func (f startingFunc) Observe(_ context.Context, e *observe.Event) { f(e) }
func (f startingFunc) Start(ctx context.Context, e *observe.Event) context.Context {
	f(e)
	return ctx
}

// TestR7PanicsOfUserCodeLeakNothing: at whichever event an observer panics, each grant of a budget is released and the end of
// the call is recorded once.
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
		t.Errorf("the end of the call was recorded %d times", ends)
	}
}

// TestR9AnObserverThatAlwaysPanicsLeavesNoHedgeRunning: a panic at the record of one loser does not keep the next from being
// cancelled.
func TestR9AnObserverThatAlwaysPanicsLeavesNoHedgeRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counting{allow: 9}
		e := withBudget(t, hedged(1, 3), b, func(o *retry.ExecutorOptions) {
			o.Observer = observe.Func(func(context.Context, *observe.Event) { panic("boom") })
		})
		op, launched := racing(after(time.Hour, nil), after(time.Hour, nil), after(time.Hour, nil), after(time.Millisecond, nil))
		func() {
			defer func() { _ = recover() }()
			_ = e.Do(bg, key, op)
		}()
		began := time.Now()
		_ = e.Wait(bg)
		if ran := time.Since(began); ran > 0 || launched.Load() != 4 {
			t.Errorf("after the panic, a loser of %d attempts ran for %s", launched.Load(), ran)
		}
		b.check(t)
	})
}

// onceBudget panics at its nth request.
type onceBudget struct{ asked, nth int }

func (b *onceBudget) AllowAttempt(context.Context, policy.Key, int, budget.AttemptKind, policy.BudgetRef) budget.Decision {
	if b.asked++; b.asked == b.nth {
		panic("boom")
	}
	return budget.Allow()
}

func TestR11AProbeWithAPanickingBudgetFreesItsSlot(t *testing.T) {
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
				t.Errorf("hedged %v: the breaker is stuck: %v", hedged, err)
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

// versionedProvider is a custom provider: each of its methods may panic.
type versionedProvider struct {
	policy.Provider
	version func() uint64
	set     func() *policy.Set
}

func (p versionedProvider) Version() uint64  { return p.version() }
func (p versionedProvider) Set() *policy.Set { return p.set() }

func TestR3RecoverPanicsCoversVersionAndSetOfAProvider(t *testing.T) {
	for _, part := range []string{"Version", "Set"} {
		for _, recovers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/recovers=%v", part, recovers), func(t *testing.T) {
				broken, version := false, uint64(1)
				call := func(of string) {
					if broken && of == part {
						panic("boom")
					}
				}
				e := retry.NewExecutor(retry.ExecutorOptions{RecoverPanics: recovers, Provider: versionedProvider{
					Provider: provide(t, exact(3)),
					version:  func() uint64 { call("Version"); return version },
					set:      func() *policy.Set { call("Set"); return nil },
				}})
				do := func() (panicked any, err error) {
					defer func() { panicked = recover() }()
					return nil, e.Do(bg, key, func(context.Context) error { return nil })
				}
				if panicked, err := do(); err != nil || panicked != nil {
					t.Fatal(err, panicked)
				}
				broken, version = true, 2
				for range 2 {
					switch panicked, err := do(); {
					case !recovers:
						if panicked != "boom" {
							t.Fatalf("%v, panic %v", err, panicked)
						}
					case panicked != nil:
						t.Fatalf("the panic reached the caller: %v", panicked)
					default:
						caught, ok := errors.AsType[*retry.PanicError](failure(t, err, policy.ReasonPanicInProvider))
						if !ok || caught.Part != "provider" || caught.Value != "boom" {
							t.Fatalf("%v", err)
						}
					}
				}
				broken = false
				if panicked, err := do(); err != nil || panicked != nil {
					t.Errorf("the provider works again: %v, panic %v", err, panicked)
				}
			})
		}
	}
}

// brokenError is an error whose nil pointer cannot be unwrapped.
type brokenError struct{ inside error }

func (e *brokenError) Error() string { return "broken" }
func (e *brokenError) Unwrap() error { return e.inside }

// TestR3RecoverPanicsCoversMarksAndClasses: both are part of the classification, and run the caller's code: matchers and the
// methods of errors.
func TestR3RecoverPanicsCoversMarksAndClasses(t *testing.T) {
	for name, err := range map[string]error{"mark": (*brokenError)(nil), "class": errDown} {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/hedges=%d", name, hedges), func(t *testing.T) {
				p := hedged(3, hedges)
				p.Hedge.Enabled = hedges > 0
				p.Retry.RetryOn = []policy.Class{"odd"}
				e := executor(t, p, func(o *retry.ExecutorOptions) {
					o.RecoverPanics = true
					o.Classes = []classify.Family{classify.Custom("odd", "", func(error) bool { panic("boom") })}
				})
				op, calls := script(err)
				timeline, err := e.DoWithTimeline(bg, key, op)
				f := failure(t, err, policy.ReasonPanicInClassifier)
				if caught, ok := errors.AsType[*retry.PanicError](f.Cause); !ok || caught.Part != "classifier" || *calls != 1 {
					t.Errorf("%v after %d attempts", f.Cause, *calls)
				}
				if o := timeline.Attempts[0].Outcome; o.Kind != classify.Abort || o.Reason != policy.ReasonPanicInClassifier {
					t.Errorf("the attempt's outcome is %+v", o)
				}
			})
		}
	}
}

func TestR3RecoverPanicsCoversWait(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		b := &counting{allow: 9}
		e := withBudget(t, exact(3), b, func(o *retry.ExecutorOptions) {
			o.RecoverPanics, o.Wait = recovers, func(context.Context, time.Duration) error { panic("boom") }
		})
		op, calls := script(errDown)
		var timeline observe.Timeline
		err, panicked := error(nil), any(nil)
		func() {
			defer func() { panicked = recover() }()
			timeline, err = e.DoWithTimeline(bg, key, op)
		}()
		b.check(t)
		if *calls != 1 {
			t.Errorf("%d calls after a panic", *calls)
		}
		if !recovers {
			if panicked != "boom" {
				t.Errorf("%v, panic %v", err, panicked)
			}
			continue
		}
		got := failure(t, err, policy.ReasonPanicInWait)
		caught, ok := errors.AsType[*retry.PanicError](got)
		if !ok || caught.Part != "wait" || !errors.Is(got, errDown) || timeline.Reason != policy.ReasonPanicInWait || panicked != nil {
			t.Errorf("%v, timeline %+v, panic %v", err, timeline, panicked)
		}
	}
}

func TestR3APanickingClockIsReportedAndCallsContinue(t *testing.T) {
	for _, l := range []*log{nil, {}} {
		options := retry.ExecutorOptions{RecoverPanics: true, Clock: func() time.Time { panic("boom") }}
		if l != nil {
			options.Observer = l
		}
		before := time.Now()
		timeline, err := retry.NewExecutor(options).DoWithTimeline(bg, key, func(context.Context) error { return nil })
		if err != nil || timeline.Start.Before(before) || timeline.Attempts[0].End.Before(timeline.Start) {
			t.Errorf("%v, timeline %+v", err, timeline)
		}
		if l != nil && l.reports(policy.ReasonPanicInClock) == 0 {
			t.Error("not reported")
		}
	}
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	sound := retry.NewExecutor(retry.ExecutorOptions{RecoverPanics: true, Clock: func() time.Time { return noon }})
	if timeline, err := sound.DoWithTimeline(bg, key, func(context.Context) error { return nil }); err != nil || timeline.Start != noon {
		t.Errorf("a working clock: %v, %+v", err, timeline)
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Clock: func() time.Time { panic("boom") }})
	defer func() {
		if recover() != "boom" {
			t.Error("without RecoverPanics the panic must reach the caller")
		}
	}()
	_, _ = e.DoWithTimeline(bg, key, func(context.Context) error { return nil })
}
