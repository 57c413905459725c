package audit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestA4RealCallsReplay replays the records of executors: calls that succeed after retries, fail, are refused, cancelled,
// hedged or run out of time.
func TestA4RealCallsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &audit.MemorySink{}
		log, err := audit.Open(t.Context(), sink, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		set := setOf(
			compiled(t, "plain.Call", func(p *policy.Policy) {
				p.Retry.OverallTimeout, p.Retry.TimeoutPerAttempt = 80*time.Millisecond, 20*time.Millisecond
			}),
			compiled(t, "hedged.Call", func(p *policy.Policy) {
				p.Hedge = policy.Hedge{Enabled: true, MaxHedges: 2, HedgeDelay: 10 * time.Millisecond}
				p.Retry.Jitter = policy.JitterDecorrelated
			}),
			compiled(t, "broken.Call", func(p *policy.Policy) { p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 4} }),
		)
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: set, Observer: log, Journal: log})
		errs := []error{nil, errors.New("down"), classify.After(errors.New("busy"), 15*time.Millisecond), classify.Permanent(errors.New("no")), context.DeadlineExceeded}
		var n atomic.Int64
		calls := 0
		for i := range 300 {
			key := policy.ParseKey([]string{"plain.Call", "hedged.Call", "broken.Call"}[i%3])
			ctx, cancel := context.WithCancel(t.Context())
			if i%11 == 0 {
				time.AfterFunc(time.Duration(i)*time.Millisecond/5, cancel)
			}
			_ = e.Do(ctx, key, func(ctx context.Context) error {
				k := n.Add(1)
				select {
				case <-time.After(time.Duration(k*7%31) * time.Millisecond):
					return errs[k*3%int64(len(errs))]
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			cancel()
			calls++
			if i%17 == 0 {
				time.Sleep(20 * time.Second) // the breaker closes
			}
		}
		if err := errors.Join(e.Wait(t.Context()), log.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		heads, _ := sink.Heads(t.Context())
		if r := verify(t, sink, heads...); !r.Intact() || !r.TailVerified {
			t.Errorf("verify: %+v", r)
		}
		r := replay(t, sink, audit.ReplayOptions{})
		if r.Diverged > 0 || r.CannotReplay.Total() > 0 || r.Works != calls || r.Groups == 0 || r.Facts == 0 {
			t.Errorf("replay: %+v", r)
		}
		stats := statistics(t, sink).Total
		if stats.Calls != uint64(calls) || stats.Unfinished != 0 || stats.Attempts != uint64(n.Load()) {
			t.Errorf("%d calls, %d attempts: %+v", calls, n.Load(), stats)
		}
		same, err := audit.WhatIf(t.Context(), sink, set, audit.ReplayOptions{})
		if err != nil || same.Total.Same != calls {
			t.Errorf("what if: %+v, %v", same, err)
		}
	})
}
