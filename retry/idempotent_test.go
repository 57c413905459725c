package retry_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// records is a store whose operations can fail.
type records struct {
	idempotency.Store
	begin, settle atomic.Pointer[error]
}

func newRecords() *records { return &records{Store: memory.Open().Idempotency()} }

func (s *records) Begin(ctx context.Context, r idempotency.BeginRequest) (idempotency.Begun, error) {
	if err := s.begin.Load(); err != nil {
		return idempotency.Begun{}, *err
	}
	return s.Store.Begin(ctx, r)
}

func (s *records) Settle(ctx context.Context, c idempotency.Claim, x idempotency.Settlement) error {
	if err := s.settle.Load(); err != nil {
		return *err
	}
	return s.Store.Settle(ctx, c, x)
}

func newGuard(t *testing.T, s idempotency.Store, o idempotency.GuardOptions) *idempotency.Guard {
	t.Helper()
	guard, err := idempotency.NewGuard(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func reasonOf(t *testing.T, err error) policy.Reason {
	t.Helper()
	failed, ok := errors.AsType[*retry.Error](err)
	if !ok {
		t.Fatalf("%v is not a *retry.Error", err)
	}
	return failed.Reason
}

func TestI3ACallIsMadeOncePerKey(t *testing.T) {
	type order struct{ ID int }
	s := newRecords()
	guard := newGuard(t, s, idempotency.GuardOptions{})
	e := executor(t, exact(3))
	runs := 0
	for range 3 {
		got, err := retry.DoValue(bg, e, key, func(context.Context) (*order, error) {
			if runs++; runs == 1 {
				return nil, errDown // all attempts of a call share its claim
			}
			return &order{ID: 7}, nil
		}, retry.WithIdempotency(guard, "k"), retry.WithOperation("create"), retry.WithTenant("t"))
		if err != nil || got == nil || got.ID != 7 {
			t.Fatal(got, err)
		}
	}
	if runs != 2 {
		t.Errorf("%d attempts, want 2", runs)
	}
	r, err := s.Get(bg, idempotency.ID{Tenant: "t", Operation: "create", Key: "k"})
	if err != nil || r.State != idempotency.Completed || string(r.Result) != `{"ID":7}` {
		t.Errorf("%+v %v", r, err)
	}
}

func TestI5NullZeroEmptyAndFalseAreResults(t *testing.T) {
	guard := newGuard(t, newRecords(), idempotency.GuardOptions{})
	e := executor(t, exact(1))
	replays(t, e, guard, "null", (*int)(nil))
	replays(t, e, guard, "zero", 0)
	replays(t, e, guard, "empty", "")
	replays(t, e, guard, "false", false)
}

func TestI5AMissingResultIsAnError(t *testing.T) {
	s := newRecords()
	guard := newGuard(t, s, idempotency.GuardOptions{})
	e := executor(t, exact(1))
	type handle struct{ Done chan int }
	open := func(context.Context) (*handle, error) { return &handle{}, nil }
	if got, err := retry.DoValue(bg, e, key, open, retry.WithIdempotency(guard, "k")); got == nil || err == nil {
		t.Errorf("the caller that ran it got %v %v", got, err)
	}
	var kept *idempotency.ResultError
	got, err := retry.DoValue(bg, e, key, open, retry.WithIdempotency(guard, "k"))
	if got != nil || !errors.As(err, &kept) || reasonOf(t, err) != policy.ReasonIdempotencyFailed {
		t.Errorf("the later caller got %v %v", got, err)
	}
	if err := e.Do(bg, key, func(context.Context) error { t.Error("it ran"); return nil }, retry.WithIdempotency(guard, "k")); err != nil {
		t.Errorf("the caller without a result got %v", err)
	}
	nothing := func(context.Context) (any, error) { return nil, nil }
	for range 2 {
		if got, err := retry.DoValue(bg, e, key, nothing, retry.WithIdempotency(guard, "nil")); got != nil || err != nil {
			t.Errorf("nil: %v %v", got, err)
		}
	}
}

func TestI5ACallWithoutAResultReadsNone(t *testing.T) {
	guard := newGuard(t, newRecords(), idempotency.GuardOptions{})
	if _, err := guard.Do(bg, idempotency.Request{Key: "k"}, func(context.Context) ([]byte, error) { return []byte("no JSON"), nil }); err != nil {
		t.Fatal(err)
	}
	e := executor(t, exact(1))
	if err := e.Do(bg, key, func(context.Context) error { t.Error("it ran"); return nil }, retry.WithIdempotency(guard, "k")); err != nil {
		t.Error(err)
	}
}

func replays[T comparable](t *testing.T, e *retry.Executor, guard *idempotency.Guard, k string, want T) {
	t.Helper()
	runs := 0
	for range 2 {
		got, err := retry.DoValue(bg, e, key, func(context.Context) (T, error) { runs++; return want, nil }, retry.WithIdempotency(guard, k))
		if err != nil || got != want {
			t.Errorf("%s: %v %v", k, got, err)
		}
	}
	runs2 := 0
	for range 2 {
		if err := e.Do(bg, key, func(context.Context) error { runs2++; return nil }, retry.WithIdempotency(guard, k+"/do")); err != nil {
			t.Error(err)
		}
	}
	if runs != 1 || runs2 != 1 {
		t.Errorf("%s: %d and %d runs", k, runs, runs2)
	}
}

func TestI3FailuresOfACall(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		state idempotency.State
		again int // runs of a second call
	}{
		"exhausted":     {errDown, idempotency.Released, 2},
		"non-retryable": {classify.Permanent(errDown), idempotency.Failed, 0},
		"business":      {classify.Business(errDown), idempotency.Failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRecords()
				guard := newGuard(t, s, idempotency.GuardOptions{})
				e := executor(t, exact(2))
				runs := 0
				op := func(context.Context) error { runs++; return test.err }
				if err := e.Do(bg, key, op, retry.WithIdempotency(guard, "k")); !errors.Is(err, errDown) {
					t.Error(err)
				}
				r, err := s.Get(bg, idempotency.ID{Key: "k"})
				if err != nil || r.State != test.state {
					t.Errorf("%+v %v", r, err)
				}
				runs = 0
				err = e.Do(bg, key, op, retry.WithIdempotency(guard, "k"))
				if runs != test.again || err == nil {
					t.Errorf("%d runs: %v", runs, err)
				}
				if test.again == 0 && reasonOf(t, err) != policy.ReasonIdempotencyFailed {
					t.Error(err)
				}
			})
		})
	}
}

func TestI3ARefusedValueIsAFailureWithItsReason(t *testing.T) {
	s := newRecords()
	guard := newGuard(t, s, idempotency.GuardOptions{})
	p := exact(3)
	p.Retry.ClassifierName = "never"
	refuse := classify.Func(func(any, error) classify.Outcome {
		return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: "refused"}
	})
	e := executor(t, p, func(o *retry.ExecutorOptions) { o.Classifiers = map[string]classify.Classifier{"never": refuse} })
	if _, err := retry.DoValue(bg, e, key, func(context.Context) (int, error) { return 3, nil }, retry.WithIdempotency(guard, "k")); err == nil {
		t.Error("no error")
	}
	r, err := s.Get(bg, idempotency.ID{Key: "k"})
	if err != nil || r.State != idempotency.Failed || r.Failure == nil || !strings.Contains(r.Failure.Message, string(policy.ReasonNonRetryable)) {
		t.Errorf("%+v %v", r, err)
	}
}

func TestI3ACallThatAGuardRefusesDoesNotRun(t *testing.T) {
	s := newRecords()
	guard := newGuard(t, s, idempotency.GuardOptions{})
	if _, err := guard.Begin(bg, idempotency.Request{Key: "busy"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(bg, idempotency.BeginRequest{ID: idempotency.ID{Key: "lapsed"}, Owner: "gone", Lease: time.Microsecond}); err != nil {
		t.Fatal(err)
	}
	e := executor(t, exact(3))
	_ = e.Do(bg, key, func(context.Context) error { return nil }, retry.WithIdempotency(guard, "used"), retry.WithFingerprint("a"))
	for k, want := range map[string]policy.Reason{
		"busy": policy.ReasonIdempotencyInFlight, "lapsed": policy.ReasonOutcomeUnknown, "used": policy.ReasonIdempotencyMismatch,
		"": policy.ReasonIdempotencyBadKey, "a\x00b": policy.ReasonIdempotencyBadKey,
	} {
		timeline, err := e.DoWithTimeline(bg, key, func(context.Context) error { t.Error("ran"); return nil }, retry.WithIdempotency(guard, k))
		if got := reasonOf(t, err); got != want || timeline.Reason != want || len(timeline.Attempts) != 0 {
			t.Errorf("%q: %s, want %s: %v", k, got, want, err)
		}
	}
}

func TestI3ACallThatWasRefusedFreesItsKey(t *testing.T) {
	guard := newGuard(t, newRecords(), idempotency.GuardOptions{})
	b := &counting{} // refuses
	e := withBudget(t, exact(3), b)
	op, runs := script(nil)
	if err := e.Do(bg, key, op, retry.WithIdempotency(guard, "k")); reasonOf(t, err) != policy.ReasonBudgetDenied {
		t.Error(err)
	}
	b.allow = 9
	if err := e.Do(bg, key, op, retry.WithIdempotency(guard, "k")); err != nil || *runs != 1 {
		t.Errorf("%v after %d runs", err, *runs)
	}
}

func TestI6StoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRecords()
		guard := newGuard(t, s, idempotency.GuardOptions{Lease: time.Second})
		e := executor(t, exact(3))
		s.begin.Store(&errDown)
		err := e.Do(bg, key, func(context.Context) error { t.Error("ran without a record"); return nil }, retry.WithIdempotency(guard, "k"))
		if reasonOf(t, err) != policy.ReasonIdempotencyUnavailable || !errors.Is(err, errDown) {
			t.Error(err)
		}
		s.begin.Store(nil)
		s.settle.Store(&errDown)
		runs := 0
		got, err := retry.DoValue(bg, e, key, func(context.Context) (int, error) { runs++; return 7, nil }, retry.WithIdempotency(guard, "k"))
		lost, ok := errors.AsType[*idempotency.RecordError](err)
		if got != 7 || runs != 1 || !ok || !errors.Is(lost, errDown) {
			t.Errorf("%d after %d runs: %v", got, runs, err)
		}
	})
}

func TestI8AHundredCallersHaveOneEffect(t *testing.T) {
	guard := newGuard(t, newRecords(), idempotency.GuardOptions{Wait: time.Minute})
	e := executor(t, exact(1))
	var effects atomic.Int64
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			got, err := retry.DoValue(bg, e, key, func(context.Context) (int64, error) { return effects.Add(1), nil }, retry.WithIdempotency(guard, "k"))
			if err != nil || got != 1 {
				t.Error(got, err)
			}
		})
	}
	group.Wait()
}

func TestI4APanicLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, newRecords(), idempotency.GuardOptions{Lease: time.Second})
		e := executor(t, exact(3))
		func() {
			defer func() { _ = recover() }()
			_ = e.Do(bg, key, func(context.Context) error { panic("oops") }, retry.WithIdempotency(guard, "k"))
		}()
		time.Sleep(2 * time.Second)
		err := e.Do(bg, key, func(context.Context) error { t.Error("ran"); return nil }, retry.WithIdempotency(guard, "k"))
		if reasonOf(t, err) != policy.ReasonOutcomeUnknown {
			t.Error(err)
		}
	})
}

func TestI4ACaughtPanicOfAClassifierLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRecords()
		guard := newGuard(t, s, idempotency.GuardOptions{Lease: time.Second})
		p := exact(3)
		p.Retry.ClassifierName = "broken"
		e := executor(t, p, func(o *retry.ExecutorOptions) {
			o.RecoverPanics = true
			o.Classifiers = map[string]classify.Classifier{"broken": classify.Func(func(any, error) classify.Outcome { panic("oops") })}
		})
		runs := 0
		op := func(context.Context) error { runs++; return nil }
		for _, want := range []policy.Reason{policy.ReasonPanicInClassifier, policy.ReasonOutcomeUnknown} {
			if err := e.Do(bg, key, op, retry.WithIdempotency(guard, "k")); reasonOf(t, err) != want {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
		}
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

// TestA1ActionsOnKeysCarryTheCall: the events of a guard and of its executor share the ID of the work.
func TestA1ActionsOnKeysCarryTheCall(t *testing.T) {
	l := &log{}
	guard := newGuard(t, newRecords(), idempotency.GuardOptions{Observer: l})
	e := executor(t, exact(1), func(o *retry.ExecutorOptions) { o.Observer = l })
	_ = e.Do(bg, key, func(context.Context) error { return nil }, retry.WithIdempotency(guard, "k"))
	var actions []string
	for _, event := range l.events {
		if event.Work.ID == "" || event.Work.ID != l.events[0].Work.ID || event.Work.Key != key {
			t.Errorf("%s of %+v", event.Type, event.Work)
		}
		if event.Type == observe.Idempotent {
			actions = append(actions, event.Idempotency.Action)
		}
	}
	if len(actions) != 1 || actions[0] != "record" {
		t.Errorf("%v", actions)
	}
}

func TestI6NothingRunsUnderANilGuard(t *testing.T) {
	ran := false
	defer func() {
		if v := recover(); ran || v != "retry: WithIdempotency: the guard is nil" {
			t.Error(ran, v)
		}
	}()
	_ = retry.NewExecutor(retry.ExecutorOptions{}).Do(bg, key, func(context.Context) error {
		ran = true
		return nil
	}, retry.WithIdempotency(nil, "k"))
}

func TestI5AFailureThatCannotBeRecordedIsJoined(t *testing.T) {
	for name, cause := range map[string]error{"failed": classify.Permanent(errDown), "released": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, lost := newRecords(), errors.New("out of paper")
				s.settle.Store(&lost)
				guard := newGuard(t, s, idempotency.GuardOptions{Lease: time.Second})
				err := executor(t, exact(1)).Do(bg, key, func(context.Context) error { return cause }, retry.WithIdempotency(guard, "k"))
				if _, ok := errors.AsType[*idempotency.RecordError](err); !ok || !errors.Is(err, errDown) || !errors.Is(err, lost) {
					t.Error(err)
				}
			})
		})
	}
}

func TestI5AResultThatCannotBeReadRunsNothing(t *testing.T) {
	guard := newGuard(t, newRecords(), idempotency.GuardOptions{})
	if _, err := guard.Do(bg, idempotency.Request{Key: "k"}, func(context.Context) ([]byte, error) { return []byte("no JSON"), nil }); err != nil {
		t.Fatal(err)
	}
	got, err := retry.DoValue(bg, executor(t, exact(3)), key, func(context.Context) (int, error) {
		t.Error("it ran")
		return 1, nil
	}, retry.WithIdempotency(guard, "k"))
	if _, ok := errors.AsType[*idempotency.ResultError](err); !ok || got != 0 || reasonOf(t, err) != policy.ReasonIdempotencyFailed {
		t.Errorf("%d, %v", got, err)
	}
}

func TestI6ACancelledCallerGetsItsContextsError(t *testing.T) {
	s := newRecords()
	guard := newGuard(t, s, idempotency.GuardOptions{})
	e := executor(t, exact(3))
	canceled, cancel := context.WithCancel(bg)
	cancel()
	late, stop := context.WithDeadline(bg, time.Unix(0, 0))
	defer stop()
	for want, ctx := range map[policy.Reason]context.Context{policy.ReasonCanceled: canceled, policy.ReasonDeadlineExceeded: late} {
		err := e.Do(ctx, key, func(context.Context) error { t.Error("it ran"); return nil }, retry.WithIdempotency(guard, "k"))
		if reasonOf(t, err) != want || !errors.Is(err, ctx.Err()) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := s.Get(bg, idempotency.ID{Key: "k"}); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("%s: a record remains: %v", want, err)
		}
	}
}

func TestI3ACallerCancelledWhileItWaitsForADuplicateGetsBothErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRecords()
		if _, err := s.Begin(bg, idempotency.BeginRequest{ID: idempotency.ID{Key: "k"}, Owner: "twin", Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		guard := newGuard(t, s, idempotency.GuardOptions{Wait: time.Minute})
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		err := executor(t, exact(3)).Do(ctx, key, func(context.Context) error { t.Error("it ran"); return nil }, retry.WithIdempotency(guard, "k"))
		if reasonOf(t, err) != policy.ReasonIdempotencyInFlight || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
