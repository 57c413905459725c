package audit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestB4RefusalsByALimitReplay records calls that a concurrency limit and a rate limit refuse, at their first attempt and at a
// retry. A replay takes each refusal as a fact.
func TestB4RefusalsByALimitReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := policy.Compile(policy.Policy{
			Retry: policy.Retry{MaxAttempts: 3, InitialBackoff: 10 * time.Millisecond, Jitter: policy.JitterNone},
			Limit: policy.Limit{Concurrency: 1, Rate: policy.Rate{Count: 1, Per: time.Minute, Burst: 3}},
		}, policy.CallLimits(), policy.SourceStatic)
		if err != nil {
			t.Fatal(err)
		}
		var sink audit.MemorySink
		log, err := audit.Open(t.Context(), &sink, audit.Options{Mode: audit.FailClosed})
		if err != nil {
			t.Fatal(err)
		}
		e := retry.NewExecutor(retry.ExecutorOptions{
			Provider: policy.NewSet(policy.SetConfig{Calls: p}), Observer: log, Journal: log,
		})
		down := errors.New("down")
		do := func(took time.Duration) error {
			return e.Do(t.Context(), policy.ParseKey("reports.Render"), func(context.Context) error { time.Sleep(took); return down })
		}
		var busy sync.WaitGroup
		busy.Go(func() { _ = do(time.Second) }) // its three attempts use up the rate
		time.Sleep(500 * time.Millisecond)
		if err := do(0); !errors.Is(err, retry.ErrLimited) {
			t.Errorf("a call beside one that runs: %v", err)
		}
		busy.Wait()
		if err := do(0); !errors.Is(err, retry.ErrLimited) {
			t.Errorf("a call without a turn: %v", err)
		}
		if err := log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		reasons := map[policy.Reason]int{}
		for _, event := range sink.Events() {
			reasons[event.Reason]++
		}
		if reasons[policy.ReasonConcurrencyLimited] == 0 || reasons[policy.ReasonRateLimited] == 0 {
			t.Errorf("recorded reasons: %v", reasons)
		}
		got := replay(t, &sink, audit.ReplayOptions{})
		if got.Works != 3 || got.Replayed != 3 || got.Diverged != 0 || got.CannotReplay.Total() != 0 {
			t.Errorf("%+v", got)
		}
	})
}
