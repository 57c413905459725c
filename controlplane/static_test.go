package controlplane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

func TestP7StaticCompilesOnce(t *testing.T) {
	given := map[policy.Key]policy.Policy{getUser: {ID: "rev-1", Retry: policy.Retry{MaxAttempts: 99}}}
	provider, err := NewStatic(given, nil)
	if err != nil {
		t.Fatal(err)
	}
	given[getUser] = policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}
	first := ask(t, provider, getUser, 10, policy.SourceStatic, nil) // clamped
	if diff := cmp.Diff([]string{"retry.max_attempts"}, first.Meta.Clamped); diff != "" {
		t.Error(diff)
	}
	if again := ask(t, provider, getUser, 10, policy.SourceStatic, nil); again != first {
		t.Error("the policy was compiled twice")
	}
	if _, versioned := policy.Provider(provider).(policy.Versioned); !versioned {
		t.Error("not a policy.Versioned: executors would ask at every call")
	}
}

func TestR2StaticMissingPolicyIsNeverAnError(t *testing.T) {
	job, step := policy.JobKey("mail", "send"), policy.ConsumerKey("orders", "process")
	fallback := policy.Policy{Retry: policy.Retry{MaxAttempts: 20, OverallTimeout: time.Minute}}
	with, err := NewStatic(nil, &fallback)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, with, getUser, 10, policy.SourceStatic, nil) // limits of calls
	ask(t, with, putUser, 10, policy.SourceStatic, nil)
	ask(t, with, job, 20, policy.SourceStatic, nil) // limits of jobs
	ask(t, with, step, 20, policy.SourceStatic, nil)

	for name, nothing := range map[string]*policy.Policy{"nil": nil, "zero": {}} {
		without, err := NewStatic(nil, nothing)
		if err != nil {
			t.Fatal(name, err)
		}
		got := ask(t, without, getUser, 3, policy.SourceDefault, nil)
		if want := policy.DefaultPolicyFor(getUser); !cmp.Equal(got.Retry, want.Retry) {
			t.Errorf("%s: %s", name, cmp.Diff(want.Retry, got.Retry))
		}
		ask(t, without, job, 25, policy.SourceDefault, nil)
	}
}

func TestP7StaticNamesEveryPolicyWithoutASafeReading(t *testing.T) {
	bad := policy.Policy{Retry: policy.Retry{Jitter: "wild"}}
	_, err := NewStatic(map[policy.Key]policy.Policy{getUser: bad, putUser: bad, {Name: "fine"}: {}}, &bad)
	if err == nil {
		t.Fatal("accepted")
	}
	contains(t, err.Error(), "user-service.GetUser: ", "user-service.PutUser: ", "fallback: ", "retry.jitter", "wild")
}
