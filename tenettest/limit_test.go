package tenettest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestB4TheWaitsForARateAreRecorded(t *testing.T) {
	p, err := policy.Compile(policy.Policy{Limit: policy.Limit{
		Rate: policy.Rate{Count: 10, Per: time.Second, Burst: 1}, MaxWait: time.Minute,
	}}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		e, waits := tenettest.NewExecutor(retry.ExecutorOptions{Provider: policy.NewSet(policy.SetConfig{Calls: p})})
		begin := time.Now()
		for range 3 {
			if err := e.Do(t.Context(), policy.ParseKey("partner-api.Send"), func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		want := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} // each from now, since nobody slept
		if diff := cmp.Diff(want, waits.All()); diff != "" || time.Since(begin) > 0 {
			t.Errorf("waits after %v: %s", time.Since(begin), diff)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Do(ctx, policy.ParseKey("partner-api.Send"), func(context.Context) error { return nil }); err == nil {
			t.Error("a cancelled call got a turn")
		}
	})
}
