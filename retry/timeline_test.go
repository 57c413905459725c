package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestR5TheTimelineRecordsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := script(errDown, errDown, nil)
		start := time.Now()
		timeline, err := executor(t, exact(5)).DoWithTimeline(bg, key, op, retry.WithCallID("call-7"), retry.WithAttribute("shard", "3"))
		if err != nil {
			t.Fatal(err)
		}
		if timeline.CallID != "call-7" || timeline.PolicyID != "rev-1" || timeline.Key != key || timeline.Reason != policy.ReasonSuccess ||
			timeline.FinalError != nil || !timeline.Start.Equal(start) || !timeline.End.Equal(start.Add(30*time.Millisecond)) {
			t.Errorf("%+v", timeline)
		}
		if timeline.Attributes.Get("shard") != "3" || timeline.Attributes.Get(observe.AttrPolicySource) != "static" {
			t.Errorf("attributes of %+v", timeline.Attributes)
		}
		for i, a := range timeline.Attempts {
			backoff := []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond}[i]
			if a.Attempt != i+1 || a.RetryIndex != i || a.HedgeIndex != 0 || a.Backoff != backoff || !a.BudgetAllowed ||
				a.BudgetReason != policy.ReasonNoBudget || a.Denied {
				t.Errorf("record %d: %+v", i, a)
			}
		}
		if len(timeline.Attempts) != 3 || timeline.Attempts[2].Outcome.Kind != classify.Success {
			t.Errorf("%d records", len(timeline.Attempts))
		}
		if raw, err := json.Marshal(timeline); err != nil || !strings.Contains(string(raw), `"backoff":0.02`) {
			t.Errorf("%s, %v", raw, err)
		}
	})
}

func TestR5EveryEventCarriesTheCallsAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		p := exact(2)
		p.Retry.TimeoutPerAttempt = time.Second
		e := executor(t, p, func(o *retry.ExecutorOptions) { o.Observer = l })
		slow := func(context.Context) error { time.Sleep(3 * time.Second); return errDown }
		_ = e.Do(bg, key, slow, retry.WithAttribute("shard", "2"), retry.WithAttribute("shard", "3"), retry.WithAttribute("zone", "a"))
		_ = e.Once(bg, retry.Work{Key: key, ID: "job"}, slow, retry.WithAttribute("shard", "3"), retry.WithAttribute("zone", "a"))
		if len(l.events) < 8 || l.reports(policy.ReasonAttemptOverrun) == 0 {
			t.Fatalf("%d events", len(l.events))
		}
		for _, event := range l.events {
			if a := event.Work.Attributes; a.Len() != 2 || a.Get("shard") != "3" || a.Get("zone") != "a" {
				t.Errorf("%s has %+v", event.Type, a)
			}
		}
	})
}

func TestR5TimelineFinishesExactlyOnceAndEventsAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		op, _ := script(errDown)
		_ = executor(t, exact(3), func(o *retry.ExecutorOptions) { o.Observer = l }).Do(bg, key, op)
		if n := len(l.of(observe.CallEnded)); n != 1 {
			t.Errorf("%d ends", n)
		}
		for i, e := range l.events {
			if e.Seq != i+1 || e.Work.ID == "" || e.Work.ID != l.events[0].Work.ID || e.Policy == nil {
				t.Errorf("event %d is %+v", i, e)
			}
		}
		var decisions []string
		for _, e := range l.of(observe.Decided) {
			decisions = append(decisions, fmt.Sprintf("%s %s %v", e.Decision.Verdict.Action, e.Decision.Verdict.Reason, e.Decision.Verdict.Delay))
		}
		want := []string{"retry retry 10ms", "retry retry 20ms", "stop attempts_exhausted 0s"}
		if diff := cmp.Diff(want, decisions); diff != "" {
			t.Error(diff)
		}
	})
}

// TestR14ObservedAndUnobservedCallsAreTheSame runs the same random script with and without an observer and compares
// everything that the caller can see.
func TestR14ObservedAndUnobservedCallsAreTheSame(t *testing.T) {
	results := []error{nil, errDown, classify.Permanent(errDown), classify.Business(errDown), classify.After(errDown, 15*time.Millisecond),
		classify.After(errDown, time.Hour), context.DeadlineExceeded}
	type seen struct {
		err   string
		took  time.Duration
		calls int
		asked []int
	}
	for n := range 343 {
		ops := []error{results[n%7], results[n/7%7], results[n/49%7]}
		for _, hedge := range []bool{false, true} {
			var got [2]seen
			for i, observer := range []observe.Observer{nil, &log{}} {
				synctest.Test(t, func(t *testing.T) {
					p := exact(3)
					p.Retry.Jitter = policy.JitterFull
					p.Retry.AbortOn = []policy.Class{policy.ClassTimeout}
					p.Hedge = policy.Hedge{Enabled: hedge}
					p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 3}
					b := &counting{allow: 2 + n%2}
					e := withBudget(t, p, b, func(o *retry.ExecutorOptions) { o.Observer = observer })
					op, calls := script(ops...)
					start := time.Now()
					err := e.Do(bg, key, op, retry.WithSeed(uint64(n)))
					got[i] = seen{fmt.Sprint(err), time.Since(start), *calls, b.asked}
					b.check(t)
				})
			}
			if diff := cmp.Diff(got[0], got[1], cmp.AllowUnexported(seen{})); diff != "" {
				t.Fatalf("script %d, hedged %v: unobserved (-) and observed (+) differ: %s", n, hedge, diff)
			}
		}
	}
}

func TestR12OverrunIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		p := exact(2)
		p.Retry.TimeoutPerAttempt = time.Second
		e := executor(t, p, func(o *retry.ExecutorOptions) { o.Observer = l })
		_ = e.Do(bg, key, func(context.Context) error { time.Sleep(5 * time.Second); return nil })
		_ = e.Do(bg, key, func(context.Context) error { time.Sleep(1900 * time.Millisecond); return nil })
		time.Sleep(time.Minute)
		if n := l.reports(policy.ReasonAttemptOverrun); n != 1 {
			t.Errorf("%d reports, want one for the attempt that took 5s", n)
		}
	})
}

func TestR13JournalRefusesBeforeAnythingFurtherStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		j := &journal{err: full}
		b := &counting{allow: 9}
		op, calls := script(errDown)
		start := time.Now()
		err := withBudget(t, exact(3), b, func(o *retry.ExecutorOptions) { o.Journal = j }).Do(bg, key, op)
		failure(t, err, policy.ReasonAuditUnavailable)
		if *calls != 1 || time.Since(start) != 0 || !errors.Is(err, full) || !errors.Is(err, errDown) {
			t.Errorf("%d calls, waited %v: %v", *calls, time.Since(start), err)
		}
		b.check(t)
	})
}

func TestR13CompletedEffectIsNeverTurnedIntoAFailure(t *testing.T) {
	l := &log{}
	e := executor(t, exact(3), func(o *retry.ExecutorOptions) { o.Journal, o.Observer = &journal{err: errDown}, l })
	if err := e.Do(bg, key, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if l.reports(policy.ReasonAuditUnavailable) != 1 {
		t.Error("the refusal was not reported")
	}
}

// obeying is a journal that obeys its context, as a journal in a database does.
type obeying struct{ journal }

func (j *obeying) Append(ctx context.Context, e *observe.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.journal.Append(ctx, e)
}

func TestR13EndOfACancelledCallIsAppended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, hedge := range []bool{false, true} {
			j := &obeying{}
			p := exact(3)
			p.Hedge.Enabled = hedge
			e := executor(t, p, func(o *retry.ExecutorOptions) { o.Journal = j })
			ctx, cancel := context.WithCancel(bg)
			err := e.Do(ctx, key, func(context.Context) error { cancel(); return errDown })
			failure(t, err, policy.ReasonCanceled)
			failure(t, e.Do(ctx, key, func(context.Context) error { return nil }), policy.ReasonCanceled)
			if len(j.verdicts) != 2 {
				t.Errorf("%d decisions appended, want 2", len(j.verdicts))
			}
			_ = e.Wait(bg)
		}
	})
}

func TestR13DecisionIsAppendedBeforeItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		start := time.Now()
		op, _ := script(errDown, nil)
		_ = executor(t, exact(3), func(o *retry.ExecutorOptions) { o.Journal = j }).Do(bg, key, op)
		if len(j.at) != 2 || !j.at[0].Equal(start) || j.verdicts[0] != decision.Retry || j.verdicts[1] != decision.Done {
			t.Errorf("appended %v at %v", j.verdicts, j.at)
		}
	})
}

type journal struct {
	err      error
	at       []time.Time
	verdicts []decision.Action
}

func (j *journal) Append(_ context.Context, e *observe.Event) error {
	j.at = append(j.at, time.Now())
	j.verdicts = append(j.verdicts, e.Decision.Verdict.Action)
	return j.err
}

// TestManyFailingObservedCallsTerminate runs 200,000 failing observed calls in 8 goroutines.
func TestManyFailingObservedCallsTerminate(t *testing.T) {
	b, err := budget.New(policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10})
	if err != nil {
		t.Fatal(err)
	}
	l := observe.Func(func(context.Context, *observe.Event) {})
	p := exact(3)
	p.Circuit = policy.Circuit{Kind: policy.CircuitRate, Cooldown: 100 * time.Millisecond}
	e := withBudget(t, p, b, func(o *retry.ExecutorOptions) {
		o.Observer = l
		o.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	})
	calls := 25_000
	if testing.Short() {
		calls = 2_500
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range calls {
				if e.Do(bg, key, func(context.Context) error { return errDown }) == nil {
					t.Error("a failing call succeeded")
				}
			}
		})
	}
	group.Wait()
}
