package policy_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
)

func TestP8ANegativeSpreadMeansNone(t *testing.T) {
	p, err := policy.Policy{Retry: policy.Retry{Jitter: policy.JitterProportional, JitterFactor: -1}}.Normalize(policy.CallLimits())
	if err != nil || p.Retry.Jitter != policy.JitterNone || !slices.Contains(p.Meta.Clamped, "retry.jitter_factor") {
		t.Errorf("%q, clamped %q, %v", p.Retry.Jitter, p.Meta.Clamped, err)
	}
}

func TestACategoryDoesNotChangeAnInvalidPolicy(t *testing.T) {
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

func TestP1ASpreadOfNaNIsTheDefault(t *testing.T) {
	p, err := policy.Policy{Retry: policy.Retry{Jitter: policy.JitterProportional, JitterFactor: math.NaN()}}.Normalize(policy.CallLimits())
	if err != nil || p.Retry.JitterFactor != policy.CallLimits().JitterFactor || !slices.Contains(p.Meta.Defaulted, "retry.jitter_factor") {
		t.Errorf("%v, defaulted %q, %v", p.Retry.JitterFactor, p.Meta.Defaulted, err)
	}
}

func TestP12ACategoryFillsDefaultedFields(t *testing.T) {
	normal := func(r policy.Retry) policy.Retry {
		t.Helper()
		p, err := policy.Policy{Retry: r}.Normalize(policy.CallLimits())
		if err != nil {
			t.Fatal(err)
		}
		return p.UnderCategory(policy.KVGet, policy.CallLimits()).Retry
	}
	want, _ := policy.KVGet.Policy()
	got := normal(policy.Retry{})
	if got.MaxAttempts != want.MaxAttempts || got.InitialBackoff != want.InitialBackoff || got.MaxBackoff != want.MaxBackoff ||
		got.BackoffMultiplier != want.BackoffMultiplier || got.Jitter != want.Jitter || got.JitterFactor != want.JitterFactor {
		t.Errorf("of an empty policy: %+v", got)
	}
	own := policy.Retry{MaxAttempts: 7, InitialBackoff: 2 * time.Second, MaxBackoff: 20 * time.Second, BackoffMultiplier: 3, Jitter: policy.JitterFull, MaxPushback: time.Second}
	got = normal(own)
	if got.MaxAttempts != own.MaxAttempts || got.InitialBackoff != own.InitialBackoff || got.MaxBackoff != own.MaxBackoff ||
		got.BackoffMultiplier != own.BackoffMultiplier || got.Jitter != own.Jitter || got.MaxPushback != own.MaxPushback {
		t.Errorf("of a complete policy: %+v", got)
	}
}

func TestP8AnEmptyObjectIsNotWritten(t *testing.T) {
	text, err := json.Marshal(policy.Policy{Retry: policy.Retry{RetryOn: []policy.Class{}}})
	if err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
}
