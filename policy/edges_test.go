package policy_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policy"
)

func TestP8ANegativeSpreadIsNone(t *testing.T) {
	p, err := policy.Policy{Retry: policy.Retry{Jitter: policy.JitterProportional, JitterFactor: -1}}.Normalize(policy.CallLimits())
	if err != nil || p.Retry.Jitter != policy.JitterNone || !slices.Contains(p.Meta.Clamped, "retry.jitter_factor") {
		t.Errorf("%q, clamped %q, %v", p.Retry.Jitter, p.Meta.Clamped, err)
	}
}

func TestACategoryLeavesAPolicyThatHasNoSafeReading(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{Jitter: "bogus"}}.UnderCategory(policy.APIRequest, policy.CallLimits())
	if p.Category != policy.APIRequest || p.Retry.Jitter != "bogus" || p.Retry.MaxAttempts != 0 {
		t.Errorf("%+v", p)
	}
}

func TestAPolicyThatCannotBeWrittenHasNoRevision(t *testing.T) {
	p := policy.Policy{Key: policy.ParseKey("billing.charge"), Retry: policy.Retry{BackoffMultiplier: math.NaN()}}
	if revision, err := p.Revise(); revision != "" || err == nil || !strings.Contains(err.Error(), "billing.charge") {
		t.Errorf("%q, %v", revision, err)
	}
}
