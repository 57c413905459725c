package retry_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestTimeoutsOfCenturiesAreNone: the sum of the time that has passed and a huge timeout must not wrap around and end the
// call at once.
func TestTimeoutsOfCenturiesAreNone(t *testing.T) {
	for _, huge := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, 200 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := exact(3)
			p.Retry.TimeoutPerAttempt, p.Retry.OverallTimeout = huge, huge
			l := &log{}
			e := executor(t, p, func(o *retry.ExecutorOptions) { o.Observer = l })
			calls := 0
			err := e.Do(bg, key, func(ctx context.Context) error {
				if calls++; calls == 3 {
					time.Sleep(time.Hour)
					return ctx.Err()
				}
				return errDown
			})
			if err != nil || calls != 3 {
				t.Errorf("timeouts of %v: %v after %d calls", huge, err, calls)
			}
			if l.reports(policy.ReasonAttemptOverrun) != 0 || len(l.of(observe.CallEnded)) != 1 {
				t.Errorf("timeouts of %v: an overrun was reported", huge)
			}
		})
	}
}
