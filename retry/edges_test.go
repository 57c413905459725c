package retry_test

import (
	"context"
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
	"github.com/tenetdev/tenet/sharing"
)

// TestB3ARefusedAttemptTellsHowLongItWaited: most waits for a limit that matter end with a refusal.
func TestB3ARefusedAttemptTellsHowLongItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(1)
		p.Limit = policy.Limit{Concurrency: 1, MaxWait: 500 * time.Millisecond}
		e := executor(t, p)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Do(bg, key, func(context.Context) error { time.Sleep(5 * time.Second); return nil })
		}()
		synctest.Wait()
		tl, err := e.DoWithTimeline(bg, key, func(context.Context) error { return nil })
		if w := tl.Attempts[0].Outcome.Attributes[observe.AttrLimitWait]; err == nil || w != "500ms" {
			t.Errorf("limit_wait is %q, %v", w, err)
		}
		if d := tl.End.Sub(tl.Start); d != 500*time.Millisecond {
			t.Errorf("the timeline lasts %s", d)
		}
		<-done
	})
}

func TestR5ATimelineLastsUntilItsFallbackHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(t, exact(1))
		tl, err := e.DoWithTimeline(bg, key, func(context.Context) error { return errDown }, retry.WithFallback(func(context.Context, error) error {
			time.Sleep(2 * time.Second)
			return nil
		}))
		if d := tl.End.Sub(tl.Start); d != 2*time.Second || err != nil {
			t.Errorf("the timeline lasts %s, %v", d, err)
		}
	})
}

// hooked is a provider that runs a function once while it is asked.
type hooked struct {
	policy.Provider
	version atomic.Uint64
	hook    atomic.Pointer[func()]
}

func (h *hooked) Version() uint64 { return h.version.Load() }

func (h *hooked) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	if f := h.hook.Swap(nil); f != nil {
		(*f)()
	}
	return h.Provider.Policy(ctx, k)
}

// TestB3AKeyEvictedWhileItsPolicyIsReadSharesItsLimit: what an evicted key had has left the shared limits.
func TestB3AKeyEvictedWhileItsPolicyIsReadSharesItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := exact(1)
		p.Limit = policy.Limit{Concurrency: 1, MaxWait: time.Minute, Scope: policy.ScopeShared}
		store := memory.Open().Limits()
		hubs := []*sharing.Hub{sharing.NewHub(store), sharing.NewHub(store)}
		defer func() {
			for _, h := range hubs {
				_ = h.Close(context.Background())
			}
		}()
		provider := &hooked{Provider: provide(t, p)}
		one := retry.NewExecutor(retry.ExecutorOptions{Provider: provider, Sharing: hubs[0], MaxKeys: 1})
		two := retry.NewExecutor(retry.ExecutorOptions{Provider: provide(t, p), Sharing: hubs[1]})
		ok := func(context.Context) error { return nil }
		_ = one.Do(bg, key, ok)
		_ = two.Do(bg, key, ok)
		time.Sleep(5 * time.Second)
		evict := func() { _ = one.Do(bg, policy.ParseKey("other.key"), ok) }
		provider.hook.Store(&evict)
		provider.version.Add(1)
		_ = one.Do(bg, key, ok)
		time.Sleep(5 * time.Second)
		var inside atomic.Int32
		var crowded atomic.Bool
		op := func(context.Context) error {
			if inside.Add(1) > 1 {
				crowded.Store(true)
			}
			time.Sleep(10 * time.Millisecond)
			inside.Add(-1)
			return nil
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				_ = two.Do(bg, key, op)
			}
		}()
		for range 200 {
			_ = one.Do(bg, key, op)
		}
		<-done
		if crowded.Load() {
			t.Error("two at once")
		}
	})
}

// brittle is a store of records whose methods panic.
type brittle struct {
	idempotency.Store
	begin, settle bool
}

func (s *brittle) Begin(ctx context.Context, r idempotency.BeginRequest) (idempotency.Begun, error) {
	if s.begin {
		panic("begin")
	}
	return s.Store.Begin(ctx, r)
}

func (s *brittle) Settle(ctx context.Context, c idempotency.Claim, x idempotency.Settlement) error {
	if s.settle {
		panic("settle")
	}
	return s.Store.Settle(ctx, c, x)
}

// TestR5ATimelineEndsOnceWhateverPanics: the operation or the guard's store.
func TestR5ATimelineEndsOnceWhateverPanics(t *testing.T) {
	for name, want := range map[string]policy.Reason{
		"begin": policy.ReasonIdempotencyUnavailable, "settle": policy.ReasonIdempotencyUnavailable, "operation": policy.ReasonPanicInOperation,
	} {
		s := &brittle{Store: memory.Open().Idempotency(), begin: name == "begin", settle: name == "settle"}
		l := &log{}
		e := executor(t, exact(1), func(o *retry.ExecutorOptions) { o.Observer = l })
		func() {
			defer func() {
				if v := recover(); v != name {
					t.Errorf("%s: the panic is %v", name, v)
				}
			}()
			_ = e.Do(bg, key, func(context.Context) error {
				if name == "operation" {
					panic(name)
				}
				return nil
			}, retry.WithIdempotency(newGuard(t, s, idempotency.GuardOptions{}), "k"))
		}()
		if ends := l.of(observe.CallEnded); len(ends) != 1 || ends[0].Timeline.Reason != want {
			t.Errorf("%s: %d timelines ended: %+v", name, len(ends), ends)
		}
	}
}

// TestI3AFailureThatIsFinalStaysSoWithoutTheJournal: the effect must not run again because its decision could not be recorded.
func TestI3AFailureThatIsFinalStaysSoWithoutTheJournal(t *testing.T) {
	guard := newGuard(t, memory.Open().Idempotency(), idempotency.GuardOptions{})
	p := exact(2)
	p.Retry.ClassifierName = "final"
	final := classify.Func(func(any, error) classify.Outcome {
		return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Reason: "refused"}
	})
	e := executor(t, p, func(o *retry.ExecutorOptions) {
		o.Journal, o.Classifiers = full{}, map[string]classify.Classifier{"final": final}
	})
	runs := 0
	for range 2 {
		err := e.Do(bg, key, func(context.Context) error { runs++; return errDown }, retry.WithIdempotency(guard, "k"))
		if err == nil {
			t.Error("no error")
		}
	}
	if runs != 1 {
		t.Errorf("the effect ran %d times", runs)
	}
}
