package retry_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestHugeTimeoutsDoNotOverflow checks that the sum of the elapsed time and a huge timeout does not wrap around and end the
// call at once. It runs outside a bubble, where the elapsed time counts from the start of the process.
func TestHugeTimeoutsDoNotOverflow(t *testing.T) {
	for _, huge := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, 200 * 365 * 24 * time.Hour} {
		p := exact(3)
		p.Retry.TimeoutPerAttempt, p.Retry.OverallTimeout = huge, huge
		l := &log{}
		e := executor(t, p, func(o *retry.ExecutorOptions) {
			o.Observer = l
			o.Wait = func(context.Context, time.Duration) error { return nil }
		})
		calls := 0
		err := e.Do(bg, key, func(ctx context.Context) error {
			if calls++; calls == 3 {
				return ctx.Err()
			}
			return errDown
		})
		if err != nil || calls != 3 || l.reports(policy.ReasonAttemptOverrun) != 0 {
			t.Errorf("timeouts of %v: %v after %d calls", huge, err, calls)
		}
	}
}
