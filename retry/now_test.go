package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestR13RecordsFollowTheClock: an executor that counts on from a time it was told follows the clock all the same, also to
// another one.
func TestR13RecordsFollowTheClock(t *testing.T) {
	e := retry.NewExecutor(retry.ExecutorOptions{})
	follows := func() {
		t.Helper()
		before := time.Now()
		timeline, err := e.DoWithTimeline(context.Background(), policy.Key{Name: "x"}, func(context.Context) error { return nil })
		if after := time.Now(); err != nil || timeline.Start.Before(before) || timeline.End.After(after) {
			t.Error(err, before, timeline.Start, timeline.End, after)
		}
		if d := timeline.Start.Round(0).Sub(before.Round(0)); d.Abs() > time.Hour { // without the monotonic part
			t.Errorf("%v apart", d)
		}
	}
	follows()
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, time.Millisecond, time.Second - 1, time.Second, 1000 * time.Hour} {
			time.Sleep(wait)
			follows()
		}
	})
	follows()
}
