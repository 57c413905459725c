package tenet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestR5TheFacadeReturnsTimelines(t *testing.T) {
	errDown := errors.New("down")
	calls := 0
	flaky := func(context.Context) error {
		if calls++; calls%2 == 1 {
			return errDown
		}
		return nil
	}
	key := tenet.ParseKey("user-service.GetUser")
	check := func(timeline observe.Timeline, err error) {
		t.Helper()
		if err != nil || timeline.Key != key || timeline.Reason != policy.ReasonSuccess || timeline.FinalError != nil || len(timeline.Attempts) != 2 ||
			!errors.Is(timeline.Attempts[0].Err, errDown) || timeline.Attributes.Get("shard") != "3" || timeline.CallID == "" {
			t.Errorf("%v: %+v", err, timeline)
		}
	}
	check(tenet.DoWithTimeline(t.Context(), key, flaky, retry.WithAttribute("shard", "3")))
	name, timeline, err := tenet.DoValueWithTimeline(t.Context(), key, func(ctx context.Context) (string, error) {
		return "Ada", flaky(ctx)
	}, retry.WithAttribute("shard", "3"))
	if check(timeline, err); name != "Ada" {
		t.Errorf("value %q", name)
	}

	fatal := func(context.Context) error { return tenet.Permanent(errDown) }
	timeline, err = tenet.DoWithTimeline(t.Context(), key, fatal)
	if !errors.Is(err, errDown) || timeline.FinalError != err || timeline.Reason != policy.ReasonNonRetryable || len(timeline.Attempts) != 1 {
		t.Errorf("%v: %+v", err, timeline)
	}
	name, timeline, err = tenet.DoValueWithTimeline(t.Context(), key, func(ctx context.Context) (string, error) { return "partial", fatal(ctx) })
	if name != "partial" || !errors.Is(err, errDown) || timeline.FinalError != err || len(timeline.Attempts) != 1 {
		t.Errorf("%q %v: %+v", name, err, timeline)
	}
}
