package decision_test

import (
	"math"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

func TestD7ExternalDelaysAreMarkedAndBounded(t *testing.T) {
	const s = time.Second
	retry := func(d time.Duration) decision.Verdict {
		return decision.Verdict{Action: decision.Retry, Delay: d, Reason: policy.ReasonRetry, External: true}
	}
	stop := decision.Verdict{Action: decision.Stop, Reason: policy.ReasonOverallTimeout, External: true}
	for name, c := range map[string]struct {
		delay, pushback, left time.Duration
		want                  decision.Verdict
	}{
		"as computed":             {3 * s, 0, decision.Unbounded, retry(3 * s)},
		"negative means none":     {-s, 0, decision.Unbounded, retry(0)},
		"negative pushback":       {-s, -s, decision.Unbounded, retry(0)},
		"pushback is the least":   {s, 5 * s, decision.Unbounded, retry(5 * s)},
		"pushback is bounded":     {s, 50 * s, decision.Unbounded, retry(10 * s)},
		"the end comes first":     {3 * s, 0, 3 * s, stop},
		"just before the end":     {3 * s, 0, 3*s + 1, retry(3 * s)},
		"longest, unbounded work": {math.MaxInt64, 0, decision.Unbounded, retry(math.MaxInt64)},
		"pushback after the end":  {0, 5 * s, 4 * s, stop},
	} {
		state := decision.State{
			Surface: policy.SurfaceJob, Attempt: 1, MaxAttempts: 2, Left: c.left, LeftReason: policy.ReasonOverallTimeout, External: true, Delay: c.delay,
		}
		r := policy.Retry{MaxAttempts: 2, InitialBackoff: time.Hour, MaxPushback: 10 * s} // a backoff that must not be used
		if got := decision.Next(&r, &state, &classify.Outcome{Kind: classify.Retryable, Pushback: c.pushback}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
