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
	for name, c := range map[string]struct {
		delay, pushback, left time.Duration
		want                  decision.Verdict
	}{
		"as computed":             {3 * s, 0, decision.Unbounded, decision.Verdict{Action: decision.Retry, Delay: 3 * s, Reason: policy.ReasonRetry, External: true}},
		"negative is none":        {-s, 0, decision.Unbounded, decision.Verdict{Action: decision.Retry, Reason: policy.ReasonRetry, External: true}},
		"negative pushback":       {-s, -s, decision.Unbounded, decision.Verdict{Action: decision.Retry, Reason: policy.ReasonRetry, External: true}},
		"pushback is the least":   {s, 5 * s, decision.Unbounded, decision.Verdict{Action: decision.Retry, Delay: 5 * s, Reason: policy.ReasonRetry, External: true}},
		"pushback is bounded":     {s, 50 * s, decision.Unbounded, decision.Verdict{Action: decision.Retry, Delay: 10 * s, Reason: policy.ReasonRetry, External: true}},
		"the end comes first":     {3 * s, 0, 3 * s, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonOverallTimeout}},
		"just before the end":     {3 * s, 0, 3*s + 1, decision.Verdict{Action: decision.Retry, Delay: 3 * s, Reason: policy.ReasonRetry, External: true}},
		"longest, unbounded work": {math.MaxInt64, 0, decision.Unbounded, decision.Verdict{Action: decision.Retry, Delay: math.MaxInt64, Reason: policy.ReasonRetry, External: true}},
		"pushback after the end":  {0, 5 * s, 4 * s, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonOverallTimeout}},
	} {
		state := decision.State{Left: c.left, LeftReason: policy.ReasonOverallTimeout}
		got := decision.External(c.delay, state, classify.Outcome{Kind: classify.Retryable, Pushback: c.pushback}, 10*s)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
