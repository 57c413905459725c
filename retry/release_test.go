package retry_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// ledger is a budget that numbers its grants: each must be released exactly once.
type ledger struct {
	launch bool
	deny   func(index int, kind budget.AttemptKind) bool

	mu       sync.Mutex
	asked    []string // kind and index, in the order of requests
	released []int    // number of releases of each grant
}

func (l *ledger) AllowAttempt(_ context.Context, _ policy.Key, index int, kind budget.AttemptKind, _ policy.BudgetRef) budget.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, fmt.Sprint(kind, " ", index))
	if l.deny != nil && l.deny(index, kind) {
		return budget.Deny("")
	}
	grant := len(l.released)
	l.released = append(l.released, 0)
	d := budget.Allow()
	d.Release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.released[grant]++
	}
	return d
}

func (l *ledger) AskAtLaunch() bool { return l.launch }

// ending is a way in which a call ends.
type ending struct {
	hedges int                           // at most, of each attempt
	runs   []func(context.Context) error // in launch order; the last one repeats
	cancel time.Duration                 // when the caller cancels; 0 for never
}

// policy is that of the call: three attempts.
func (c ending) policy() policy.Policy {
	if c.hedges > 0 {
		return hedged(3, c.hedges)
	}
	return exact(3)
}

// happen makes the call, drops its panic, and waits for what it leaves running.
func (c ending) happen(t *testing.T, e *retry.Executor) {
	t.Helper()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	if c.cancel > 0 {
		time.AfterFunc(c.cancel, cancel)
	}
	op, _ := racing(c.runs...)
	func() {
		defer func() { _ = recover() }()
		_ = e.Do(ctx, key, op)
	}()
	if err := e.Wait(bg); err != nil {
		t.Fatal(err)
	}
}

// TestR7EachGrantIsReleasedExactlyOnce: it checks each grant, because a grant that is released twice would hide one that is
// never released.
func TestR7EachGrantIsReleasedExactlyOnce(t *testing.T) {
	deaf := func(d time.Duration, err error) func(context.Context) error { // ignores its context
		return func(context.Context) error { time.Sleep(d); return err }
	}
	boom := func(context.Context) error { panic("boom") }
	lateBoom := func(ctx context.Context) error { <-ctx.Done(); panic("boom") }
	for name, c := range map[string]struct {
		ending
		grants int // asked when decided
		late   int // asked at launch
	}{
		"success":                                {ending{0, []func(context.Context) error{after(0, nil)}, 0}, 1, 1},
		"all attempts fail":                      {ending{0, []func(context.Context) error{after(0, errDown)}, 0}, 3, 3},
		"panic of a retry":                       {ending{0, []func(context.Context) error{after(0, errDown), boom}, 0}, 2, 2},
		"cancelled while running":                {ending{0, []func(context.Context) error{after(time.Minute, nil)}, time.Second}, 1, 1},
		"cancelled while waiting":                {ending{0, []func(context.Context) error{after(0, errDown)}, 5 * time.Millisecond}, 2, 1},
		"hedged, the primary wins":               {ending{2, []func(context.Context) error{after(150*time.Millisecond, nil), after(time.Hour, nil)}, 0}, 2, 2},
		"hedged, a hedge wins":                   {ending{2, []func(context.Context) error{after(time.Hour, nil), after(time.Hour, nil), after(0, nil)}, 0}, 3, 3},
		"hedged, losers ignore their context":    {ending{2, []func(context.Context) error{deaf(time.Minute, nil), deaf(2*time.Minute, errDown), after(0, nil)}, 0}, 3, 3},
		"hedged, all fail and are retried":       {ending{1, []func(context.Context) error{after(150*time.Millisecond, errDown)}, 0}, 6, 6},
		"hedged, cancelled":                      {ending{2, []func(context.Context) error{after(time.Hour, nil)}, time.Second}, 3, 3},
		"hedged, cancelled while waiting":        {ending{1, []func(context.Context) error{after(0, errDown)}, 5 * time.Millisecond}, 2, 1},
		"hedged, the primary panics":             {ending{1, []func(context.Context) error{boom}, 0}, 1, 1},
		"hedged, a hedge panics":                 {ending{1, []func(context.Context) error{deaf(time.Minute, nil), boom}, 0}, 2, 2},
		"hedged, a loser panics":                 {ending{1, []func(context.Context) error{lateBoom, after(0, nil)}, 0}, 2, 2},
		"hedged, a winner while others end":      {ending{2, []func(context.Context) error{after(300*time.Millisecond, nil), after(200*time.Millisecond, nil), after(100*time.Millisecond, nil)}, 0}, 3, 3},
		"hedged, one fails and another succeeds": {ending{1, []func(context.Context) error{after(150*time.Millisecond, errDown), after(100*time.Millisecond, nil)}, 0}, 2, 2},
	} {
		for _, launch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, asked at launch %v", name, launch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &ledger{launch: launch}
					c.happen(t, withBudget(t, c.policy(), b, func(o *retry.ExecutorOptions) { o.Observer = &log{} }))
					want := c.grants
					if launch {
						want = c.late
					}
					if len(b.released) != want || slices.ContainsFunc(b.released, func(n int) bool { return n != 1 }) {
						t.Errorf("%d grants, want %d; released %v times", len(b.released), want, b.released)
					}
				})
			})
		}
	}
}

// TestR7AGrantReleasedAfterARefusalIsNotReleasedAgain: also if the observer panics then.
func TestR7AGrantReleasedAfterARefusalIsNotReleasedAgain(t *testing.T) {
	for _, hedge := range []bool{false, true} {
		p, b := exact(3), &ledger{}
		p.Hedge.Enabled = hedge
		e := withBudget(t, p, b, func(o *retry.ExecutorOptions) {
			o.Journal = journalFunc(func(*observe.Event) error { return errDown })
			o.Observer = observe.Func(func(_ context.Context, e *observe.Event) {
				if e.Type == observe.Decided {
					panic("boom")
				}
			})
		})
		func() {
			defer func() { _ = recover() }()
			_ = e.Do(bg, key, func(context.Context) error { return errDown })
		}()
		_ = e.Wait(bg)
		if diff := cmp.Diff([]int{1, 1}, b.released); diff != "" {
			t.Errorf("hedged %v: %s", hedge, diff)
		}
	}
}

// TestR7BudgetSeesKindAndIndexOfHedges: hedges count in the launch order, and a group's retry is a retry.
func TestR7BudgetSeesKindAndIndexOfHedges(t *testing.T) {
	for _, launch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := &ledger{launch: launch}
			e := withBudget(t, hedged(2, 2), b)
			op, _ := racing(after(250*time.Millisecond, errDown))
			_ = e.Do(bg, key, op)
			_ = e.Wait(bg)
			want := []string{"retry 0", "hedge 1", "hedge 2", "retry 3", "hedge 4", "hedge 5"}
			if diff := cmp.Diff(want, b.asked); diff != "" {
				t.Errorf("asked at launch %v: %s", launch, diff)
			}

			b = &ledger{launch: launch, deny: func(_ int, kind budget.AttemptKind) bool { return kind == budget.KindHedge }}
			op, _ = racing(after(250*time.Millisecond, errDown))
			timeline, _ := withBudget(t, hedged(2, 1), b).DoWithTimeline(bg, key, op)
			want = []string{"retry 0", "hedge 1", "retry 2", "hedge 3"}
			if diff := cmp.Diff(want, b.asked); diff != "" {
				t.Errorf("hedges denied: %s", diff)
			}
			for i, a := range timeline.Attempts {
				if a.Attempt != i+1 || a.Denied != (i%2 == 1) || a.HedgeIndex != i%2 || a.RetryIndex != i/2 {
					t.Errorf("record %d: %+v", i, a)
				}
			}
		})
	}
}

func TestR7TheBudgetOfHedgesIsAskedForHedgesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forRetries, forHedges := &ledger{}, &ledger{}
		p := hedged(2, 1)
		p.Hedge.Budget.Name = "h"
		registry := budget.NewRegistry()
		for name, b := range map[string]budget.Budget{"b": forRetries, "h": forHedges} {
			if err := registry.Register(name, b); err != nil {
				t.Fatal(err)
			}
		}
		p.Retry.Budget.Name = "b"
		op, _ := racing(after(250*time.Millisecond, errDown))
		_ = executor(t, p, func(o *retry.ExecutorOptions) { o.Budgets = registry }).Do(bg, key, op)
		if diff := cmp.Diff([]string{"retry 0", "retry 2"}, forRetries.asked); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"hedge 1", "hedge 3"}, forHedges.asked); diff != "" {
			t.Error(diff)
		}
	})
}

// TestR7AWaitThatFailsEndsTheCall: the grant of the retry is released.
func TestR7AWaitThatFailsEndsTheCall(t *testing.T) {
	b := &ledger{}
	e := withBudget(t, exact(3), b, func(o *retry.ExecutorOptions) {
		o.Wait = func(context.Context, time.Duration) error { return errDown }
	})
	op, calls := script(errDown)
	failure(t, e.Do(bg, key, op), policy.ReasonCanceled)
	if diff := cmp.Diff([]int{1, 1}, b.released); *calls != 1 || diff != "" {
		t.Errorf("%d calls, grants released %s", *calls, diff)
	}
}

func TestA1AnObserverThatPanicsAtTheEndGetsOneEnd(t *testing.T) {
	ends := 0
	p := exact(1)
	p.Hedge = policy.Hedge{Enabled: true}
	e := executor(t, p, func(o *retry.ExecutorOptions) {
		o.Observer = observe.Func(func(_ context.Context, e *observe.Event) {
			if e.Type == observe.CallEnded {
				ends++
				panic("boom")
			}
		})
	})
	func() {
		defer func() { _ = recover() }()
		_ = e.Do(bg, key, func(context.Context) error { return nil })
	}()
	if _ = e.Wait(bg); ends != 1 {
		t.Errorf("%d recorded ends of the call", ends)
	}
}
